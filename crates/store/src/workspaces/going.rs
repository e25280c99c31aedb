//! Files that go with what had them, and copies for runs that stand on others.

use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

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
                 SELECT $1 WHERE EXISTS (SELECT FROM blobs WHERE tenant_id = $1 AND object IS NOT NULL)",
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
