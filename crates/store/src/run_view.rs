//! Runs as they are shown. All of a run is read in one statement: its parts always agree with each other.

use answerable_core::Millis;
use answerable_core::budget::{BudgetPatch, Budgets};
use answerable_core::id::{CallId, RunId};
use answerable_core::run::{RunState, Stage};
use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::types::Json;
use uuid::Uuid;

use crate::Result;
use crate::approvals::ApprovalRecord;
use crate::calls::CallRecord;
use crate::error::store_error;
use crate::load::read_state;
use crate::tx::TenantTx;

/// A run (contract, "Run").
#[derive(Debug, Clone)]
pub struct RunRecord {
    /// Its id.
    pub run_id: Uuid,
    /// Order of acceptance.
    pub ord: i64,
    /// The stored agent, if it has one.
    pub agent_id: Option<Uuid>,
    /// The pinned version.
    pub agent_version: Option<i32>,
    /// Thread.
    pub thread_id: Option<Uuid>,
    /// Workspace.
    pub workspace_id: Uuid,
    /// Its own policy, as it was written.
    pub policy: Option<Value>,
    /// Metadata: an object of strings.
    pub metadata: Value,
    /// Trace.
    pub trace_id: String,
    /// From -10 to 10.
    pub priority: i16,
    /// It stays queued until then.
    pub not_before: Option<DateTime<Utc>>,
    /// It ends then.
    pub deadline: Option<DateTime<Utc>>,
    /// Of the runs with this key one works at a time.
    pub concurrency_key: Option<String>,
    /// The schedule that it is of.
    pub schedule_id: Option<Uuid>,
    /// When that was due.
    pub due_at: Option<DateTime<Utc>>,
    /// Status.
    pub status: String,
    /// Why it ended.
    pub stop_reason: Option<String>,
    /// The answer for its user.
    pub final_answer: Option<String>,
    /// `{code, message, step, tool_name?}`.
    pub error: Option<Value>,
    /// When it was accepted.
    pub created_at: DateTime<Utc>,
    /// When a server took it up.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// What is true of it.
    pub state: RunState,
    /// Its limits, changes that the run hasn't taken in yet included.
    pub budgets: Budgets,
    /// When this was read, by the database's clock.
    pub at: Millis,
    /// What waits for a decision, oldest first.
    pub pending_approvals: Vec<ApprovalRecord>,
    /// Client calls that wait for an answer.
    pub pending_calls: Vec<CallRecord>,
    /// Entries of which nobody knows yet, those that it brought along included.
    pub uncertain: Vec<Uuid>,
    /// The run whose call it is; the call has its UUID.
    pub parent: Option<Uuid>,
    /// The run that it stands on: `continue`, `fork` or `replay`, the run, the step after which it goes on.
    pub origin: Option<(String, Uuid, i32)>,
    /// Of a replay: what came out otherwise first.
    pub first_difference: Option<Value>,
}

struct ViewRow {
    run_id: Uuid,
    ord: i64,
    agent_id: Option<Uuid>,
    agent_version: Option<i32>,
    thread_id: Option<Uuid>,
    workspace_id: Uuid,
    policy: Option<Value>,
    metadata: Value,
    trace_id: String,
    priority: i16,
    not_before: Option<DateTime<Utc>>,
    deadline: Option<DateTime<Utc>>,
    concurrency_key: Option<String>,
    schedule_id: Option<Uuid>,
    due_at: Option<DateTime<Utc>>,
    status: String,
    stop_reason: Option<String>,
    final_answer: Option<String>,
    error: Option<Value>,
    created_at: DateTime<Utc>,
    started_at: Option<DateTime<Utc>>,
    finished_at: Option<DateTime<Utc>>,
    state: Value,
    at: DateTime<Utc>,
    patches: Option<Json<Vec<BudgetPatch>>>,
    approvals: Option<Json<Vec<ApprovalRecord>>>,
    calls: Option<Json<Vec<CallRecord>>>,
    uncertain: Option<Vec<Uuid>>,
    parent: Option<Uuid>,
    origin_kind: Option<String>,
    origin_run_id: Option<Uuid>,
    origin_step: Option<i32>,
    first_difference: Option<Value>,
}

