//! The tool ledger as it is shown, and people's word on effects of which nobody knows.

use answerable_core::audit::Action;
use answerable_core::id::{ApprovalId, CallId, LedgerId, RunId};
use answerable_core::run::{RunState, Stage};
use answerable_ports::Signal;
use answerable_ports::commit::{DecisionWord, InboundBody};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

/// A ledger entry (contract, "Ledger entry").
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerRecord {
    /// Its id.
    pub ledger_id: Uuid,
    /// Run.
    pub run_id: Uuid,
    /// The call.
    pub call_id: Uuid,
    /// Step.
    pub step: i32,
    /// Tool.
    pub tool_name: String,
    /// Hash of the input that was sent.
    pub input_hash: String,
    /// Key that was sent.
    pub idempotency_key: String,
    /// `started`, `succeeded`, `failed` or `uncertain`.
    pub status: String,
    /// `none`, `possible` or `committed`.
    pub side_effect: String,
    /// Attempts so far.
    pub attempts: i32,
    /// Why it didn't succeed.
    pub error_code: Option<String>,
    /// A person's word: `{state, by, note, at}`.
    pub resolution: Option<Value>,
    /// When it was sent first.
    pub started_at: DateTime<Utc>,
    /// When it was known, or known to be unknown.
    pub finished_at: Option<DateTime<Utc>>,
}

/// A person's word on an effect.
#[derive(Debug, Clone)]
pub struct Resolve {
    /// It happened.
    pub applied: bool,
    /// What the model is to see as its result.
    pub content: Option<String>,
    /// For those who read the entry later.
    pub note: Option<String>,
    /// Who says so.
    pub by: String,
}

impl Resolve {
    fn word(&self) -> &'static str {
        if self.applied { "applied" } else { "not_applied" }
    }
}

/// Why an entry isn't settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResolveRefused {
    /// There is no such entry.
    NotFound,
    /// What became of it is known, or will be.
    NotUncertain,
    /// Somebody settled it the other way.
    AlreadyDecided,
}

