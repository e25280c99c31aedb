//! What `answerable dev` keeps between starts, each in a file of its own that only its owner reads.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use secrecy::SecretString;

use super::Invalid;

/// The data folder of `answerable dev`.
#[derive(Clone, Debug)]
pub struct DataFolder(PathBuf);

impl DataFolder {
    /// Opens the folder, making it if it is missing, and keeps it out of version control.
    ///
    /// # Errors
    /// The folder can't be made or written.
    pub fn open(path: &Path) -> Result<Self, Invalid> {
        let folder = Self(std::path::absolute(path).map_err(|e| unusable(path, &e))?);
        fs::create_dir_all(&folder.0).map_err(|e| unusable(path, &e))?;
        let ignore = folder.0.join(".gitignore");
        if !ignore.exists() {
            fs::write(&ignore, "*\n").map_err(|e| unusable(&ignore, &e))?;
        }
        Ok(folder)
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What is kept under `name`, if anything is.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn read(&self, name: &str) -> Result<Option<String>, Invalid> {
        let path = self.0.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(unusable(&path, &e)),
        }
    }

    /// Keeps `text` under `name`, in place of what was there.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn write(&self, name: &str, text: &str) -> Result<(), Invalid> {
        let path = self.0.join(name);
        let fresh = self.0.join(format!("{name}.new"));
        let write = || -> std::io::Result<()> {
            // Made anew, so that the mode holds from the first byte on.
            let _ = fs::remove_file(&fresh);
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&fresh)?;
            writeln!(file, "{text}")?;
            file.sync_all()?;
            fs::rename(&fresh, &path)
        };
        write().map_err(|e| unusable(&path, &e))
    }

    /// The random key kept under `name`: 64 hexadecimal digits, made at the first call.
    ///
    /// # Errors
    /// The file can't be read or written.
    pub fn key(&self, name: &str) -> Result<SecretString, Invalid> {
        if let Some(key) = self.read(name)? {
            return Ok(key.into());
        }
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes).map_err(|e| Invalid(format!("no random bytes to be had: {e}")))?;
        let key: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.write(name, &key)?;
        Ok(key.into())
    }
}

fn unusable(path: &Path, error: &std::io::Error) -> Invalid {
    Invalid(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_is_its_owners_alone() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let folder = DataFolder::open(&dir.path().join("a/b")).expect("opened");
        let key = folder.key("operator-key").expect("made");
        assert_eq!(key.expose_secret().len(), 64);
        let again = DataFolder::open(&dir.path().join("a/b")).and_then(|folder| folder.key("operator-key"));
        assert_eq!(again.expect("read").expose_secret(), key.expose_secret());
        assert_ne!(folder.key("secret-key").expect("made").expose_secret(), key.expose_secret());
        let mode = folder.path().join("operator-key").metadata().expect("metadata").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_is_written_again_is_replaced() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let folder = DataFolder::open(dir.path()).expect("opened");
        assert_eq!(folder.read("api-key").expect("read"), None);
        folder.write("api-key", "one").expect("written");
        folder.write("api-key", "two").expect("written");
        assert_eq!(folder.read("api-key").expect("read").as_deref(), Some("two"));
    }
}
