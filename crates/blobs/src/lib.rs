//! Contents of large files: in a folder, or in object storage that speaks S3.
//!
//! An object is called `TENANT/ab/abcd…-ID`, by the tenant's id, the SHA-256 of what it holds, and an id that is not used
//! again; it never changes. Which objects are in use stands in the database.

mod folder;
mod place;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use answerable_core::id::TenantId;
use answerable_ports::{BlobName, BlobStore, StoreError};
use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt as _;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt as _};
use tokio::sync::OnceCell;

pub use place::{BlobPlace, NoPlace};

/// Between two looks for what writes left that died: each sees the name of every object.
const SWEEP_EVERY: Duration = Duration::from_secs(24 * 3600);

/// Object storage.
#[derive(Debug)]
pub struct Blobs {
    place: BlobPlace,
    /// Opened at first need: most servers never keep a large file.
    opened: OnceCell<Arc<dyn ObjectStore>>,
    /// When a folder was last looked through.
    swept: Mutex<Option<Instant>>,
}

impl Blobs {
    /// Keeps contents at `place`. Nothing is asked or made yet. For S3 the process has chosen its cryptography (rustls).
    ///
    /// # Errors
    /// The place makes no sense.
    pub fn new(place: BlobPlace) -> Result<Self, NoPlace> {
        place.check()?;
        Ok(Self { place, opened: OnceCell::new(), swept: Mutex::default() })
    }

    async fn storage(&self) -> Result<&Arc<dyn ObjectStore>, StoreError> {
        let opened = self.opened.get_or_try_init(|| async { self.place.open() }).await;
        opened.map_err(|error| StoreError::Away(format!("object storage: {error}")))
    }

    fn folder(&self, tenant: TenantId) -> Path {
        self.place.prefix().join(tenant.0.hyphenated().to_string())
    }

    fn path(&self, tenant: TenantId, name: BlobName) -> Path {
        let name = name.to_string();
        self.folder(tenant).join(&name[..2]).join(name.as_str())
    }

    /// The folder to look through, if it is time for that.
    fn due(&self) -> Option<PathBuf> {
        let BlobPlace::Folder(folder) = &self.place else { return None };
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        if swept.is_some_and(|at| at.elapsed() < SWEEP_EVERY) {
            return None;
        }
        *swept = Some(Instant::now());
        Some(folder.clone())
    }
}

/// What goes file by file may take a while.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|error| StoreError::Away(format!("the folder of large files: {error}")))
}

/// Whoever runs the server can mend all that can be wrong: until then it is away.
fn away(error: &Error) -> StoreError {
    StoreError::Away(format!("object storage: {error}"))
}

#[async_trait]
impl BlobStore for Blobs {
    async fn put(&self, tenant: TenantId, name: BlobName, content: Bytes) -> Result<(), StoreError> {
        let put = self.storage().await?.put(&self.path(tenant, name), content.into()).await;
        put.map(|_| ()).map_err(|error| away(&error))
    }

    async fn get(&self, tenant: TenantId, name: BlobName, most: u64) -> Result<Option<Bytes>, StoreError> {
        let found = match self.storage().await?.get(&self.path(tenant, name)).await {
            Ok(found) => found,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(away(&error)),
        };
        if found.meta.size > most {
            return Err(StoreError::Broken(format!("the content {name} is longer than it was")));
        }
        found.bytes().await.map(Some).map_err(|error| away(&error))
    }

    async fn remove(&self, tenant: TenantId, name: BlobName) -> Result<(), StoreError> {
        match self.storage().await?.delete(&self.path(tenant, name)).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(away(&error)),
        }
    }

    async fn remove_all(&self, tenant: TenantId) -> Result<(), StoreError> {
        if let BlobPlace::Folder(folder) = &self.place {
            let folder = folder.join(tenant.0.hyphenated().to_string());
            return blocking(move || folder::remove(&folder)).await;
        }
        let storage = self.storage().await?;
        let mut objects = storage.list(Some(&self.folder(tenant)));
        while let Some(object) = objects.try_next().await.map_err(|error| away(&error))? {
            match storage.delete(&object.location).await {
                Ok(()) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(away(&error)),
            }
        }
        Ok(())
    }

    async fn sweep(&self) -> Result<u64, StoreError> {
        match self.due() {
            Some(folder) => blocking(move || folder::sweep(&folder)).await,
            None => Ok(0),
        }
    }
}