impl TenantTx {
    /// A run's entries after the one of id `after`, oldest first.
    ///
    /// # Errors
    /// The database is away.
    pub async fn ledger_list(
        &mut self,
        run_id: RunId,
        after: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<LedgerRecord>> {
        let tenant = self.tenant();
        sqlx::query_as!(
            LedgerRecord,
            r#"SELECT ledger_id, run_id AS "run_id!", call_id, step, tool_name, input_hash, idempotency_key, status, side_effect,
                   attempts, error_code, resolution, started_at, finished_at
               FROM ledger
               WHERE tenant_id = $1 AND run_id = $2 AND ($3::uuid IS NULL OR (started_at, ledger_id) > (
                   SELECT started_at, ledger_id FROM ledger WHERE tenant_id = $1 AND ledger_id = $3))
               ORDER BY started_at, ledger_id LIMIT $4"#,
            tenant,
            run_id.0,
            after,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// Writes down what a person says of an uncertain effect. A run that waits for it goes on; nothing is sent.
    ///
    /// # Errors
    /// The database is away.
    pub async fn ledger_resolve(
        &mut self,
        run_id: RunId,
        ledger_id: LedgerId,
        resolve: &Resolve,
    ) -> Result<std::result::Result<LedgerRecord, ResolveRefused>> {
        let Some(locked) = self.run_lock(run_id).await? else { return Ok(Err(ResolveRefused::NotFound)) };
        let Some(entry) = self.ledger_lock(run_id, ledger_id).await? else {
            return Ok(Err(ResolveRefused::NotFound));
        };
        if let Some(before) = &entry.resolution {
            let same = before.get("state").and_then(Value::as_str) == Some(resolve.word());
            return Ok(if same { Ok(entry) } else { Err(ResolveRefused::AlreadyDecided) });
        }
        if entry.status != "uncertain" {
            return Ok(Err(ResolveRefused::NotUncertain));
        }
        let entry = self.ledger_settle(&entry, resolve).await?;
        let detail = json!({"run_id": run_id, "tool_name": entry.tool_name, "state": resolve.word(), "input_hash": entry.input_hash});
        self.act(Action::LedgerResolve, ledger_id, detail);
        if let Some(approval) = asking(&locked.state, entry.call_id) {
            let word = if resolve.applied { DecisionWord::Approve } else { DecisionWord::Deny };
            self.approval_follow(approval, word, &resolve.by).await?;
            self.settled_tell(run_id, entry.call_id, resolve).await?;
        }
        self.announce(Signal::Progress(run_id.0));
        Ok(Ok(entry))
    }

    pub(crate) async fn ledger_lock(
        &mut self,
        run_id: RunId,
        ledger_id: LedgerId,
    ) -> Result<Option<LedgerRecord>> {
        let tenant = self.tenant();
        sqlx::query_as!(
            LedgerRecord,
            r#"SELECT ledger_id, run_id AS "run_id!", call_id, step, tool_name, input_hash, idempotency_key, status, side_effect,
                   attempts, error_code, resolution, started_at, finished_at
               FROM ledger l WHERE tenant_id = $1 AND ledger_id = $3 AND run_id IS NOT NULL
                   AND (run_id = $2 OR EXISTS (SELECT FROM inherited_effects e
                       WHERE e.tenant_id = $1 AND e.run_id = $2 AND e.ledger_id = $3))
               FOR UPDATE OF l"#,
            tenant,
            run_id.0,
            ledger_id.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// The uncertain entry of a call, locked.
    pub(crate) async fn ledger_lock_uncertain(
        &mut self,
        run_id: RunId,
        call_id: Uuid,
    ) -> Result<Option<LedgerRecord>> {
        // One entry a call, of the same UUID.
        let entry = self.ledger_lock(run_id, LedgerId(call_id)).await?;
        Ok(entry.filter(|entry| entry.status == "uncertain" && entry.resolution.is_none()))
    }

    /// Writes a person's word into an uncertain entry.
    pub(crate) async fn ledger_settle(
        &mut self,
        entry: &LedgerRecord,
        resolve: &Resolve,
    ) -> Result<LedgerRecord> {
        let tenant = self.tenant();
        let resolution = json!({"state": resolve.word(), "by": resolve.by, "note": resolve.note});
        let applied = resolve.applied;
        sqlx::query_as!(
            LedgerRecord,
            r#"UPDATE ledger SET status = CASE WHEN $3 THEN 'succeeded' ELSE 'failed' END,
                   side_effect = CASE WHEN $3 THEN 'committed' ELSE 'none' END,
                   error_code = CASE WHEN $3 THEN NULL ELSE 'UNAVAILABLE' END,
                   resolution = ($4::jsonb || jsonb_build_object('at',
                       to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))::json
               WHERE tenant_id = $1 AND ledger_id = $2
               RETURNING ledger_id, run_id AS "run_id!", call_id, step, tool_name, input_hash, idempotency_key, status,
                   side_effect, attempts, error_code, resolution, started_at, finished_at"#,
            tenant,
            entry.ledger_id,
            applied,
            resolution,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)
    }

    /// The run that waits for a word hears it.
    pub(crate) async fn settled_tell(
        &mut self,
        run_id: RunId,
        call_id: Uuid,
        resolve: &Resolve,
    ) -> Result<()> {
        let body = InboundBody::Settled {
            call_id: CallId(call_id),
            applied: resolve.applied,
            content: resolve.content.clone(),
            by: resolve.by.clone(),
        };
        self.inbox_add(run_id, &body, false).await
    }

    /// An approval is decided by what it asked for having been settled otherwise.
    pub(crate) async fn approval_follow(
        &mut self,
        approval: ApprovalId,
        word: DecisionWord,
        by: &str,
    ) -> Result<()> {
        let tenant = self.tenant();
        let (status, word) = match word {
            DecisionWord::Deny => ("denied", "deny"),
            _ => ("approved", "approve"),
        };
        let done = sqlx::query!(
            "UPDATE approvals SET status = $3, decision = $4, decided_at = now(), decided_by = $5
             WHERE tenant_id = $1 AND approval_id = $2 AND status = 'pending'
             RETURNING run_id, call_id, kind, tool_name, input_hash",
            tenant,
            approval.0,
            status,
            word,
            by,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        if let Some(row) = done {
            let detail = json!({"run_id": RunId(row.run_id), "call_id": row.call_id.map(CallId), "kind": row.kind,
                "tool_name": row.tool_name, "decision": word, "input_hash": row.input_hash});
            self.act(Action::ApprovalDecide, approval, detail);
        }
        Ok(())
    }
}

/// The approval by which a run asks what became of a call.
pub(crate) fn asking(state: &RunState, call_id: Uuid) -> Option<ApprovalId> {
    let call = state.call(CallId(call_id))?;
    matches!(call.stage, Stage::AskedUncertain { .. }).then(|| call.uncertain_approval_id())
}
