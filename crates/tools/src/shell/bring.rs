//! Copies the workspace into a folder.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use answerable_ports::{FileAt, given_at_once};
use answerable_sandbox::{Folder, Place, Stamp};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use super::{Done, One, broken, not_asked};

/// Parts of a workspace that are fetched at once: one is written down while the next one comes.
const AT_ONCE: usize = 2;

/// A workspace as it was, in a folder.
pub(super) struct Copy {
    pub(super) folder: Arc<Folder>,
    /// Its files by their paths.
    pub(super) files: BTreeMap<String, Copied>,
}

/// One of them.
pub(super) struct Copied {
    pub(super) file: FileAt,
    /// As it was put there.
    pub(super) stamp: Stamp,
}

impl One<'_> {
    pub(super) async fn bring(&self, place: Place) -> Done<Copy> {
        let sandbox = self.tools.sandbox.clone();
        let folder = blocking(move || sandbox.folder(place)).await.map_err(|error| broken(&error))?;
        let folder = Arc::new(folder);
        let files = self.files().snapshot(self.workspace()).await.map_err(not_asked)?;
        let copied = stream::iter(parts(files)).map(|part| self.copy(&folder, part));
        let files: Vec<_> = copied.buffer_unordered(AT_ONCE).try_collect().await?;
        Ok(Copy { folder, files: files.into_iter().flatten().collect() })
    }

    async fn copy(&self, folder: &Arc<Folder>, part: Vec<FileAt>) -> Done<Vec<(String, Copied)>> {
        let contents = self.files().contents(self.call.tenant_id, &part).await.map_err(not_asked)?;
        let folder = Arc::clone(folder);
        blocking(move || put(&folder, part, &contents)).await.map_err(|error| broken(&error))
    }
}

/// As many files each as the store gives at once.
fn parts(mut files: Vec<FileAt>) -> Vec<Vec<FileAt>> {
    let mut parts = Vec::new();
    while !files.is_empty() {
        let rest = files.split_off(given_at_once(&files).max(1));
        parts.push(std::mem::replace(&mut files, rest));
    }
    parts
}

fn put(folder: &Folder, files: Vec<FileAt>, contents: &[Bytes]) -> io::Result<Vec<(String, Copied)>> {
    if files.len() != contents.len() {
        return Err(io::Error::other("some contents are missing"));
    }
    let copy = |(file, content): (FileAt, &Bytes)| {
        let path = file.path.as_str().to_owned();
        let stamp = folder.put(&path, content, file.updated_at.into())?;
        Ok((path, Copied { file, stamp }))
    };
    files.into_iter().zip(contents).map(copy).collect()
}

/// What the system does file by file may take a while.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use answerable_core::workspace::FilePath;
    use answerable_ports::{BlobHash, CONTENTS_AT_ONCE};
    use chrono::DateTime;

    use super::*;

    #[test]
    fn every_file_is_in_one_part_that_the_store_gives_at_once() {
        let file = |bytes: u64| FileAt {
            path: FilePath::parse("a").expect("a path"),
            version: 1,
            bytes,
            hash: BlobHash([7; 32]),
            media_type: "text/plain".into(),
            updated_at: DateTime::UNIX_EPOCH,
            updated_by: "key_1".into(),
        };
        let half = CONTENTS_AT_ONCE / 2;
        let files = [half, half, 1, 3 * half, 0, half, half + 1].map(file).to_vec();
        let parts = parts(files.clone());
        assert_eq!(parts.concat(), files);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1, 1, 2, 1]);
        for part in parts {
            assert_eq!(given_at_once(&part), part.len());
        }
        assert!(super::parts(Vec::new()).is_empty());
    }
}
