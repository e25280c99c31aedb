//! Files that go with what had them, copies for runs that stand on others, and contents that nothing holds any more.

use answerable_core::id::TenantId;
use uuid::Uuid;

use super::Workspaces;
use super::files::read_hash;
use crate::Result;
use crate::error::store_error;
use crate::tx::{SystemTx, TenantTx};

/// Contents that go in one transaction.
const BATCH: i64 = 100;

impl TenantTx {
    /// Workspaces of these runs that are no thread's.
    pub(crate) async fn workspaces_of(&mut self, runs: &[Uuid]) -> Result<Vec<Uuid>> {
        let tenant = self.tenant();
        sqlx::query_scalar!(
            r#"SELECT DISTINCT workspace_id FROM runs
               WHERE tenant_id = $1 AND run_id = ANY($2) AND thread_id IS NULL ORDER BY workspace_id"#,
            tenant,
            runs,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// Deletes those of these workspaces that nobody has any more, when their runs are deleted. Of several runs that go at
    /// once, the last one to lock the row finds the others gone.
    pub(crate) async fn workspaces_leave(&mut self, workspaces: &[Uuid]) -> Result<()> {
        if workspaces.is_empty() {
            return Ok(());
        }
        let tenant = self.tenant();
        sqlx::query!(
            "SELECT FROM workspaces WHERE tenant_id = $1 AND workspace_id = ANY($2) ORDER BY workspace_id FOR UPDATE",
            tenant,
            workspaces,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        let going = sqlx::query_scalar!(
            "SELECT workspace_id FROM workspaces w
             WHERE tenant_id = $1 AND workspace_id = ANY($2) AND NOT workspace_is_somebodys(tenant_id, workspace_id)",
            tenant,
            workspaces,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        self.workspaces_delete(&going).await
    }

    /// Deletes workspaces with their files. Whoever has them is locked.
    pub(crate) async fn workspaces_delete(&mut self, workspaces: &[Uuid]) -> Result<()> {
        let tenant = self.tenant();
        sqlx::query!(
            "DELETE FROM workspace_seen WHERE tenant_id = $1 AND workspace_id = ANY($2)",
            tenant,
            workspaces
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        let hashes = sqlx::query_scalar!(
            "DELETE FROM workspace_files WHERE tenant_id = $1 AND workspace_id = ANY($2) RETURNING sha256",
            tenant,
            workspaces,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        sqlx::query!(
            "DELETE FROM workspaces WHERE tenant_id = $1 AND workspace_id = ANY($2)",
            tenant,
            workspaces
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        self.blobs_lock(&hashes).await?;
        self.blobs_leave(&hashes).await
    }

    /// Deletes all workspaces of a tenant that is about to go, and leaves word where contents of it are elsewhere.
    pub(crate) async fn workspaces_forget(&mut self) -> Result<()> {
        let tenant = self.tenant();
        for statement in [
            sqlx::query!(
                "INSERT INTO gone_tenants (tenant_id)
                 SELECT $1 WHERE EXISTS (SELECT FROM blobs WHERE tenant_id = $1 AND NOT is_inline)",
                tenant
            ),
            // Files before their contents, which go with the tenant.
            sqlx::query!("DELETE FROM workspaces WHERE tenant_id = $1", tenant),
        ] {
            statement.execute(self.conn()).await.map_err(store_error)?;
        }
        Ok(())
    }

    /// Gives the workspace `to`, which has nothing yet, the files of another one as they are. What they hold is shared.
    pub(crate) async fn workspace_copy(&mut self, from: Uuid, to: Uuid) -> Result<()> {
        let tenant = self.tenant();
        let copied = sqlx::query!(
            "WITH held AS (
                 SELECT version, files, bytes FROM workspaces WHERE tenant_id = $1 AND workspace_id = $2 FOR SHARE
             )
             INSERT INTO workspaces (tenant_id, workspace_id, version, files, bytes)
             SELECT $1, $3, version, files, bytes FROM held",
            tenant,
            from,
            to,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        if copied.rows_affected() == 0 {
            return Ok(());
        }
        // A statement of its own: it sees what was written until the lock was had.
        sqlx::query!(
            "INSERT INTO workspace_files (tenant_id, workspace_id, path, version, sha256, bytes, media_type, updated_at,
                 updated_by)
             SELECT tenant_id, $3, path, version, sha256, bytes, media_type, updated_at, updated_by
             FROM workspace_files WHERE tenant_id = $1 AND workspace_id = $2",
            tenant,
            from,
            to,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }
}

impl Workspaces {
    /// Takes away contents that no file has held for a day, and what tenants left behind that are gone; at most `batches`
    /// small transactions. Gives how many contents went. Several servers may do it at once.
    ///
    /// # Errors
    /// The database or the object storage is away. What went until then is gone.
    pub async fn sweep(&self, batches: u32) -> Result<u64> {
        let mut gone = 0;
        for _ in 0..batches {
            let (found, swept) = self.sweep_some().await?;
            gone += swept;
            if found < BATCH.unsigned_abs() {
                break;
            }
        }
        self.sweep_tenants().await?;
        Ok(gone)
    }

    /// One batch: how many were marked, and how many of them went.
    async fn sweep_some(&self) -> Result<(u64, u64)> {
        let mut tx = self.store.system().await?;
        let marked = tx.blobs_marked().await?;
        let mut gone = 0;
        for blob in &marked {
            if !tx.blob_delete_if_unused(blob).await? {
                continue;
            }
            gone += 1;
            if !blob.is_inline {
                self.blobs.remove(TenantId(blob.tenant_id), read_hash(&blob.sha256)?).await?;
            }
        }
        tx.commit().await?;
        Ok((marked.len() as u64, gone))
    }

    async fn sweep_tenants(&self) -> Result<()> {
        let mut tx = self.store.system().await?;
        let tenants =
            sqlx::query_scalar!("SELECT tenant_id FROM gone_tenants ORDER BY gone_at LIMIT $1", BATCH)
                .fetch_all(tx.conn())
                .await
                .map_err(store_error)?;
        for tenant in &tenants {
            self.blobs.remove_all(TenantId(*tenant)).await?;
        }
        // Later than any write that was under way when the tenant went.
        sqlx::query!(
            "DELETE FROM gone_tenants WHERE tenant_id = ANY($1) AND gone_at < now() - interval '1 day'",
            &tenants
        )
        .execute(tx.conn())
        .await
        .map_err(store_error)?;
        tx.commit().await
    }
}

/// A content that is taken for unused.
struct Marked {
    tenant_id: Uuid,
    sha256: Vec<u8>,
    is_inline: bool,
}

impl SystemTx {
    /// Locks some that nobody else is at.
    async fn blobs_marked(&mut self) -> Result<Vec<Marked>> {
        sqlx::query_as!(
            Marked,
            "SELECT tenant_id, sha256, is_inline FROM blobs WHERE unused_since < now() - interval '1 day'
             ORDER BY unused_since LIMIT $1 FOR UPDATE SKIP LOCKED",
            BATCH,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// `false`: a file holds it after all, and the mark is taken away.
    async fn blob_delete_if_unused(&mut self, blob: &Marked) -> Result<bool> {
        let gone = sqlx::query!(
            "DELETE FROM blobs b WHERE tenant_id = $1 AND sha256 = $2 AND NOT EXISTS (
                 SELECT FROM workspace_files f WHERE f.tenant_id = b.tenant_id AND f.sha256 = b.sha256)",
            blob.tenant_id,
            blob.sha256,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        if gone.rows_affected() > 0 {
            return Ok(true);
        }
        sqlx::query!(
            "UPDATE blobs SET unused_since = NULL WHERE tenant_id = $1 AND sha256 = $2",
            blob.tenant_id,
            blob.sha256,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(false)
    }
}
