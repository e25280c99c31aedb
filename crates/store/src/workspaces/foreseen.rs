//! Changes that can't be made, as far as that is known without a lock: then nothing of them is put into object storage.

use answerable_ports::{Author, FilesCommitted};
use uuid::Uuid;

use super::bounds::Growth;
use super::contents::Ready;
use super::write::conflict;
use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

/// Bytes in object storage that no file of a tenant holds. They go after a day: who replaces large files faster than that
/// waits.
const MOST_UNUSED: i64 = 16 << 30;

impl TenantTx {
    /// What will become of changes, where that can be said already.
    pub(super) async fn files_foresee(
        &mut self,
        workspace: Uuid,
        by: &Author,
        changes: &[Ready<'_>],
    ) -> Result<Option<FilesCommitted>> {
        if let Author::Call { call_id, .. } = by
            && let Some(outcome) = self.call_outcome(*call_id).await?
        {
            return Ok(Some(FilesCommitted::Repeated(outcome)));
        }
        let mut contents = changes.iter().filter_map(|change| change.content.as_ref());
        if contents.all(|kept| kept.is_inline()) {
            return Ok(None);
        }
        if !self.workspace_exists(workspace).await? {
            return Ok(Some(FilesCommitted::NoWorkspace));
        }
        let present = self.files_present(workspace, changes).await?;
        if let Some(conflict) = changes.iter().find_map(|change| conflict(change, &present)) {
            return Ok(Some(conflict));
        }
        let refused = self.too_many(workspace, &Growth::of(changes, &present)).await?;
        Ok(refused.map(FilesCommitted::OverLimit))
    }

    /// Which bound would be broken, in words.
    async fn too_many(&mut self, workspace: Uuid, growth: &Growth) -> Result<Option<String>> {
        let tenant = self.tenant();
        let now = sqlx::query!(
            r#"SELECT coalesce(sum(w.files), 0)::bigint AS "files!", coalesce(sum(w.bytes), 0)::bigint AS "bytes!",
                   (SELECT coalesce(sum(b.bytes), 0)::bigint FROM blobs b
                    WHERE b.tenant_id = $1 AND b.unused_since IS NOT NULL AND b.object IS NOT NULL) AS "unused!"
               FROM workspaces w WHERE w.tenant_id = $1 AND w.workspace_id = $2"#,
            tenant,
            workspace,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        let unused = || {
            format!(
                "large contents that no file holds any more take {MOST_UNUSED} bytes or more; they go after a day"
            )
        };
        let over = growth.over(now.files + growth.files, now.bytes + growth.bytes);
        Ok(over.or_else(|| (now.unused >= MOST_UNUSED).then(unused)))
    }
}