impl TryFrom<ViewRow> for RunRecord {
    type Error = crate::StoreError;

    fn try_from(row: ViewRow) -> Result<Self> {
        let state = read_state(row.state)?;
        let calls = row.calls.map(|calls| calls.0).unwrap_or_default();
        Ok(Self {
            run_id: row.run_id,
            ord: row.ord,
            agent_id: row.agent_id,
            agent_version: row.agent_version,
            thread_id: row.thread_id,
            workspace_id: row.workspace_id,
            policy: row.policy,
            metadata: row.metadata,
            trace_id: row.trace_id,
            priority: row.priority,
            not_before: row.not_before,
            deadline: row.deadline,
            concurrency_key: row.concurrency_key,
            schedule_id: row.schedule_id,
            due_at: row.due_at,
            status: row.status,
            stop_reason: row.stop_reason,
            final_answer: row.final_answer,
            error: row.error,
            created_at: row.created_at,
            started_at: row.started_at,
            finished_at: row.finished_at,
            budgets: with_patches(&state.budgets, row.patches.map(|patches| patches.0).unwrap_or_default()),
            at: row.at.timestamp_millis(),
            pending_approvals: row.approvals.map(|approvals| approvals.0).unwrap_or_default(),
            pending_calls: calls.into_iter().filter(|call| is_parked(&state, call.call_id)).collect(),
            uncertain: row.uncertain.unwrap_or_default(),
            parent: row.parent,
            origin: row
                .origin_kind
                .zip(row.origin_run_id)
                .zip(row.origin_step)
                .map(|((kind, run), step)| (kind, run, step)),
            first_difference: row.first_difference,
            state,
        })
    }
}

/// Limits with changes that wait.
pub(crate) fn with_patches(budgets: &Budgets, patches: Vec<BudgetPatch>) -> Budgets {
    patches.iter().fold(budgets.clone(), |budgets, patch| patch.apply(&budgets))
}

/// Whether a client's answer is waited for.
pub(crate) fn is_parked(state: &RunState, call: Uuid) -> bool {
    state.call(CallId(call)).is_some_and(|call| matches!(call.stage, Stage::Parked { .. }))
}

impl TenantTx {
    /// One run.
    ///
    /// # Errors
    /// The database is away.
    pub async fn run_fetch(&mut self, run_id: RunId) -> Result<Option<RunRecord>> {
        Ok(self.run_fetch_all(&[run_id.0]).await?.pop())
    }

