//! Threads, runs and what runs did.

use super::paging::{FEW, MANY, by_id, by_id_and_number};
use super::{ExportKind, ExportPlace, ExportRow};
use crate::error::store_error;
use crate::tx::TenantTx;
use crate::{Result, StoreError};

impl TenantTx {
    pub(super) async fn export_runs(
        &mut self,
        kind: ExportKind,
        after: &ExportPlace,
    ) -> Result<Vec<ExportRow>> {
        let rows = match kind {
            ExportKind::Thread => by_id!(
                self, after, MANY, "threads", "thread_id",
                "'thr_' || t.thread_id AS id, 'wsp_' || t.workspace_id AS workspace_id, t.metadata, t.created_at, t.deleted_at"
            ),
            ExportKind::Run => by_id!(
                self, after, FEW, "runs", "run_id",
                "'run_' || t.run_id AS id, 'agt_' || t.agent_id AS agent_id, t.agent_version, t.spec_hash,
                 'thr_' || t.thread_id AS thread_id, 'wsp_' || t.workspace_id AS workspace_id, t.status, t.stop_reason,
                 t.final_answer, t.error, t.context, t.metadata, t.budgets, t.policy, t.priority, t.not_before, t.deadline,
                 t.concurrency_key, t.created_by, t.creators, t.trace_id, t.origin_kind, 'run_' || t.origin_run_id AS origin_run_id,
                 t.origin_step, t.first_difference, 'sch_' || t.schedule_id AS schedule_id, t.due_at, t.created_at, t.started_at,
                 t.finished_at"
            ),
            ExportKind::Child => by_id!(
                self, after, MANY, "children", "run_id",
                "'run_' || t.run_id AS run_id, 'run_' || t.parent_run_id AS parent_run_id, t.began_at, t.stop_reason, t.stopped_at,
                 t.ended_at"
            ),
            ExportKind::RunTools => by_id!(
                self, after, FEW, "run_tools", "run_id", "'run_' || t.run_id AS run_id, t.tools"
            ),
            ExportKind::Message => by_id_and_number!(
                self, after, FEW, "messages", "run_id", "seq",
                "'msg_' || t.message_id AS id, 'run_' || t.run_id AS run_id, t.seq, t.role, t.content, t.tool_calls,
                 'tc_' || t.tool_call_id AS tool_call_id, t.step, t.extra, t.more, t.created_at"
            ),
            ExportKind::Step => by_id_and_number!(
                self, after, FEW, "steps", "run_id", "number",
                "'run_' || t.run_id AS run_id, t.number, t.context, t.model, t.failures, t.started_at, t.finished_at"
            ),
            ExportKind::Call => return self.export_calls(after).await,
            ExportKind::LedgerEntry => by_id!(
                self, after, MANY, "ledger", "ledger_id",
                "'led_' || t.ledger_id AS id, 'run_' || t.run_id AS run_id, 'tc_' || t.call_id AS call_id, t.step, t.tool_name,
                 t.input_hash, t.idempotency_key, t.business_key, t.writes, t.status, t.side_effect, t.attempts, t.error_code,
                 t.resolution, t.started_at, t.finished_at, 'apr_' || t.approval_id AS approval_id"
            ),
            ExportKind::Approval => by_id!(
                self, after, FEW, "approvals", "approval_id",
                "'apr_' || t.approval_id AS id, 'run_' || t.run_id AS run_id, 'tc_' || t.call_id AS call_id, t.step, t.kind,
                 t.tool_name, t.tool_version, t.input_hash, t.approved_hash, t.edited_input, t.risk, t.reason, t.status, t.required,
                 t.self_approval, t.votes, t.decision, t.decided_by, t.created_at, t.decided_at, t.expires_at, t.used_at,
                 t.voided_at, t.void_reason"
            ),
            ExportKind::Grant => by_id!(
                self, after, MANY, "grants", "grant_id",
                "'grt_' || t.grant_id AS id, t.tool_name, t.scope, t.scope_id, t.match, t.input_hash, t.max_risk, t.deciders,
                 'apr_' || t.approval_id AS approval_id, t.created_by, t.created_at, t.expires_at, t.revoked_at, t.revoked_by"
            ),
            ExportKind::InboxItem => by_id_and_number!(
                self, after, FEW, "inbox", "run_id", "number",
                "'run_' || t.run_id AS run_id, t.number, t.body, t.created_at"
            ),
            ExportKind::Event => by_id_and_number!(
                self, after, FEW, "events", "run_id", "seq",
                "'evt_' || t.event_id AS id, 'run_' || t.run_id AS run_id, t.seq, t.type, t.step, t.data, t.at"
            ),
            ExportKind::Checkpoint => by_id_and_number!(
                self, after, MANY, "checkpoints", "run_id", "seq",
                "'run_' || t.run_id AS run_id, t.seq, t.step, t.state_hash, t.created_at"
            ),
            _ => return Err(StoreError::Broken(format!("{kind:?} is not of a run"))),
        };
        rows.map_err(store_error)
    }

    /// Sorted by three columns, of which the last two make one number.
    async fn export_calls(&mut self, after: &ExportPlace) -> Result<Vec<ExportRow>> {
        sqlx::query_as!(
            ExportRow,
            r#"SELECT t.run_id AS "id!", (t.step::bigint << 32) + t.index AS "number!", '' AS "name!",
                   (SELECT row_to_json(d) FROM (SELECT 'tc_' || t.call_id AS id, 'run_' || t.run_id AS run_id, t.step, t.index,
                       t.tool_name, t.model_call_id, t.input, t.input_hash, t.original_input, t.validation, t.client, t.decision,
                       t.submitted, t.result, 'led_' || t.ledger_id AS ledger_id) AS d)::text AS "data!"
               FROM calls AS t
               WHERE t.tenant_id = $1 AND (t.run_id, t.step, t.index) > ($2, ($3::bigint >> 32)::integer, ($3::bigint & 2147483647)::integer)
               ORDER BY t.run_id, t.step, t.index LIMIT $4"#,
            self.tenant(),
            after.id,
            after.number,
            FEW,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }
}
