//! Deciding approvals: each once, by enough different people, and only while it is open.

mod weigh;

use answerable_core::FieldError;
use answerable_core::agent::AgentSpec;
use answerable_core::budget::{BudgetPatch, Budgets};
use answerable_core::catalog::with_tools;
use answerable_core::id::{ApprovalId, CallId, RunId};
use answerable_core::permission::Policy;
use answerable_ports::Signal;
use answerable_ports::commit::{DecisionWord, InboundBody};
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::Result;
use crate::approvals::ApprovalRecord;
use crate::error::{as_json, store_error};
use crate::grants::{GrantScope, NewGrant};
use crate::inbox::LockedRun;
use crate::ledger::Resolve;
use crate::tx::TenantTx;
use weigh::{Verdict, Weighed};

/// What somebody decides.
#[derive(Debug, Clone)]
pub struct Decision {
    /// `approve`, `deny` or `answer`.
    pub word: DecisionWord,
    /// Arguments in place of the model's; of kind `budget` the new limits.
    pub input: Option<Value>,
    /// With `answer`: the tool's result.
    pub content: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// The hash that they looked at.
    pub input_hash: Option<String>,
    /// Later calls like this one may run without asking.
    pub remember: Option<Remember>,
}

/// How far an approval is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remember {
    /// For what.
    pub scope: GrantScope,
    /// For this input alone.
    pub exact_input: bool,
    /// It holds until then.
    pub expires_at: Option<DateTime<Utc>>,
}

/// Why a decision isn't taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionRefused {
    /// There is no such approval.
    NotFound,
    /// They looked at another input.
    OtherInput,
    /// They voted already, for something else.
    OtherVote,
    /// It was decided otherwise.
    AlreadyDecided,
    /// Its time is over, or it was cancelled.
    Expired,
    /// What is decided can't be.
    Invalid(Vec<FieldError>),
}

/// An approval, locked together with its run.
#[derive(Debug)]
pub(crate) struct LockedApproval {
    pub(crate) record: ApprovalRecord,
    pub(crate) run: LockedRun,
    pub(crate) agent_id: Option<Uuid>,
    pub(crate) thread_id: Option<Uuid>,
    pub(crate) context: Value,
    /// Loaded only where somebody changes the call's input or the run's limits.
    pub(crate) rules: Option<EditRules>,
}

/// What a changed input is judged by.
#[derive(Debug)]
pub(crate) struct EditRules {
    pub(crate) agent: AgentSpec,
    pub(crate) tenant_policy: Option<Policy>,
    pub(crate) waiting_patches: Vec<BudgetPatch>,
    /// What the run that called this one gave it.
    pub(crate) given: Option<Budgets>,
}

impl TenantTx {
    /// Decides an approval. Nothing is changed where it is refused.
    ///
    /// # Errors
    /// The database is away.
    pub async fn approval_decide(
        &mut self,
        approval_id: ApprovalId,
        decision: &Decision,
        by: &str,
    ) -> Result<std::result::Result<ApprovalRecord, DecisionRefused>> {
        let edits = decision.input.is_some();
        let Some(locked) = self.approval_lock(approval_id, edits).await? else {
            return Ok(Err(DecisionRefused::NotFound));
        };
        match weigh::weigh(&locked, decision, by) {
            Err(refused) => return Ok(Err(refused)),
            Ok(Weighed::Unchanged) => return Ok(Ok(locked.record)),
            Ok(Weighed::Vote(vote)) => self.vote_add(approval_id, &vote).await?,
            Ok(Weighed::Decided(verdict)) => {
                self.vote_add(approval_id, &verdict.vote).await?;
                self.verdict_write(approval_id, &verdict, by).await?;
                self.verdict_follow(&locked, decision, &verdict, by).await?;
            }
        }
        self.announce(Signal::Progress(locked.record.run_id));
        let decided = self.approval_fetch(approval_id).await?;
        Ok(decided.ok_or(DecisionRefused::NotFound))
    }