    /// Those of the runs that exist, newest first.
    pub(crate) async fn run_fetch_all(&mut self, runs: &[Uuid]) -> Result<Vec<RunRecord>> {
        let tenant = self.tenant();
        let rows = sqlx::query_as!(
            ViewRow,
            r#"SELECT r.run_id, r.ord, r.agent_id, r.agent_version, r.thread_id, r.workspace_id, r.policy, r.metadata, r.trace_id,
                   r.priority, r.not_before, r.deadline, r.concurrency_key, r.schedule_id, r.due_at, r.status, r.stop_reason, r.final_answer, r.error,
                   r.created_at, r.started_at, r.finished_at, s.state, clock_timestamp() AS "at!",
                   (SELECT json_agg(i.body -> 'Budget' -> 'patch' ORDER BY i.number) FROM inbox i
                    WHERE i.tenant_id = r.tenant_id AND i.run_id = r.run_id AND (i.body -> 'Budget') IS NOT NULL
                   ) AS "patches: Json<Vec<BudgetPatch>>",
                   (SELECT json_agg(a ORDER BY a.ord) FROM (
                        SELECT p.approval_id, p.ord, p.run_id, r.agent_id, r.thread_id, p.call_id, p.step, p.kind, p.tool_name,
                            asked_input(p, c) AS input, p.edited_input, p.input_hash, p.tool_version, p.risk, p.reason,
                            p.status, p.required, p.self_approval, p.votes, p.decision, p.expires_at, p.created_at,
                            p.decided_at, p.decided_by, p.used_at, p.voided_at, p.void_reason,
                            (SELECT v.approval_id FROM approvals v
                             WHERE v.tenant_id = p.tenant_id AND v.run_id = p.run_id AND v.call_id = p.call_id
                                 AND v.ord < p.ord AND v.voided_at IS NOT NULL
                             ORDER BY v.ord DESC LIMIT 1) AS replaces
                        FROM approvals p LEFT JOIN calls c ON c.tenant_id = p.tenant_id AND c.call_id = p.call_id
                        WHERE p.tenant_id = r.tenant_id AND p.run_id = r.run_id AND p.status = 'pending'
                    ) a) AS "approvals: Json<Vec<ApprovalRecord>>",
                   (SELECT json_agg(c ORDER BY c.index) FROM (
                        SELECT step, index, call_id, model_call_id, tool_name, input, input_hash, original_input, validation,
                            decision, result, ledger_id
                        FROM calls
                        WHERE tenant_id = r.tenant_id AND run_id = r.run_id AND step = (s.state ->> 'step')::integer
                            AND client AND submitted IS NULL AND result IS NULL
                    ) c) AS "calls: Json<Vec<CallRecord>>",
                   (SELECT array_agg(l.ledger_id ORDER BY l.started_at, l.ledger_id) FROM (
                        SELECT ledger_id, started_at FROM ledger o
                        WHERE o.tenant_id = r.tenant_id AND o.run_id = r.run_id AND o.status = 'uncertain'
                        UNION ALL
                        SELECT o.ledger_id, o.started_at FROM inherited_effects e
                        JOIN ledger o ON o.tenant_id = e.tenant_id AND o.ledger_id = e.ledger_id
                        WHERE e.tenant_id = r.tenant_id AND e.run_id = r.run_id AND o.status = 'uncertain'
                    ) l) AS uncertain,
                   (SELECT parent_run_id FROM children k WHERE k.tenant_id = r.tenant_id AND k.run_id = r.run_id) AS parent,
                   r.origin_kind, r.origin_run_id, r.origin_step, r.first_difference
               FROM runs r JOIN run_states s ON s.tenant_id = r.tenant_id AND s.run_id = r.run_id
               WHERE r.tenant_id = $1 AND r.run_id = ANY($2)
               ORDER BY r.ord DESC"#,
            tenant,
            runs,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        rows.into_iter().map(RunRecord::try_from).collect()
    }

    /// Whether there is such a run.
    ///
    /// # Errors
    /// The database is away.
    pub async fn run_exists(&mut self, run_id: RunId) -> Result<bool> {
        let tenant = self.tenant();
        let found = sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM runs WHERE tenant_id = $1 AND run_id = $2) AS "found!""#,
            tenant,
            run_id.0,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        Ok(found)
    }

    /// Whether a run has ended, or waits for somebody with something open; `None`: no such run.
    ///
    /// # Errors
    /// The database is away.
    pub async fn run_is_settled(&mut self, run_id: RunId) -> Result<Option<bool>> {
        let tenant = self.tenant();
        let row = sqlx::query!(
            r#"SELECT r.finished_at IS NOT NULL AS "ended!", r.status,
                   EXISTS (SELECT FROM approvals a WHERE a.tenant_id = r.tenant_id AND a.run_id = r.run_id
                       AND a.status = 'pending') AS "asked!",
                   EXISTS (SELECT FROM calls c JOIN ledger l ON l.tenant_id = c.tenant_id AND l.call_id = c.call_id
                       WHERE c.tenant_id = r.tenant_id AND c.run_id = r.run_id AND c.client AND c.submitted IS NULL
                       AND c.result IS NULL AND l.status = 'started') AS "parked!"
               FROM runs r WHERE r.tenant_id = $1 AND r.run_id = $2"#,
            tenant,
            run_id.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        Ok(row.map(|row| row.ended || (row.status.starts_with("waiting_") && (row.asked || row.parked))))
    }
}
