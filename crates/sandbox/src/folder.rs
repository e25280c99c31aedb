//! The folder that a command works in: a copy of files that are somewhere else.

mod contents;
mod remove;

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use nix::unistd::geteuid;
use tokio::runtime::Handle;

use crate::account;
use crate::sandbox::Place;
pub use contents::{Found, FoundFile, Skipped, Stamp};

/// What the names of all folders begin with.
const PREFIX: &str = "answerable-shell-";
/// A folder that is younger may not be locked yet.
const YOUNG: Duration = Duration::from_secs(60);

/// A folder that is the command's own and nobody else's. It goes with this value, and then its place is free.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    dir: Dir,
    remains: Option<Remains>,
}

impl Folder {
    pub(crate) fn new(within: &Path, place: Option<Place>) -> io::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(within)?;
        let within = Dir::open_ambient_dir(within, ambient_authority())?;
        let name = folder.path().file_name().unwrap_or_default().to_owned();
        let lock = remove::opened(&remove::held(&within, &name)?)?;
        lock.lock()?;
        if let Some(account) = account::other() {
            fchown(&lock, Some(account.uid), Some(account.gid))?;
        }
        let dir = Dir::from_std_file(lock.try_clone()?);
        let remains = Remains { within, name, lock, _place: place };
        Ok(Self { path: folder.keep(), dir, remains: Some(remains) })
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
        let within = Dir::open_ambient_dir(within, ambient_authority())?;
        let mut swept = 0;
        for entry in within.entries()?.flatten() {
            let name = entry.file_name();
            if name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
                && let Ok(Some(lock)) = left(&within, &name)
                && remove::remove(&within, &name, &Dir::from_std_file(lock)).is_ok()
            {
                swept += 1;
            }
        }
        Ok(swept)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let Some(remains) = self.remains.take() else { return };
        match Handle::try_current() {
            // There may be very many files, and others wait for this thread.
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(remains))),
            Err(_) => drop(remains),
        }
    }
}

/// A folder, for as long as it is there.
#[derive(Debug)]
struct Remains {
    within: Dir,
    name: OsString,
    /// The folder itself, locked as long as this server lives: see [`Folder::sweep`].
    lock: File,
    _place: Option<Place>,
}

impl Drop for Remains {
    fn drop(&mut self) {
        // What can't be removed now is swept later.
        let _ = self.remove();
    }
}

impl Remains {
    fn remove(&self) -> io::Result<()> {
        // The command may have closed it.
        self.lock.set_permissions(Permissions::from_mode(0o700))?;
        remove::remove(&self.within, &self.name, &Dir::from_std_file(self.lock.try_clone()?))
    }
}

/// A folder that a server left behind which is gone, opened and locked.
fn left(within: &Dir, name: &OsStr) -> io::Result<Option<File>> {
    let held = remove::held(within, name)?;
    let data = held.metadata()?;
    let owner = account::other().map_or(geteuid().as_raw(), |account| account.uid);
    // A server that died early had not given it away yet.
    let is_ours = data.uid() == owner || data.uid() == geteuid().as_raw();
    if !is_ours || data.modified()? > SystemTime::now() - YOUNG {
        return Ok(None);
    }
    let folder = match remove::opened(&held) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            remove::unlock(&held)?;
            remove::opened(&held)?
        }
        folder => folder?,
    };
    if folder.try_lock().is_err() {
        return Ok(None);
    }
    remove::unlock(&held)?;
    Ok(Some(folder))
}
