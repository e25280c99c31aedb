//! Contents of large files: in a folder, or in object storage that speaks S3.
//!
//! An object is called `TENANT/ab/abcd…`, by the tenant's id and the SHA-256 of what it holds, so it never changes. Which
//! objects are in use stands in the database.

mod place;

use std::sync::Arc;

use answerable_core::id::TenantId;
use answerable_ports::{BlobHash, BlobStore, StoreError};
use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt as _;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt as _};
use tokio::sync::OnceCell;

pub use place::{BlobPlace, NoPlace};

/// Object storage.
#[derive(Debug)]
pub struct Blobs {
    place: BlobPlace,
    /// Opened at first need: most servers never keep a large file.
    opened: OnceCell<Arc<dyn ObjectStore>>,
}

impl Blobs {
    /// Keeps contents at `place`. Nothing is asked or made yet. For S3 the process has chosen its cryptography (rustls).
    ///
    /// # Errors
    /// The place makes no sense.
    pub fn new(place: BlobPlace) -> Result<Self, NoPlace> {
        place.check()?;
        Ok(Self { place, opened: OnceCell::new() })
    }

    async fn storage(&self) -> Result<&Arc<dyn ObjectStore>, StoreError> {
        let opened = self.opened.get_or_try_init(|| async { self.place.open() }).await;
        opened.map_err(|error| StoreError::Away(format!("object storage: {error}")))
    }

    fn folder(&self, tenant: TenantId) -> Path {
        self.place.prefix().join(tenant.0.hyphenated().to_string())
    }

    fn path(&self, tenant: TenantId, hash: BlobHash) -> Path {
        let name = hash.to_string();
        self.folder(tenant).join(&name[..2]).join(name.as_str())
    }
}

/// Whoever runs the server can mend all that can be wrong: until then it is away.
fn away(error: &Error) -> StoreError {
    StoreError::Away(format!("object storage: {error}"))
}

#[async_trait]
impl BlobStore for Blobs {
    async fn put(&self, tenant: TenantId, hash: BlobHash, content: Bytes) -> Result<(), StoreError> {
        let put = self.storage().await?.put(&self.path(tenant, hash), content.into()).await;
        put.map(|_| ()).map_err(|error| away(&error))
    }

    async fn get(&self, tenant: TenantId, hash: BlobHash, most: u64) -> Result<Option<Bytes>, StoreError> {
        let found = match self.storage().await?.get(&self.path(tenant, hash)).await {
            Ok(found) => found,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(away(&error)),
        };
        if found.meta.size > most {
            return Err(StoreError::Broken(format!("the content {hash} is longer than it was")));
        }
        found.bytes().await.map(Some).map_err(|error| away(&error))
    }

    async fn remove(&self, tenant: TenantId, hash: BlobHash) -> Result<(), StoreError> {
        match self.storage().await?.delete(&self.path(tenant, hash)).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(away(&error)),
        }
    }

    async fn remove_all(&self, tenant: TenantId) -> Result<(), StoreError> {
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
}
