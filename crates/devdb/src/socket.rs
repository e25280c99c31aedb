//! The folder of the server's Unix socket: its path must be short, and nobody else may enter it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Error;
use crate::account::Account;

/// The kernel takes 107 bytes for the whole path of a socket; `/.s.PGSQL.5432.lock` comes on top.
const LONGEST: usize = 80;

/// A folder for the socket, in the data folder or, where that path is long, a temporary one.
#[derive(Debug)]
pub(crate) struct SocketFolder {
    path: String,
    _temporary: Option<TempDir>,
}

impl SocketFolder {
    pub(crate) fn prepare(data_dir: &Path, account: Option<Account>) -> Result<Self, Error> {
        let near = data_dir.join("socket");
        let (dir, temporary) = match usable(&near) {
            Some(_) => (near, None),
            None => {
                let temporary = temporary(account).map_err(|e| Error::folder(&near, e))?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        fs::create_dir_all(&dir).map_err(|e| Error::folder(&dir, e))?;
        fs::set_permissions(&dir, Permissions::from_mode(0o700)).map_err(|e| Error::folder(&dir, e))?;
        if let Some(account) = account {
            account.give(&dir)?;
        }
        // Whatever a killed server left here would be in the way if its process id is in use again.
        for name in [".s.PGSQL.5432", ".s.PGSQL.5432.lock"] {
            let _ = fs::remove_file(dir.join(name));
        }
        let path =
            usable(&dir).ok_or_else(|| Error::folder(&dir, "its path is too long for a socket"))?.to_owned();
        Ok(Self { path, _temporary: temporary })
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

/// The path as text if it is short and needs no quoting in `unix_socket_directories`.
fn usable(dir: &Path) -> Option<&str> {
    let plain = |c: char| c.is_alphanumeric() || "/._-+~".contains(c);
    dir.to_str().filter(|path| path.len() <= LONGEST && path.chars().all(plain))
}

fn temporary(account: Option<Account>) -> std::io::Result<TempDir> {
    // The own run-time folder is closed to any other account.
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|_| account.is_none());
    let builder = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix("answerable-pg-").permissions(Permissions::from_mode(0o700));
        builder
    };
    match runtime.filter(|dir| dir.is_absolute() && dir.as_os_str().len() <= LONGEST - 24) {
        Some(dir) => builder().tempdir_in(dir).or_else(|_| builder().tempdir_in("/tmp")),
        None => builder().tempdir_in("/tmp"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_data_folder_holds_the_socket_itself() {
        let dir = tempfile::tempdir_in("/tmp").expect("temporary folder");
        let socket = SocketFolder::prepare(dir.path(), None).expect("prepared");
        assert_eq!(socket.path(), dir.path().join("socket").to_str().expect("text"));
    }

    #[test]
    fn a_long_or_odd_one_gets_a_short_folder_that_goes_with_it() {
        let dir = tempfile::tempdir_in("/tmp").expect("temporary folder");
        for name in ["x".repeat(90), "with, comma".to_owned()] {
            let socket = SocketFolder::prepare(&dir.path().join(name), None).expect("prepared");
            let path = PathBuf::from(socket.path());
            assert!(path.as_os_str().len() <= LONGEST && !path.starts_with(dir.path()), "{path:?}");
            assert_eq!(path.metadata().expect("metadata").permissions().mode() & 0o777, 0o700);
            drop(socket);
            assert!(!path.exists());
        }
    }
}
