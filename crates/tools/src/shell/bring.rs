//! Copies the workspace into a folder.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use answerable_ports::FileAt;
use answerable_sandbox::{Folder, Stamp};
use futures::{StreamExt, TryStreamExt, stream};

use super::{Done, One, broken, not_asked};

/// Files that are fetched at once.
const AT_ONCE: usize = 8;

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
    pub(super) async fn bring(&self) -> Done<Copy> {
        let sandbox = self.tools.sandbox.clone();
        let folder = blocking(move || sandbox.folder()).await.map_err(|error| broken(&error))?;
        let folder = Arc::new(folder);
        let files = self.files().snapshot(self.workspace()).await.map_err(not_asked)?;
        let copied = stream::iter(files).map(|file| self.copy(&folder, file)).buffer_unordered(AT_ONCE);
        let files = copied.try_collect().await?;
        Ok(Copy { folder, files })
    }

    async fn copy(&self, folder: &Arc<Folder>, file: FileAt) -> Done<(String, Copied)> {
        let content = self.files().content(self.call.tenant_id, &file).await.map_err(not_asked)?;
        let (folder, path) = (Arc::clone(folder), file.path.as_str().to_owned());
        let put = blocking(move || {
            let stamp = folder.put(&path, &content, file.updated_at.into())?;
            Ok((path, Copied { file, stamp }))
        });
        put.await.map_err(|error| broken(&error))
    }
}

/// What the system does file by file may take a while.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}
