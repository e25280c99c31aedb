//! What is done in a folder beside object_store, which does not show what a write left that died: it writes `NAME#N` first
//! and renames it.

use std::fs::{self, DirEntry};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

/// A write that began so long ago has died.
const DEAD: Duration = Duration::from_secs(24 * 3600);

/// Takes away a folder with all that is in it, if it is there.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    ignore_missing(fs::remove_dir_all(folder)).map(|_| ())
}

/// Takes away what dead writes left within the tenants' folders; gives how many files.
pub(crate) fn sweep(root: &Path) -> io::Result<u64> {
    let mut gone = 0;
    for tenant in folders(root)? {
        for folder in folders(&tenant.path())? {
            for file in entries(&folder.path())? {
                if is_dead(&file)? && ignore_missing(fs::remove_file(file.path()))? {
                    gone += 1;
                }
            }
        }
    }
    Ok(gone)
}

fn is_dead(file: &DirEntry) -> io::Result<bool> {
    if !file.file_name().as_encoded_bytes().contains(&b'#') {
        return Ok(false);
    }
    let metadata = match file.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    // A time to come is no sign of death.
    Ok(metadata.is_file() && metadata.modified()?.elapsed().is_ok_and(|age| age > DEAD))
}

/// The folders within one; links are none.
fn folders(within: &Path) -> io::Result<Vec<DirEntry>> {
    let mut all = entries(within)?;
    all.retain(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Ok(all)
}

/// What is in a folder; nothing where there is none.
fn entries(folder: &Path) -> io::Result<Vec<DirEntry>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Whether it was there.
fn ignore_missing(done: io::Result<()>) -> io::Result<bool> {
    match done {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
