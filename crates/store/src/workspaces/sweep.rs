//! Contents that no file holds any more.
//!
//! A content's row goes first, and leaves word of its object; the object is taken away outside of any transaction, and the
//! word after it. Who stores the same content meanwhile makes another row with another object, waits for nobody, and loses
//! nothing however late an object goes.

use answerable_core::id::TenantId;
use answerable_ports::BlobName;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use uuid::Uuid;

use super::Workspaces;
use super::files::read_hash;
use crate::Result;
use crate::error::store_error;
use crate::tx::SystemTx;

/// Contents, objects or tenants that are looked at together.
const BATCH: i64 = 100;
/// Objects that are taken away at once.
const AT_ONCE: usize = 16;

impl Workspaces {
    /// Takes away contents that no file has held for a day, and what tenants left behind that are gone, and writes that
    /// died; of contents and of objects at most `batches` batches. Gives how many contents went. Several servers may do it
    /// at once.
    ///
    /// # Errors
    /// The database or the object storage is away. What went until then is gone.
    pub async fn sweep(&self, batches: u32) -> Result<u64> {
        let mut gone = 0;
        for _ in 0..batches {
            let (found, swept) = self.sweep_contents().await?;
            gone += swept;
            if found < BATCH {
                break;
            }
        }
        for _ in 0..batches {
            if self.sweep_objects().await? < BATCH {
                break;
            }
        }
        self.sweep_tenants().await?;
        self.blobs.sweep().await?;
        Ok(gone)
    }

    /// One batch of rows: how many were marked, and how many of them went.
    async fn sweep_contents(&self) -> Result<(i64, u64)> {
        let mut tx = self.store.system().await?;
        let marked = tx.blobs_marked().await?;
        let gone = tx.blobs_delete_unused(&marked).await?;
        tx.commit().await?;
        Ok((length(&marked.hashes), gone))
    }

    /// One batch of objects: how many there were.
    async fn sweep_objects(&self) -> Result<i64> {
        let gone = self.store.system().await?.objects_gone().await?;
        let objects: Vec<Uuid> = gone.iter().map(|(_, name)| name.object).collect();
        let removed = gone.into_iter().map(|(tenant, name)| self.blobs.remove(tenant, name));
        stream::iter(removed).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        let mut tx = self.store.system().await?;
        sqlx::query!("DELETE FROM gone_objects WHERE object = ANY($1)", &objects)
            .execute(tx.conn())
            .await
            .map_err(store_error)?;
        tx.commit().await?;
        Ok(length(&objects))
    }

    async fn sweep_tenants(&self) -> Result<()> {
        let mut after = Uuid::nil();
        loop {
            let tenants = self.store.system().await?.tenants_gone(after).await?;
            for tenant in &tenants {
                self.blobs.remove_all(TenantId(*tenant)).await?;
            }
            let mut tx = self.store.system().await?;
            // Later than any write that was under way when the tenant went.
            sqlx::query!(
                "DELETE FROM gone_tenants WHERE tenant_id = ANY($1) AND gone_at < now() - interval '1 day'",
                &tenants
            )
            .execute(tx.conn())
            .await
            .map_err(store_error)?;
            tx.commit().await?;
            match tenants.last() {
                Some(last) if length(&tenants) == BATCH => after = *last,
                _ => return Ok(()),
            }
        }
    }
}

fn length<T>(batch: &[T]) -> i64 {
    i64::try_from(batch.len()).unwrap_or(i64::MAX)
}

/// Contents that are taken for unused, tenant by hash.
struct Marked {
    tenants: Vec<Uuid>,
    hashes: Vec<Vec<u8>>,
}

impl SystemTx {
    /// Locks some that nobody else is at.
    async fn blobs_marked(&mut self) -> Result<Marked> {
        let rows = sqlx::query!(
            "SELECT tenant_id, sha256 FROM blobs WHERE unused_since < now() - interval '1 day'
             ORDER BY unused_since LIMIT $1 FOR UPDATE SKIP LOCKED",
            BATCH,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let (tenants, hashes) = rows.into_iter().map(|row| (row.tenant_id, row.sha256)).unzip();
        Ok(Marked { tenants, hashes })
    }

    /// Deletes those of them that no file holds, and leaves word of their objects; from the others the mark is taken away.
    /// Statements of their own: they see what was written until the locks were had.
    async fn blobs_delete_unused(&mut self, marked: &Marked) -> Result<u64> {
        sqlx::query!(
            "UPDATE blobs b SET unused_since = NULL FROM unnest($1::uuid[], $2::bytea[]) AS m(tenant_id, sha256)
             WHERE b.tenant_id = m.tenant_id AND b.sha256 = m.sha256 AND EXISTS (
                 SELECT FROM workspace_files f WHERE f.tenant_id = b.tenant_id AND f.sha256 = b.sha256)",
            &marked.tenants,
            &marked.hashes,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        let gone = sqlx::query_scalar!(
            r#"WITH gone AS (
                   DELETE FROM blobs b USING unnest($1::uuid[], $2::bytea[]) AS m(tenant_id, sha256)
                   WHERE b.tenant_id = m.tenant_id AND b.sha256 = m.sha256 AND b.unused_since IS NOT NULL
                   RETURNING b.tenant_id, b.sha256, b.object
               ), told AS (
                   INSERT INTO gone_objects (object, tenant_id, sha256)
                   SELECT object, tenant_id, sha256 FROM gone WHERE object IS NOT NULL
               )
               SELECT count(*) AS "count!" FROM gone"#,
            &marked.tenants,
            &marked.hashes,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        Ok(gone.unsigned_abs())
    }

    /// Objects whose contents' rows are gone.
    async fn objects_gone(&mut self) -> Result<Vec<(TenantId, BlobName)>> {
        let rows = sqlx::query!("SELECT tenant_id, sha256, object FROM gone_objects LIMIT $1", BATCH)
            .fetch_all(self.conn())
            .await
            .map_err(store_error)?;
        rows.into_iter()
            .map(|row| {
                let name = BlobName { hash: read_hash(&row.sha256)?, object: row.object };
                Ok((TenantId(row.tenant_id), name))
            })
            .collect()
    }

    /// Tenants that are gone, in order.
    async fn tenants_gone(&mut self, after: Uuid) -> Result<Vec<Uuid>> {
        sqlx::query_scalar!(
            "SELECT tenant_id FROM gone_tenants WHERE tenant_id > $1 ORDER BY tenant_id LIMIT $2",
            after,
            BATCH,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }
}
