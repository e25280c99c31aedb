//! BlobStore: contents of files that are too large for a row, by their hash.

use std::fmt;

use answerable_core::id::TenantId;
use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;

use crate::store::StoreError;

/// SHA-256 of a content: what it is called.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobHash(pub [u8; 32]);

impl fmt::Display for BlobHash {
    /// 64 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What an object is called: what it holds, and which time that is kept. A content that was taken away and comes again has
/// another name, so a request to take it away may come as late as it likes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobName {
    /// What it holds.
    pub hash: BlobHash,
    /// Which time.
    pub object: Uuid,
}

impl fmt::Display for BlobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.hash, self.object.simple())
    }
}

/// Keeps contents, each tenant's apart. Which of them are in use stands in the database, not here.
#[async_trait]
pub trait BlobStore: Send + Sync {
    /// Keeps a content; one that is there already may stay as it is. When this returns, it outlives the process.
    async fn put(&self, tenant: TenantId, name: BlobName, content: Bytes) -> Result<(), StoreError>;

    /// A content of at most `most` bytes; `None`: it is not there.
    async fn get(&self, tenant: TenantId, name: BlobName, most: u64) -> Result<Option<Bytes>, StoreError>;

    /// Takes a content away, if it is there.
    async fn remove(&self, tenant: TenantId, name: BlobName) -> Result<(), StoreError>;

    /// Takes away all that a tenant has.
    async fn remove_all(&self, tenant: TenantId) -> Result<(), StoreError>;

    /// Takes away what writes left that died on their way more than a day ago, where they leave anything; gives how many.
    async fn sweep(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
}
