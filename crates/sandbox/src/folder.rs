//! The folder that a command works in: a copy of files that are somewhere else.

mod contents;
mod remove;

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::account;
pub use contents::{Found, FoundFile, Skipped, Stamp};

/// What the names of all folders begin with.
const PREFIX: &str = "answerable-shell-";
/// A folder that is younger may not be locked yet.
const YOUNG: Duration = Duration::from_secs(60);

/// A folder that is the command's own and nobody else's. It goes with this value.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    dir: Dir,
    /// Locked as long as this server lives: see [`Folder::sweep`].
    _lock: File,
}

impl Folder {
    pub(crate) fn new(within: &Path) -> io::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(within)?;
        if let Some(account) = account::other() {
            chown(folder.path(), Some(account.uid), Some(account.gid))?;
        }
        let lock = File::open(folder.path())?;
        lock.lock()?;
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority())?;
        Ok(Self { path: folder.keep(), dir, _lock: lock })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Takes away those within that nobody has locked, and says how many they were.
    pub(crate) fn sweep(within: &Path) -> io::Result<usize> {
        let old = SystemTime::now() - YOUNG;
        let mut swept = 0;
        for entry in fs::read_dir(within)?.flatten() {
            let is_ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
            let data = entry.metadata().ok().filter(fs::Metadata::is_dir);
            let is_old = data.and_then(|data| data.modified().ok()).is_some_and(|at| at < old);
            if is_ours
                && is_old
                && File::open(entry.path()).is_ok_and(|folder| folder.try_lock().is_ok())
                && remove::remove(&entry.path()).is_ok()
            {
                swept += 1;
            }
        }
        Ok(swept)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What can't be removed now is swept when a server starts.
        let _ = remove::remove(&self.path);
    }
}
