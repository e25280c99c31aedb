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

/// Looks through `folder`, until it has seen more than `most` entries. What vanishes meanwhile is not counted.
pub(crate) fn disk(folder: &Dir, most: u64) -> io::Result<Disk> {
    let mut seen = Disk::default();
    let mut open: Vec<ReadDir> = vec![folder.entries()?];
    while let Some(entries) = open.last_mut() {
        let Some(entry) = entries.next() else {
            open.pop();
            continue;
        };
        let Some((entry, data)) =
            entry.ok().and_then(|entry| entry.metadata().ok().map(|data| (entry, data)))
        else {
            continue;
        };
        seen.entries += 1;
        seen.bytes += data.blocks() * 512;
        if seen.entries > most {
            break;
        }
        if data.is_dir() && open.len() >= DEPTH {
            seen.is_too_deep = true;
        } else if data.is_dir()
            && let Ok(within) = entry.open_dir().and_then(|within| within.entries())
        {
            open.push(within);
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cap_std::ambient_authority;

    #[test]
    fn files_are_counted_links_are_not_followed_and_depth_has_an_end() {
        let temp = tempfile::tempdir().expect("a folder");
        let dir = Dir::open_ambient_dir(temp.path(), ambient_authority()).expect("it");
        dir.create_dir_all("a/b").expect("folders");
        dir.write("a/b/c", [7u8; 10_000]).expect("a file");
        std::os::unix::fs::symlink("/usr", temp.path().join("out")).expect("a link");
        let seen = disk(&dir, 100).expect("its content");
        assert_eq!((seen.entries, seen.is_too_deep), (4, false));
        assert!(seen.bytes >= 10_000 && seen.bytes < 100_000, "{seen:?}");
        assert_eq!(disk(&dir, 1).expect("its content").entries, 2);
        let deep = vec!["d"; 80].join("/");
        dir.create_dir_all(&deep).expect("folders");
        let seen = disk(&dir, 1000).expect("its content");
        assert!(seen.is_too_deep && seen.entries < 80);
    }
}
