//! Artifacts, files, and what was told and counted.

use super::paging::{FEW, MANY, by_id, by_id_and_name, by_number};
use super::{ExportKind, ExportPlace, ExportRow};
use crate::error::store_error;
use crate::tx::TenantTx;
use crate::{Result, StoreError};

impl TenantTx {
    pub(super) async fn export_files(
        &mut self,
        kind: ExportKind,
        after: &ExportPlace,
    ) -> Result<Vec<ExportRow>> {
        let rows = match kind {
            ExportKind::Artifact => by_id!(
                self, after, MANY, "artifacts", "artifact_id",
                "'art_' || t.artifact_id AS id, 'run_' || t.run_id AS run_id, 'tc_' || t.call_id AS call_id, t.media_type, t.bytes,
                 t.sha256, t.created_at"
            ),
            ExportKind::Workspace => by_id!(
                self, after, MANY, "workspaces", "workspace_id",
                "'wsp_' || t.workspace_id AS id, t.version, t.files, t.bytes"
            ),
            ExportKind::File => by_id_and_name!(
                self, after, MANY, "workspace_files", "workspace_id", "path",
                "'wsp_' || t.workspace_id AS workspace_id, t.path, t.version, 'sha256:' || encode(t.sha256, 'hex') AS sha256,
                 t.bytes, t.media_type, t.updated_at, t.updated_by"
            ),
            ExportKind::Delivery => by_id!(
                self, after, FEW, "deliveries", "delivery_id",
                "'dlv_' || t.delivery_id AS id, 'whk_' || t.webhook_id AS webhook_id, 'run_' || t.run_id AS run_id, t.type,
                 regexp_replace(t.body, '(/decision\\?token=)[^\"\\\\]*', '\\1***', 'g') AS body, t.status, t.attempts,
                 t.created_at"
            ),
            ExportKind::UsageDay => return self.export_usage(after).await,
            ExportKind::PastUsage => return self.export_past_usage(after).await,
            ExportKind::AuditEntry => by_number!(
                self, after, MANY, "audit", "seq",
                "'aud_' || t.audit_id AS id, t.seq, t.at, t.actor, t.action, t.target, t.origin AS \"from\", t.detail, t.prev_hash,
                 t.hash"
            ),
            _ => return Err(StoreError::Broken(format!("{kind:?} is neither a file nor a record"))),
        };
        rows.map_err(store_error)
    }

    /// A row a day, agent and model, whatever parts it is counted in.
    async fn export_usage(&mut self, after: &ExportPlace) -> Result<Vec<ExportRow>> {
        sqlx::query_as!(
            ExportRow,
            r#"SELECT t.agent_id AS "id!", (t.day - date '2000-01-01')::bigint AS "number!", t.model AS "name!",
                   (SELECT row_to_json(d) FROM (SELECT t.day, 'agt_' || nullif(t.agent_id, '00000000-0000-0000-0000-000000000000')
                       AS agent_id, t.model, t.runs, t.steps, t.model_calls, t.tool_calls, t.input_tokens,
                       t.cached_input_tokens, t.output_tokens, t.cost_microusd) AS d)::text AS "data!"
               FROM (
                   SELECT day, agent_id, model, sum(runs) AS runs, sum(steps) AS steps, sum(model_calls) AS model_calls,
                       sum(tool_calls) AS tool_calls, sum(input_tokens) AS input_tokens,
                       sum(cached_input_tokens) AS cached_input_tokens, sum(output_tokens) AS output_tokens,
                       sum(cost_microusd) AS cost_microusd
                   FROM usage_days
                   WHERE tenant_id = $1
                       AND (day, agent_id, model) > (date '2000-01-01' + greatest($2::bigint, -36500)::integer, $3, $4)
                   GROUP BY day, agent_id, model
               ) AS t ORDER BY t.day, t.agent_id, t.model LIMIT $5"#,
            self.tenant(),
            after.number,
            after.id,
            after.name,
            MANY,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    async fn export_past_usage(&mut self, after: &ExportPlace) -> Result<Vec<ExportRow>> {
        sqlx::query_as!(
            ExportRow,
            r#"SELECT '00000000-0000-0000-0000-000000000000'::uuid AS "id!", t.ord AS "number!", t.created_at::text AS "name!",
                   (SELECT row_to_json(d) FROM (SELECT t.created_at, 'agt_' || t.agent_id AS agent_id, t.steps, t.tool_calls,
                       t.input_tokens, t.output_tokens, t.cost_microusd, t.models) AS d)::text AS "data!"
               FROM past_usage AS t
               WHERE t.tenant_id = $1 AND (t.created_at, t.ord) > (coalesce(nullif($2, '')::timestamptz, '-infinity'), $3)
               ORDER BY t.created_at, t.ord LIMIT $4"#,
            self.tenant(),
            after.name,
            after.number,
            MANY,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }
}
