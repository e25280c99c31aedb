//! Takes away a tree that was made by somebody who may mean harm: as deep as can be, closed, full of odd things; and it
//! may change meanwhile. Each folder is opened within the one before it, by its own name, and no link is followed.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;

use cap_std::fs::Dir;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

/// A folder in `within` that may be closed to us, or no longer what it was: what is opened can be asked about and no more.
pub(super) fn held(within: impl AsFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(File::from(openat(within, name, flags, Mode::empty())?))
}

/// Opens what is held for reading.
pub(super) fn opened(held: &File) -> io::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let fd: OwnedFd = openat(held, ".", flags, Mode::empty())?;
    Ok(File::from(fd))
}

/// Lets us into what is held, whatever its owner, who may be we, thought of that.
pub(super) fn unlock(held: &File) -> io::Result<()> {
    // A mode can't be set through such a descriptor itself.
    fs::set_permissions(format!("/proc/self/fd/{}", held.as_raw_fd()), Permissions::from_mode(0o700))
}

/// Removes `root`, which is `name` in `within`, with all that is in it. A tree is made flat on the way: what is in a folder
/// moves up beside it, so that no depth needs a stack, or a path longer than the system takes.
pub(super) fn remove(within: &Dir, name: &OsStr, root: &Dir) -> io::Result<()> {
    let mut moved = 0u64;
    loop {
        let mut was_empty = true;
        for entry in root.entries()? {
            was_empty = false;
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                empty(root, &entry.file_name(), &mut moved)?;
                root.remove_dir(entry.file_name())?;
            } else {
                root.remove_file(entry.file_name())?;
            }
        }
        if was_empty {
            return within.remove_dir(name);
        }
    }
}

/// Removes the files of a folder in `root` and moves its folders up to there.
fn empty(root: &Dir, name: &OsStr, moved: &mut u64) -> io::Result<()> {
    let held = held(root, name)?;
    unlock(&held)?;
    let folder = Dir::from_std_file(opened(&held)?);
    for entry in folder.entries()? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            folder.remove_file(entry.file_name())?;
            continue;
        }
        // A folder that moves must be writable itself.
        unlock(&self::held(&folder, &entry.file_name())?)?;
        while root.symlink_metadata(place(*moved)).is_ok() {
            *moved += 1;
        }
        folder.rename(entry.file_name(), root, place(*moved))?;
    }
    Ok(())
}

fn place(number: u64) -> String {
    format!("moved-{number}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use cap_std::ambient_authority;

    fn dir(path: &Path) -> Dir {
        Dir::open_ambient_dir(path, ambient_authority()).expect("a folder")
    }

    /// A folder that nobody may touch, with a file.
    fn kept(within: &Path) -> std::path::PathBuf {
        let kept = within.join("kept");
        fs::create_dir(&kept).expect("a folder");
        fs::write(kept.join("file"), "x").expect("a file");
        fs::set_permissions(&kept, Permissions::from_mode(0o751)).expect("its mode");
        kept
    }

    fn is_whole(kept: &Path) -> bool {
        let mode = fs::metadata(kept).expect("it stays").permissions().mode();
        fs::read(kept.join("file")).expect("it stays") == b"x" && mode & 0o777 == 0o751
    }

    #[test]
    fn a_tree_that_is_deep_closed_and_odd_goes_and_what_it_points_to_stays() {
        let temp = tempfile::tempdir().expect("a folder");
        let kept = kept(temp.path());
        let root = temp.path().join("root");
        fs::create_dir_all(root.join("moved-0/closed/within")).expect("folders");
        fs::write(root.join("moved-1"), "in the way").expect("a file");
        symlink(&kept, root.join("moved-0/out")).expect("a link");
        symlink(&kept, root.join("out")).expect("a link");
        fs::set_permissions(root.join("moved-0/closed"), Permissions::from_mode(0o000)).expect("its mode");
        let mut deeper = dir(&root);
        for _ in 0..1000 {
            deeper.create_dir("deeper").expect("a folder");
            deeper = deeper.open_dir("deeper").expect("it");
        }
        remove(&dir(temp.path()), OsStr::new("root"), &dir(&root)).expect("it goes");
        assert!(!root.exists());
        assert!(is_whole(&kept));
    }

    #[test]
    fn a_tree_that_changes_under_it_leads_nowhere() {
        let temp = tempfile::tempdir().expect("a folder");
        let kept = kept(temp.path());
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // A folder turns into a link and back. Each of these may fail, as what they work on goes.
                    for at in ["root/a", "root/a/b"].map(|at| temp.path().join(at)) {
                        let _ = fs::create_dir(&at);
                        let _ = fs::rename(&at, temp.path().join("aside"));
                        let _ = symlink(&kept, &at);
                        let _ = fs::remove_file(&at);
                        let _ = fs::rename(temp.path().join("aside"), &at);
                    }
                }
            });
            let end = Instant::now() + Duration::from_secs(2);
            while Instant::now() < end {
                let root = temp.path().join("root");
                fs::create_dir_all(&root).expect("a folder");
                let _ = fs::create_dir_all(root.join("a/b"));
                // It may fail on what changed; the next one goes on.
                let _ = remove(&dir(temp.path()), OsStr::new("root"), &dir(&root));
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(is_whole(&kept));
    }
}
