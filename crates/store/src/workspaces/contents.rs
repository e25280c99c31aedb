//! What files hold: small contents in rows, large ones in object storage, each once for a tenant.
//!
//! A large content's row is there before its object, marked as unused; the file that holds it takes the mark away. What
//! stays marked for a day is swept with its object, so nothing is left behind by a write that failed, and nothing that a
//! write relies on is taken away under it.

use answerable_core::id::TenantId;
use answerable_core::workspace::FilePath;
use answerable_ports::{BlobHash, Change, Expected, FileAt, StoreError};
use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::Workspaces;
use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

/// Contents up to so many bytes stand in the row.
const MOST_INLINE: usize = 64 << 10;
/// Contents over so many bytes are hashed where nobody else waits.
const HASHED_AT_ONCE: usize = 1 << 20;

/// A change whose content is kept already, or small enough to be written with it.
pub(super) struct Ready<'c> {
    pub(super) path: &'c FilePath,
    pub(super) expected: Expected,
    pub(super) content: Option<Kept<'c>>,
}

/// A content, by its hash.
pub(super) struct Kept<'c> {
    pub(super) hash: BlobHash,
    pub(super) bytes: &'c Bytes,
    pub(super) media_type: Option<&'c str>,
}

impl Kept<'_> {
    /// It goes into the row.
    pub(super) fn is_inline(&self) -> bool {
        self.bytes.len() <= MOST_INLINE
    }
}

impl Workspaces {
    /// Names all contents, and keeps the large ones.
    pub(super) async fn contents_keep<'c>(
        &self,
        tenant: TenantId,
        changes: &'c [Change],
    ) -> Result<Vec<Ready<'c>>> {
        let mut ready = Vec::with_capacity(changes.len());
        for change in changes {
            let content = match &change.content {
                Some(content) => {
                    let hash = hash_of(&content.bytes).await?;
                    Some(Kept { hash, bytes: &content.bytes, media_type: content.media_type.as_deref() })
                }
                None => None,
            };
            ready.push(Ready { path: &change.path, expected: change.expected, content });
        }
        for kept in ready.iter().filter_map(|change| change.content.as_ref()) {
            if !kept.is_inline() {
                let mut tx = self.store.tenant(tenant).await?;
                tx.blob_announce(kept).await?;
                tx.commit().await?;
                self.blobs.put(tenant, kept.hash, kept.bytes.clone()).await?;
            }
        }
        Ok(ready)
    }

    /// What a file holds.
    pub(super) async fn content_load(&self, tenant: TenantId, file: &FileAt) -> Result<Bytes> {
        let row = self.store.tenant(tenant).await?.blob_fetch(file.hash).await?;
        if let Some(Some(content)) = row {
            return Ok(content.into());
        }
        let content = self.blobs.get(tenant, file.hash, file.bytes).await?;
        match content {
            Some(content) if hash_of(&content).await? == file.hash => Ok(content),
            Some(_) => Err(StoreError::Broken(format!("the content {} is damaged", file.hash))),
            None => Err(StoreError::Broken(format!("the content {} is not there", file.hash))),
        }
    }
}

impl TenantTx {
    /// The row of a large content that is about to be kept.
    async fn blob_announce(&mut self, kept: &Kept<'_>) -> Result<()> {
        let tenant = self.tenant();
        sqlx::query!(
            "INSERT INTO blobs (tenant_id, sha256, bytes, is_inline, unused_since) VALUES ($1, $2, $3, false, now())
             ON CONFLICT (tenant_id, sha256)
                 DO UPDATE SET unused_since = CASE WHEN blobs.unused_since IS NOT NULL THEN now() END",
            tenant,
            &kept.hash.0[..],
            length(kept.bytes),
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// The content in a row; `Some(None)`: it is in object storage.
    async fn blob_fetch(&mut self, hash: BlobHash) -> Result<Option<Option<Vec<u8>>>> {
        let tenant = self.tenant();
        sqlx::query_scalar!(
            "SELECT content FROM blobs WHERE tenant_id = $1 AND sha256 = $2",
            tenant,
            &hash.0[..]
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// Locks the contents that files are about to take or leave, in one order for all, so that nobody waits in a circle.
    pub(super) async fn blobs_lock(&mut self, hashes: &[Vec<u8>]) -> Result<()> {
        let tenant = self.tenant();
        sqlx::query!(
            "SELECT FROM blobs WHERE tenant_id = $1 AND sha256 = ANY($2) ORDER BY sha256 FOR UPDATE",
            tenant,
            hashes
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// Files hold these from now on; small ones are kept here.
    pub(super) async fn blobs_use(&mut self, contents: &[&Kept<'_>]) -> Result<()> {
        let tenant = self.tenant();
        let mut small: Vec<&Kept<'_>> = contents.iter().copied().filter(|kept| kept.is_inline()).collect();
        small.sort_by_key(|kept| kept.hash);
        small.dedup_by_key(|kept| kept.hash);
        let hashes: Vec<Vec<u8>> = small.iter().map(|kept| kept.hash.0.to_vec()).collect();
        let bodies: Vec<Vec<u8>> = small.iter().map(|kept| kept.bytes.to_vec()).collect();
        sqlx::query!(
            "INSERT INTO blobs (tenant_id, sha256, bytes, is_inline, content)
             SELECT $1, c.sha256, octet_length(c.content), true, c.content
             FROM unnest($2::bytea[], $3::bytea[]) WITH ORDINALITY AS c(sha256, content, place) ORDER BY place
             ON CONFLICT (tenant_id, sha256) DO UPDATE SET unused_since = NULL",
            tenant,
            &hashes,
            &bodies,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        let all: Vec<Vec<u8>> = contents.iter().map(|kept| kept.hash.0.to_vec()).collect();
        sqlx::query!(
            "UPDATE blobs SET unused_since = NULL
             WHERE tenant_id = $1 AND sha256 = ANY($2) AND unused_since IS NOT NULL",
            tenant,
            &all,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// Files have left these: those that none holds any more are unused from now on.
    pub(super) async fn blobs_leave(&mut self, hashes: &[Vec<u8>]) -> Result<()> {
        let tenant = self.tenant();
        sqlx::query!(
            "UPDATE blobs b SET unused_since = now()
             WHERE tenant_id = $1 AND sha256 = ANY($2) AND unused_since IS NULL AND NOT EXISTS (
                 SELECT FROM workspace_files f WHERE f.tenant_id = b.tenant_id AND f.sha256 = b.sha256)",
            tenant,
            hashes,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }
}

pub(super) fn length(bytes: &[u8]) -> i64 {
    i64::try_from(bytes.len()).unwrap_or(i64::MAX)
}

async fn hash_of(bytes: &Bytes) -> Result<BlobHash> {
    if bytes.len() <= HASHED_AT_ONCE {
        return Ok(BlobHash(Sha256::digest(bytes).into()));
    }
    let bytes = bytes.clone();
    let hashed = tokio::task::spawn_blocking(move || BlobHash(Sha256::digest(&bytes).into())).await;
    hashed.map_err(|error| StoreError::Broken(error.to_string()))
}
