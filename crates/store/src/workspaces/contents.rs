//! What files hold: small contents in rows, large ones in object storage, each once for a tenant.
//!
//! A large content's row is there before its object, marked as unused; the file that holds it takes the mark away. What
//! stays marked for a day is swept with its object, so nothing is left behind by a write that failed, and nothing that a
//! write relies on is taken away under it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use answerable_core::id::TenantId;
use answerable_core::workspace::FilePath;
use answerable_ports::{BlobHash, BlobName, Change, Expected, FileAt, StoreError};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::Workspaces;
use super::files::read_hash;
use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

/// Contents up to so many bytes stand in the row.
const MOST_INLINE: usize = 64 << 10;
/// Contents over so many bytes are hashed where nobody else waits.
const HASHED_AT_ONCE: usize = 1 << 20;

/// Objects that are fetched or put at once for one request.
const OBJECTS_AT_ONCE: usize = 16;

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

/// Names all contents.
pub(super) async fn contents_name(changes: &[Change]) -> Result<Vec<Ready<'_>>> {
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
    Ok(ready)
}

impl Workspaces {
    /// Keeps the large contents.
    pub(super) async fn contents_keep(&self, tenant: TenantId, changes: &[Ready<'_>]) -> Result<()> {
        let contents = changes.iter().filter_map(|change| change.content.as_ref());
        let large: BTreeMap<BlobHash, &Bytes> =
            contents.filter(|kept| !kept.is_inline()).map(|kept| (kept.hash, kept.bytes)).collect();
        if large.is_empty() {
            return Ok(());
        }
        let mut tx = self.tenant(tenant).await?;
        let names = tx.blobs_announce(&large).await?;
        tx.commit().await?;
        let named = |name: BlobName| Some((name, Bytes::clone(large.get(&name.hash)?)));
        let puts: Vec<(BlobName, Bytes)> = names.into_iter().filter_map(named).collect();
        let puts = puts.into_iter().map(|(name, content)| self.blobs.put(tenant, name, content));
        stream::iter(puts).buffer_unordered(OBJECTS_AT_ONCE).try_collect().await
    }

    /// What files hold.
    pub(super) async fn contents_load(&self, tenant: TenantId, files: &[FileAt]) -> Result<Vec<Bytes>> {
        let hashes: BTreeSet<BlobHash> = files.iter().map(|file| file.hash).collect();
        let places = self.tenant(tenant).await?.blobs_find(&hashes).await?;
        let wanted: Vec<(BlobHash, u64, Option<Held>)> =
            files.iter().map(|file| (file.hash, file.bytes, places.get(&file.hash).cloned())).collect();
        let held = wanted.into_iter().map(|(hash, bytes, place)| async move {
            match place {
                Some(Held::Here(content)) => Ok(content),
                Some(Held::Object(object)) => {
                    self.object_load(tenant, BlobName { hash, object }, bytes).await
                }
                None => Err(missing(hash)),
            }
        });
        stream::iter(held).buffered(OBJECTS_AT_ONCE).try_collect().await
    }

    /// A content of this length in object storage.
    async fn object_load(&self, tenant: TenantId, name: BlobName, bytes: u64) -> Result<Bytes> {
        match self.blobs.get(tenant, name, bytes).await? {
            Some(content) if hash_of(&content).await? == name.hash => Ok(content),
            Some(_) => Err(StoreError::Broken(format!("the content {name} is damaged"))),
            None => Err(missing(name)),
        }
    }
}

fn missing(content: impl fmt::Display) -> StoreError {
    StoreError::Broken(format!("the content {content} is not there"))
}

/// Where a content is.
#[derive(Clone)]
enum Held {
    /// In its row.
    Here(Bytes),
    /// In object storage, under its hash and this.
    Object(Uuid),
}

impl TenantTx {
    /// The rows of large contents that are about to be kept; gives what their objects are called.
    async fn blobs_announce(&mut self, large: &BTreeMap<BlobHash, &Bytes>) -> Result<Vec<BlobName>> {
        let tenant = self.tenant();
        let hashes: Vec<Vec<u8>> = large.keys().map(|hash| hash.0.to_vec()).collect();
        let lengths: Vec<i64> = large.values().map(|content| length(content)).collect();
        let rows = sqlx::query!(
            r#"INSERT INTO blobs (tenant_id, sha256, bytes, object, unused_since)
               SELECT $1, b.sha256, b.bytes, gen_random_uuid(), now()
               FROM unnest($2::bytea[], $3::bigint[]) WITH ORDINALITY AS b(sha256, bytes, place) ORDER BY place
               ON CONFLICT (tenant_id, sha256)
                   DO UPDATE SET unused_since = CASE WHEN blobs.unused_since IS NOT NULL THEN now() END
               RETURNING sha256, object AS "object!""#,
            tenant,
            &hashes,
            &lengths,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        rows.into_iter()
            .map(|row| Ok(BlobName { hash: read_hash(&row.sha256)?, object: row.object }))
            .collect()
    }

    /// Where these contents are. One that is nowhere is left out.
    async fn blobs_find(&mut self, hashes: &BTreeSet<BlobHash>) -> Result<HashMap<BlobHash, Held>> {
        let tenant = self.tenant();
        let hashes: Vec<Vec<u8>> = hashes.iter().map(|hash| hash.0.to_vec()).collect();
        let rows = sqlx::query!(
            "SELECT sha256, content, object FROM blobs WHERE tenant_id = $1 AND sha256 = ANY($2)",
            tenant,
            &hashes,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let mut places = HashMap::with_capacity(rows.len());
        for row in rows {
            let here = row.content.map(|content| Held::Here(content.into()));
            if let Some(place) = here.or(row.object.map(Held::Object)) {
                places.insert(read_hash(&row.sha256)?, place);
            }
        }
        Ok(places)
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
        let bodies: Vec<&[u8]> = small.iter().map(|kept| &kept.bytes[..]).collect();
        sqlx::query!(
            "INSERT INTO blobs (tenant_id, sha256, bytes, content)
             SELECT $1, c.sha256, octet_length(c.content), c.content
             FROM unnest($2::bytea[], $3::bytea[]) WITH ORDINALITY AS c(sha256, content, place) ORDER BY place
             ON CONFLICT (tenant_id, sha256) DO UPDATE SET unused_since = NULL",
            tenant,
            &hashes,
            &bodies as &[&[u8]],
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
