//! What is in a sandbox's folder. It changes while it is looked at, by somebody who may mean harm: each folder is opened
//! within the one before it, never by a path, and no link is followed out.

use std::io;

use cap_std::fs::{Dir, MetadataExt, ReadDir};

/// Folders within each other that are looked into. A workspace's paths are half as deep.
const DEPTH: usize = 64;

/// What a folder holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Disk {
    /// Bytes on disk.
    pub(crate) bytes: u64,
    /// Files, folders and all else.
    pub(crate) entries: u64,
    /// There are folders that are too deep to be looked into.
    pub(crate) is_too_deep: bool,
}

/// A walk through a folder, in parts: whoever walks has other things to look at meanwhile.
#[derive(Debug)]
pub(crate) struct Walk {
    /// Folders within each other, as far as they were read.
    open: Vec<ReadDir>,
    /// What was seen so far.
    pub(crate) seen: Disk,
}

impl Walk {
    pub(crate) fn new(folder: &Dir) -> io::Result<Self> {
        Ok(Self { open: vec![folder.entries()?], seen: Disk::default() })
    }

    /// Goes on for so many entries; whether there is more. What vanishes meanwhile is not counted.
    pub(crate) fn go_on(&mut self, entries: usize) -> bool {
        for _ in 0..entries {
            let Some(within) = self.open.last_mut() else { return false };
            match within.next() {
                Some(Ok(entry)) => self.look_at(&entry),
                Some(Err(_)) => {}
                None => {
                    self.open.pop();
                }
            }
        }
        !self.open.is_empty()
    }

    fn look_at(&mut self, entry: &cap_std::fs::DirEntry) {
        let Ok(data) = entry.metadata() else { return };
        self.seen.entries += 1;
        self.seen.bytes += data.blocks() * 512;
        if data.is_dir() && self.open.len() >= DEPTH {
            self.seen.is_too_deep = true;
        } else if data.is_dir()
            && let Ok(within) = entry.open_dir().and_then(|within| within.entries())
        {
            self.open.push(within);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cap_std::ambient_authority;

    fn whole(dir: &Dir, part: usize) -> Disk {
        let mut walk = Walk::new(dir).expect("a walk");
        while walk.go_on(part) {}
        walk.seen
    }

    #[test]
    fn files_are_counted_links_are_not_followed_and_depth_has_an_end() {
        let temp = tempfile::tempdir().expect("a folder");
        let dir = Dir::open_ambient_dir(temp.path(), ambient_authority()).expect("it");
        dir.create_dir_all("a/b").expect("folders");
        dir.write("a/b/c", [7u8; 10_000]).expect("a file");
        std::os::unix::fs::symlink("/usr", temp.path().join("out")).expect("a link");
        for part in [1, 3, 100] {
            let seen = whole(&dir, part);
            assert_eq!((seen.entries, seen.is_too_deep), (4, false));
            assert!(seen.bytes >= 10_000 && seen.bytes < 100_000, "{seen:?}");
        }
        let mut walk = Walk::new(&dir).expect("a walk");
        assert!(walk.go_on(2) && walk.seen.entries <= 2, "it is done in parts");
        let deep = vec!["d"; 80].join("/");
        dir.create_dir_all(&deep).expect("folders");
        let seen = whole(&dir, 1000);
        assert!(seen.is_too_deep && seen.entries < 80);
    }
}
