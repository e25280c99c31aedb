//! What runs have seen, what their calls did, and which artifacts they know of.

use std::collections::HashMap;

use answerable_core::id::{ArtifactId, CallId, RunId};
use answerable_core::workspace::{FilePath, Seen};
use answerable_ports::CallOutcome;
use bytes::Bytes;
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

impl TenantTx {
    /// What a run last saw of each path; else what the runs whose history it has did.
    pub(super) async fn files_seen(
        &mut self,
        workspace: Uuid,
        run: RunId,
        paths: &[FilePath],
    ) -> Result<Vec<Seen>> {
        let tenant = self.tenant();
        let names: Vec<String> = paths.iter().map(FilePath::to_string).collect();
        let rows = sqlx::query!(
            "SELECT DISTINCT ON (path) path, version FROM workspace_seen
             WHERE tenant_id = $1 AND workspace_id = $2 AND path = ANY($3) AND run_id IN (SELECT known_runs($1, $4))
             ORDER BY path, run_id = $4 DESC, ord DESC",
            tenant,
            workspace,
            &names,
            run.0,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let known: HashMap<&str, Option<i64>> =
            rows.iter().map(|row| (row.path.as_str(), row.version)).collect();
        let seen = |path: &FilePath| match known.get(path.as_str()) {
            None => Seen::Never,
            Some(None) => Seen::Absent,
            Some(Some(version)) => Seen::Version(*version),
        };
        Ok(paths.iter().map(seen).collect())
    }

    /// A run saw these versions of these paths; no version: no file.
    pub(super) async fn files_saw(
        &mut self,
        workspace: Uuid,
        run: RunId,
        seen: &[(&str, Option<i64>)],
    ) -> Result<()> {
        let tenant = self.tenant();
        let paths: Vec<String> = seen.iter().map(|(path, _)| (*path).to_owned()).collect();
        let versions: Vec<Option<i64>> = seen.iter().map(|(_, version)| *version).collect();
        sqlx::query!(
            "INSERT INTO workspace_seen (tenant_id, workspace_id, path, run_id, version)
             SELECT $1, $2, s.path, $3, s.version FROM unnest($4::text[], $5::bigint[]) AS s(path, version)
             ON CONFLICT (tenant_id, workspace_id, path, run_id)
                 DO UPDATE SET version = excluded.version, ord = excluded.ord",
            tenant,
            workspace,
            run.0,
            &paths,
            &versions as &[Option<i64>],
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    pub(super) async fn call_outcome(&mut self, call: CallId) -> Result<Option<CallOutcome>> {
        let tenant = self.tenant();
        sqlx::query_as!(
            CallOutcome,
            "SELECT version, output FROM workspace_calls WHERE tenant_id = $1 AND call_id = $2",
            tenant,
            call.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    pub(super) async fn call_outcome_keep(
        &mut self,
        run: RunId,
        call: CallId,
        version: i64,
        output: &str,
    ) -> Result<()> {
        let tenant = self.tenant();
        sqlx::query!(
            "INSERT INTO workspace_calls (tenant_id, call_id, run_id, version, output) VALUES ($1, $2, $3, $4, $5)",
            tenant,
            call.0,
            run.0,
            version,
            output,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// An artifact of a run, or of one whose history it has.
    pub(super) async fn artifact_known_to(
        &mut self,
        run: RunId,
        artifact: ArtifactId,
    ) -> Result<Option<(String, Bytes)>> {
        let tenant = self.tenant();
        let row = sqlx::query!(
            "SELECT media_type, content FROM artifacts
             WHERE tenant_id = $1 AND artifact_id = $2 AND run_id IN (SELECT known_runs($1, $3))",
            tenant,
            artifact.0,
            run.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        Ok(row.map(|row| (row.media_type, row.content.into())))
    }
}
