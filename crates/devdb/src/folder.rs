//! The data folder: where it lies, whose it is, and who holds it.

use std::fs::{self, File, Permissions, TryLockError};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Error;
use crate::account::Account;

/// Homes for data whose wanted place the server's account can't enter.
const ELSEWHERE: [&str; 2] = ["/var/lib/answerable", "/var/tmp/answerable"];

/// Makes the data folder `wanted`, or follows or makes its link to a place that `account` can enter.
/// Returns its real path. The folder is the account's, and nobody else may look inside.
pub(crate) fn prepare(wanted: &Path, account: Option<Account>) -> Result<PathBuf, Error> {
    let bad = |e: std::io::Error| Error::folder(wanted, e);
    let wanted = std::path::absolute(wanted).map_err(bad)?;
    fs::create_dir_all(wanted.parent().unwrap_or(&wanted)).map_err(bad)?;
    if fs::symlink_metadata(&wanted).is_ok_and(|meta| meta.is_symlink()) && !wanted.exists() {
        // What the link stood for is gone, and so is the data.
        fs::remove_file(&wanted).map_err(bad)?;
    }
    let reachable =
        |path: &Path| account.is_none_or(|account| path.parent().is_none_or(|p| account.can_enter(p)));
    let parent = wanted.parent().unwrap_or(&wanted).canonicalize().map_err(bad)?;
    let real = wanted.canonicalize().unwrap_or_else(|_| parent.join(wanted.file_name().unwrap_or_default()));
    let real = if reachable(&real) { real } else { relocate(&wanted)? };
    fs::create_dir_all(&real).map_err(bad)?;
    if let Some(account) = account {
        account.give(&real)?;
    }
    fs::set_permissions(&real, Permissions::from_mode(0o700)).map_err(bad)?;
    Ok(real)
}

/// Makes a fresh folder elsewhere and leaves a link to it at `wanted`, which must be empty or missing.
fn relocate(wanted: &Path) -> Result<PathBuf, Error> {
    let bad = |e: std::io::Error| Error::folder(wanted, e);
    if wanted.exists() && fs::remove_dir(wanted).is_err() {
        let reason = "as root PostgreSQL runs under another account, which can't enter the folders above it";
        return Err(Error::folder(wanted, reason));
    }
    let base = ELSEWHERE
        .iter()
        .map(Path::new)
        .find(|base| fs::create_dir_all(base).is_ok() && is_roots_alone(base))
        .ok_or_else(|| Error::folder(wanted, format!("neither {} can be made", ELSEWHERE.join(" nor "))))?;
    let place = tempfile::Builder::new().prefix("pg-").tempdir_in(base).map_err(bad)?.keep();
    fs::set_permissions(&place, Permissions::from_mode(0o711)).map_err(bad)?;
    fs::write(place.join("made-for"), wanted.as_os_str().as_encoded_bytes()).map_err(bad)?;
    let real = place.join("data");
    symlink(&real, wanted).map_err(bad)?;
    Ok(real)
}

fn is_roots_alone(dir: &Path) -> bool {
    fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.uid() == 0 && meta.mode() & 0o022 == 0)
}

/// Takes the data folder for this process, waiting for another owner to let go of it until `deadline`.
/// It is held until the returned file is dropped.
pub(crate) fn hold(dir: &Path, deadline: Instant) -> Result<File, Error> {
    let path = dir.join("lock");
    let file = File::options().create(true).append(true).open(&path).map_err(|e| Error::folder(dir, e))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(e)) => return Err(Error::folder(dir, e)),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                return Err(Error::InUse { dir: dir.to_owned(), pid: None });
            }
            Err(TryLockError::WouldBlock) => sleep(Duration::from_millis(20)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_private_and_held_by_one() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let real = prepare(&dir.path().join("a/b"), None).expect("prepared");
        assert_eq!(real.metadata().expect("metadata").mode() & 0o777, 0o700);
        let held = hold(&real, Instant::now()).expect("held");
        let error = hold(&real, Instant::now()).expect_err("held by another");
        assert!(error.to_string().ends_with("is in use by another process"), "{error}");
        drop(held);
        hold(&real, Instant::now()).expect("free again");
    }
}