    /// Locks the runs of many approvals at once, in one order for all, so that two requests that decide the same ones in
    /// different orders don't wait for each other in a circle.
    ///
    /// # Errors
    /// The database is away.
    pub async fn approvals_lock(&mut self, approvals: &[ApprovalId]) -> Result<()> {
        let tenant = self.tenant();
        let ids: Vec<Uuid> = approvals.iter().map(|id| id.0).collect();
        sqlx::query!(
            "SELECT s.run_id FROM run_states s
             WHERE s.tenant_id = $1 AND s.run_id IN (
                 SELECT a.run_id FROM approvals a WHERE a.tenant_id = $1 AND a.approval_id = ANY($2))
             ORDER BY s.run_id FOR UPDATE",
            tenant,
            &ids,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    async fn approval_lock(
        &mut self,
        approval_id: ApprovalId,
        edits: bool,
    ) -> Result<Option<LockedApproval>> {
        let tenant = self.tenant();
        let row = sqlx::query!(
            "SELECT a.run_id, r.agent_id, r.thread_id, r.context
             FROM approvals a JOIN runs r ON r.tenant_id = a.tenant_id AND r.run_id = a.run_id
             WHERE a.tenant_id = $1 AND a.approval_id = $2",
            tenant,
            approval_id.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let Some(row) = row else { return Ok(None) };
        let run_id = RunId(row.run_id);
        // Whoever changes an approval holds its run, so the row needs no lock of its own.
        let Some(run) = self.run_lock(run_id).await? else { return Ok(None) };
        let Some(record) = self.approval_fetch(approval_id).await? else { return Ok(None) };
        let rules = if edits && record.status == "pending" {
            Some(self.edit_rules(run_id, run.state.depth > 0).await?)
        } else {
            None
        };
        let (agent_id, thread_id, context) = (row.agent_id, row.thread_id, row.context);
        Ok(Some(LockedApproval { record, run, agent_id, thread_id, context, rules }))
    }

    async fn edit_rules(&mut self, run_id: RunId, is_called: bool) -> Result<EditRules> {
        let (agent, waiting_patches) = self.budget_facts(run_id).await?;
        let agent = with_tools(&agent, &self.run_tools_fetch(run_id).await?);
        let tenant_policy = self.policy_fetch().await?.map(|(_, policy)| policy);
        let given = if is_called { Some(self.given_budgets(run_id).await?) } else { None };
        Ok(EditRules { agent, tenant_policy, waiting_patches, given })
    }

    async fn vote_add(&mut self, approval_id: ApprovalId, vote: &Value) -> Result<()> {
        let tenant = self.tenant();
        sqlx::query!(
            "UPDATE approvals SET votes = votes || $3 WHERE tenant_id = $1 AND approval_id = $2",
            tenant,
            approval_id.0,
            Value::Array(vec![vote.clone()]),
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    async fn verdict_write(&mut self, approval_id: ApprovalId, verdict: &Verdict, by: &str) -> Result<()> {
        let tenant = self.tenant();
        sqlx::query!(
            "UPDATE approvals SET status = $3, decision = $4, edited_input = $5::text::json, decided_at = clock_timestamp(), decided_by = $6
             WHERE tenant_id = $1 AND approval_id = $2 AND status = 'pending'",
            tenant,
            approval_id.0,
            verdict.status(),
            weigh::word(verdict.word),
            verdict.edited.as_ref().map(as_json).transpose()?,
            by,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// What follows from a verdict: the run hears it, and it may be remembered.
    async fn verdict_follow(
        &mut self,
        locked: &LockedApproval,
        decision: &Decision,
        verdict: &Verdict,
        by: &str,
    ) -> Result<()> {
        let approval = &locked.record;
        let (run_id, approval_id) = (RunId(approval.run_id), ApprovalId(approval.approval_id));
        match (approval.kind.as_str(), approval.call_id) {
            ("uncertain_effect", Some(call)) => {
                self.effect_decide(run_id, call, decision, verdict.word, by).await
            }
            ("budget", _) => {
                let body = match (verdict.word, &verdict.patch) {
                    (DecisionWord::Approve, Some(patch)) => {
                        InboundBody::Budget { patch: patch.clone(), by: by.into() }
                    }
                    _ => InboundBody::BudgetDenied { approval_id, by: by.into() },
                };
                self.inbox_add(run_id, &body, false).await
            }
            (_, Some(call)) => {
                if let Some(remember) = decision.remember {
                    self.remember(locked, remember, verdict, by).await?;
                }
                let body = InboundBody::Decided {
                    approval_id,
                    call_id: CallId(call),
                    decision: verdict.word,
                    input: verdict.edited.clone(),
                    content: decision.content.clone(),
                    reason: decision.reason.clone(),
                    by: by.into(),
                };
                self.inbox_add(run_id, &body, false).await
            }
            (_, None) => Ok(()),
        }
    }

    /// A person says whether an uncertain effect happened: the ledger has it at once, then the run.
    async fn effect_decide(
        &mut self,
        run_id: RunId,
        call: Uuid,
        decision: &Decision,
        word: DecisionWord,
        by: &str,
    ) -> Result<()> {
        let resolve = Resolve {
            applied: word != DecisionWord::Deny,
            content: decision.content.clone(),
            note: decision.reason.clone(),
            by: by.into(),
        };
        if let Some(entry) = self.ledger_lock_uncertain(run_id, call).await? {
            self.ledger_settle(&entry, &resolve).await?;
        }
        self.settled_tell(run_id, call, &resolve).await
    }

    async fn remember(
        &mut self,
        locked: &LockedApproval,
        remember: Remember,
        verdict: &Verdict,
        by: &str,
    ) -> Result<()> {
        let Some(tool_name) = &locked.record.tool_name else { return Ok(()) };
        let grant = NewGrant {
            tool_name,
            scope: remember.scope,
            scope_id: weigh::scope_id(locked, remember.scope),
            input_hash: remember.exact_input.then_some(verdict.input_hash.as_str()),
            created_by: by,
            expires_at: remember.expires_at,
        };
        self.grant_create(&grant).await
    }
}
