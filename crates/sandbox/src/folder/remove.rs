//! Takes away a tree that was made by somebody who may mean harm: as deep as can be, closed, full of odd things. Nothing
//! of it runs any more.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Removes the folder with all that is in it. No link is followed. A tree is made flat on the way: what is in a folder
/// moves up beside it, so that no depth needs a stack, or a path longer than the system takes.
pub(super) fn remove(root: &Path) -> io::Result<()> {
    open(root)?;
    let mut moved = 0u64;
    loop {
        let mut was_empty = true;
        for entry in fs::read_dir(root)? {
            was_empty = false;
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                empty(&entry.path(), root, &mut moved)?;
                fs::remove_dir(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        if was_empty {
            return fs::remove_dir(root);
        }
    }
}

/// Removes the files of a folder and moves its folders up to `root`.
fn empty(folder: &Path, root: &Path, moved: &mut u64) -> io::Result<()> {
    open(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            fs::remove_file(entry.path())?;
            continue;
        }
        // A folder that moves must be writable itself.
        open(&entry.path())?;
        let mut to = root.join(format!("moved-{moved}"));
        while fs::symlink_metadata(&to).is_ok() {
            *moved += 1;
            to = root.join(format!("moved-{moved}"));
        }
        fs::rename(entry.path(), to)?;
    }
    Ok(())
}

fn open(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cap_std::ambient_authority;
    use cap_std::fs::Dir;

    #[test]
    fn a_tree_that_is_deep_closed_and_odd_goes_and_what_it_points_to_stays() {
        let temp = tempfile::tempdir().expect("a folder");
        let kept = temp.path().join("kept");
        fs::create_dir(&kept).expect("a folder");
        fs::write(kept.join("file"), "x").expect("a file");
        let root = temp.path().join("root");
        fs::create_dir_all(root.join("moved-0/closed/within")).expect("folders");
        fs::write(root.join("moved-1"), "in the way").expect("a file");
        std::os::unix::fs::symlink(&kept, root.join("moved-0/out")).expect("a link");
        fs::set_permissions(root.join("moved-0/closed"), Permissions::from_mode(0o000)).expect("its mode");
        let mut dir = Dir::open_ambient_dir(&root, ambient_authority()).expect("it");
        for _ in 0..3000 {
            dir.create_dir("deeper").expect("a folder");
            dir = dir.open_dir("deeper").expect("it");
        }
        remove(&root).expect("it goes");
        assert!(!root.exists());
        assert_eq!(fs::read(kept.join("file")).expect("it stays"), b"x");
    }
}
