//! Puts files into a folder, and finds what a command left there.

use std::collections::BTreeMap;
use std::fs::Permissions as Mode;
use std::io::{self, Read};
use std::os::unix::fs::fchown;
use std::path::Path;
use std::time::SystemTime;

use cap_std::fs::{File, MetadataExt, OpenOptions, OpenOptionsExt, Permissions, ReadDir};
use nix::fcntl::AtFlags;
use nix::unistd::{Gid, Uid, fchownat};
use std::os::unix::fs::PermissionsExt;

use super::Folder;
use crate::account::{self, Account};

/// Tells a file that was not touched from one that was. A command can set a file's times, but not the one at which they
/// were set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    file: u64,
    bytes: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

/// A file that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// Bytes.
    pub bytes: u64,
    /// As it is now.
    pub stamp: Stamp,
}

/// Something that is no file which can be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Where, as it can be shown.
    pub path: String,
    /// What it is.
    pub why: &'static str,
}

/// What a command left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Its files by their paths.
    pub files: BTreeMap<String, FoundFile>,
    /// What is beside them.
    pub skipped: Vec<Skipped>,
    /// Not all was looked at: there was too much.
    pub is_cut: bool,
}

impl Folder {
    /// Writes a file, and the folders that it is in. `written` is when it was written where it comes from. Blocks.
    ///
    /// # Errors
    /// The system's; a path that leads out is refused.
    pub fn put(&self, path: &str, bytes: &[u8], written: SystemTime) -> io::Result<Stamp> {
        if let Some(folder) = Path::new(path).parent().filter(|folder| !folder.as_os_str().is_empty()) {
            self.make(folder)?;
        }
        let mut file =
            self.dir.open_with(path, OpenOptions::new().write(true).create_new(true).mode(0o644))?;
        io::Write::write_all(&mut file, bytes)?;
        let file = file.into_std();
        give(&file)?;
        file.set_modified(written)?;
        Ok(stamp(&File::from_std(file).metadata()?))
    }

    fn make(&self, folder: &Path) -> io::Result<()> {
        if self.dir.symlink_metadata(folder).is_ok() {
            return Ok(());
        }
        if let Some(outer) = folder.parent().filter(|outer| !outer.as_os_str().is_empty()) {
            self.make(outer)?;
        }
        match self.dir.create_dir(folder) {
            // Somebody who puts another file into it was quicker.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            made => made?,
        }
        if let Some(Account { uid, gid }) = account::other() {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            fchownat(&self.dir, folder, Some(uid), Some(gid), AtFlags::AT_SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    /// What is there, no link followed and nothing opened but folders. It is not all if there was too much, or it was too
    /// deep. Blocks.
    ///
    /// # Errors
    /// The system's.
    pub fn find(&self, most_entries: usize, most_depth: usize) -> io::Result<Found> {
        let mut found = Found::default();
        let mut folders = vec![(String::new(), 0)];
        let mut seen = 0;
        while let Some((folder, depth)) = folders.pop() {
            let entries = match self.entries(&folder) {
                // Names that are short enough make a path that is not.
                Err(error) if error.raw_os_error() == Some(libc::ENAMETOOLONG) => {
                    found.is_cut = true;
                    return Ok(found);
                }
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                seen += 1;
                if seen > most_entries || depth > most_depth {
                    found.is_cut = true;
                    return Ok(found);
                }
                let Ok(name) = entry.file_name().into_string() else {
                    let shown = entry.file_name().to_string_lossy().into_owned();
                    found.skip(within(&folder, &shown), "its name is no UTF-8");
                    continue;
                };
                let (path, data) = (within(&folder, &name), entry.metadata()?);
                if data.is_dir() {
                    folders.push((path, depth + 1));
                } else if data.is_file() {
                    found.files.insert(path, FoundFile { bytes: data.len(), stamp: stamp(&data) });
                } else {
                    let why = if data.is_symlink() { "a link" } else { "no file: a pipe, socket or device" };
                    found.skip(path, why);
                }
            }
        }
        Ok(found)
    }

    fn entries(&self, folder: &str) -> io::Result<ReadDir> {
        if folder.is_empty() {
            return self.dir.entries();
        }
        // The command may have closed it.
        self.dir.set_permissions(folder, Permissions::from_std(Mode::from_mode(0o700)))?;
        self.dir.open_dir(folder)?.entries()
    }

    /// The content of a file that was found; no more than `most` bytes. Blocks.
    ///
    /// # Errors
    /// It can't be read, or is longer.
    pub fn read(&self, path: &str, most: u64) -> io::Result<Vec<u8>> {
        if !self.dir.symlink_metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
        }
        self.dir.set_permissions(path, Permissions::from_std(Mode::from_mode(0o600)))?;
        let file = self.dir.open_with(path, OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK))?;
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too long"));
        }
        Ok(bytes)
    }
}

impl Found {
    fn skip(&mut self, path: String, why: &'static str) {
        self.skipped.push(Skipped { path, why });
    }
}

fn within(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// Makes a file the command's own.
fn give(file: &std::fs::File) -> io::Result<()> {
    match account::other() {
        Some(Account { uid, gid }) => fchown(file, Some(uid), Some(gid)),
        None => Ok(()),
    }
}

fn stamp(data: &cap_std::fs::Metadata) -> Stamp {
    Stamp {
        file: data.ino(),
        bytes: data.len(),
        written: (data.mtime(), data.mtime_nsec()),
        changed: (data.ctime(), data.ctime_nsec()),
    }
}

#[cfg(test)]
mod tests;
