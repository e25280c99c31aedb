//! Deciding approvals: each once, by enough different people, and only while it is open.

mod acts;
mod locked;
mod remember;
mod votes;
mod weigh;

use answerable_core::FieldError;
use answerable_core::id::{ApprovalId, CallId, RunId};
use answerable_ports::Signal;
use answerable_ports::commit::{DecisionWord, InboundBody};
use serde_json::Value;
use uuid::Uuid;

use crate::Result;
use crate::approvals::ApprovalRecord;
use crate::error::{as_json, store_error};
use crate::grants::NewGrant;
use crate::ledger::Resolve;
use crate::tx::TenantTx;
pub(crate) use locked::{EditRules, LockedApproval};
pub use remember::Remember;
pub use votes::Voter;
pub(crate) use votes::{Votes, keys as voting_keys, subject};
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

/// Why a decision isn't taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionRefused {
    /// There is no such approval.
    NotFound,
    /// They looked at another input.
    OtherInput,
    /// They voted already, for something else.
    OtherVote,
    /// Their key isn't valid any more.
    KeyGone,
    /// They started the run, and whoever did may not approve here.
    OwnRun,
    /// A link doesn't say who decides, and here that must be known: several people must agree, or whoever started the run may
    /// not approve.
    NobodyInParticular,
    /// It was decided otherwise.
    AlreadyDecided,
    /// Its time is over, or it was cancelled.
    Expired,
    /// What is decided can't be.
    Invalid(Vec<FieldError>),
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
        voter: &Voter,
    ) -> Result<std::result::Result<ApprovalRecord, DecisionRefused>> {
        let edits = decision.input.is_some();
        let Some(locked) = self.approval_lock(approval_id, edits, voter).await? else {
            return Ok(Err(DecisionRefused::NotFound));
        };
        match weigh::weigh(&locked, decision, voter) {
            Err(refused) => return Ok(Err(refused)),
            Ok(Weighed::Unchanged) => return Ok(Ok(locked.record)),
            Ok(Weighed::Vote(vote)) => {
                self.vote_add(approval_id, &vote).await?;
                self.vote_act(&locked, &vote);
            }
            Ok(Weighed::Decided(verdict)) => {
                if decision.remember.is_some() && self.grants_are_full().await? {
                    return Ok(Err(DecisionRefused::Invalid(vec![remember::too_many()])));
                }
                self.vote_add(approval_id, &verdict.vote).await?;
                self.verdict_write(approval_id, &verdict, &voter.by).await?;
                self.verdict_act(&locked, &verdict);
                self.verdict_follow(&locked, decision, &verdict, &voter.by).await?;
            }
        }
        self.announce(Signal::Progress(locked.record.run_id));
        let decided = self.approval_fetch(approval_id).await?;
        Ok(decided.ok_or(DecisionRefused::NotFound))
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
            "UPDATE approvals SET status = $3, decision = $4, edited_input = $5::text::json, approved_hash = $7, decided_at = clock_timestamp(), decided_by = $6
             WHERE tenant_id = $1 AND approval_id = $2 AND status = 'pending'",
            tenant,
            approval_id.0,
            verdict.status(),
            votes::word(verdict.word),
            verdict.edited.as_ref().map(as_json).transpose()?,
            by,
            verdict.approved_hash(),
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
                    at: Some(locked.run.at),
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
            scope_id: remember::scope_id(locked, remember.scope),
            input_hash: remember.exact_input.then_some(verdict.input_hash.as_str()),
            created_by: by,
            expires_at: remember.expires_at,
            deciders: verdict.behind.keys().cloned().collect(),
            decider_keys: verdict.behind.values().map(|key| key.map(|key| key.0)).collect(),
            max_risk: locked.record.risk.as_deref().unwrap_or("low"),
            approval_id: locked.record.approval_id,
        };
        self.grant_create(&grant).await
    }
}
