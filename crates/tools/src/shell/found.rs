//! What a command changed in its folder.

use std::collections::BTreeMap;
use std::io;

use answerable_core::workspace::{FilePath, MAX_DEPTH, MAX_FILE_BYTES, MAX_FILES};
use answerable_ports::{BlobHash, FileAt};
use answerable_sandbox::{Folder, Skipped};
use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::bring::Copied;

/// Entries of a folder that are looked at: a full workspace, its folders, and as much again.
const MOST_ENTRIES: usize = 4 * MAX_FILES as usize;
/// Bytes of all changed files together: they are in memory until they are committed.
const MOST_CHANGED: u64 = 256 << 20;

/// A file that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) path: FilePath,
    /// What it was.
    pub(super) before: Option<FileAt>,
    /// What it is.
    pub(super) after: Option<Bytes>,
}

/// What became of a folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) files: Vec<Changed>,
    /// What can't be kept, and is left behind.
    pub(super) skipped: Vec<Skipped>,
}

/// Why nothing of it can be kept.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    /// It is more than a workspace takes; in words.
    #[error("{0}")]
    OverLimit(String),
    /// The system failed.
    #[error(transparent)]
    Failed(#[from] io::Error),
}

/// Compares a folder with what was put there. Blocks.
pub(super) fn changes(folder: &Folder, before: &BTreeMap<String, Copied>) -> Result<Changes, Unfit> {
    let found = folder.find(MOST_ENTRIES, MAX_DEPTH)?;
    if found.is_cut {
        let words = format!(
            "it left more than {MOST_ENTRIES} files, or folders more than {MAX_DEPTH} deep, or with names that are too long"
        );
        return Err(Unfit::OverLimit(words));
    }
    let mut changes = Changes { skipped: found.skipped, files: Vec::new() };
    let mut bytes = 0;
    for (path, file) in &found.files {
        let known = before.get(path);
        if known.is_some_and(|known| known.stamp == file.stamp) {
            continue;
        }
        let Ok(parsed) = FilePath::parse(path) else {
            changes.skipped.push(Skipped { path: path.clone(), why: "no path of a workspace" });
            continue;
        };
        if file.bytes > MAX_FILE_BYTES {
            let words = format!("{path} has {} bytes; a file may have {MAX_FILE_BYTES}", file.bytes);
            return Err(Unfit::OverLimit(words));
        }
        bytes += file.bytes;
        if bytes > MOST_CHANGED {
            let words = format!("it changed more than {MOST_CHANGED} bytes of files");
            return Err(Unfit::OverLimit(words));
        }
        let content = folder.read(path, MAX_FILE_BYTES)?;
        let before = known.map(|known| known.file.clone());
        if before.as_ref().is_none_or(|before| before.hash != hash(&content)) {
            changes.files.push(Changed { path: parsed, before, after: Some(content.into()) });
        }
    }
    changes.skipped.sort_by(|a, b| a.path.cmp(&b.path));
    let gone = before.iter().filter(|(path, _)| !found.files.contains_key(*path));
    changes.files.extend(gone.map(|(_, known)| Changed {
        path: known.file.path.clone(),
        before: Some(known.file.clone()),
        after: None,
    }));
    Ok(changes)
}

fn hash(content: &[u8]) -> BlobHash {
    BlobHash(Sha256::digest(content).into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use answerable_sandbox::{Sandbox, Settings};
    use chrono::{DateTime, Utc};

    use super::*;

    /// A folder with these files, and what is known of them.
    fn copied(files: &[(&str, &str)]) -> (Folder, BTreeMap<String, Copied>) {
        let sandbox = Sandbox::new(Settings::default());
        let place = futures::executor::block_on(sandbox.place());
        let folder = sandbox.folder(place).expect("a folder");
        let copy = |(path, content): &(&str, &str)| {
            let file = FileAt {
                path: FilePath::parse(path).expect("a path"),
                version: 7,
                bytes: content.len() as u64,
                hash: hash(content.as_bytes()),
                media_type: "text/plain".into(),
                updated_at: DateTime::<Utc>::UNIX_EPOCH,
                updated_by: "key_1".into(),
            };
            let stamp = folder.put(path, content.as_bytes(), file.updated_at.into()).expect("a file");
            ((*path).to_owned(), Copied { file, stamp })
        };
        let files = files.iter().map(copy).collect();
        (folder, files)
    }

    type Told<'a> = (&'a str, Option<i64>, Option<&'a [u8]>);

    /// Paths of changed files, what they were, and what they are.
    fn told(changes: &Changes) -> Vec<Told<'_>> {
        let files = changes.files.iter();
        let version = |file: &Changed| file.before.as_ref().map(|before| before.version);
        files.map(|file| (file.path.as_str(), version(file), file.after.as_deref())).collect()
    }

    #[test]
    fn what_changed_is_told_and_what_was_only_touched_is_not() {
        let (folder, before) =
            copied(&[("a", "same"), ("b", "old"), ("c/d", "gone"), ("e", "link"), ("f", "left alone")]);
        let at = |path: &str| folder.path().join(path);
        fs::write(at("a"), "same").expect("the same content");
        fs::write(at("b"), "new").expect("another content");
        fs::remove_dir_all(at("c")).expect("a folder less");
        fs::create_dir(at("c")).expect("an empty one");
        fs::remove_file(at("e")).expect("a file less");
        symlink("/etc/passwd", at("e")).expect("a link");
        fs::write(at("g\\h"), "odd").expect("a file");
        fs::write(at("z"), "made").expect("a file");
        let changes = changes(&folder, &before).expect("changes");
        assert_eq!(
            told(&changes),
            [
                ("b", Some(7), Some(&b"new"[..])),
                ("z", None, Some(&b"made"[..])),
                ("c/d", Some(7), None),
                ("e", Some(7), None),
            ]
        );
        let skipped: Vec<&str> = changes.skipped.iter().map(|skipped| skipped.path.as_str()).collect();
        assert_eq!(skipped, ["e", "g\\h"]);
    }

    #[test]
    fn more_than_a_workspace_takes_is_nothing_at_all() {
        for (path, bytes) in [("large", MAX_FILE_BYTES + 1), (&*"d/".repeat(MAX_DEPTH + 1), 0)] {
            let (folder, before) = copied(&[("a", "x")]);
            fs::write(folder.path().join("a"), "changed").expect("another content");
            let path = folder.path().join(path);
            if bytes > 0 {
                fs::File::create(&path).and_then(|file| file.set_len(bytes)).expect("a file");
            } else {
                fs::create_dir_all(&path).expect("folders");
                fs::write(path.join("f"), "deep").expect("a file");
            }
            let unfit = changes(&folder, &before).expect_err("too much");
            assert!(matches!(unfit, Unfit::OverLimit(_)), "{unfit}");
        }
    }
}
