//! An approval that is about to be decided, and what that is judged by.

use std::collections::BTreeSet;

use answerable_core::agent::AgentSpec;
use answerable_core::budget::{BudgetPatch, Budgets};
use answerable_core::catalog::with_tools;
use answerable_core::id::{ApprovalId, KeyId, RunId};
use answerable_core::permission::Policy;
use serde_json::Value;
use uuid::Uuid;

use super::{Voter, voting_keys};
use crate::Result;
use crate::approvals::ApprovalRecord;
use crate::error::store_error;
use crate::inbox::LockedRun;
use crate::tx::TenantTx;

/// An approval, locked together with its run.
#[derive(Debug)]
pub(crate) struct LockedApproval {
    pub(crate) record: ApprovalRecord,
    pub(crate) run: LockedRun,
    pub(crate) context: Value,
    /// Who started the run.
    pub(crate) creators: Vec<String>,
    /// Of the keys that votes were given with, and of the one that is about to decide, those that are valid.
    pub(crate) valid_keys: BTreeSet<KeyId>,
    /// Loaded only where somebody changes the call's input or the run's limits.
    pub(crate) rules: Option<EditRules>,
}

/// What a changed input is judged by.
#[derive(Debug)]
pub(crate) struct EditRules {
    pub(crate) agent: AgentSpec,
    pub(crate) tenant_policy: Option<Policy>,
    pub(crate) run_policy: Option<Policy>,
    pub(crate) waiting_patches: Vec<BudgetPatch>,
    /// What the run that called this one gave it.
    pub(crate) given: Option<Budgets>,
}

impl TenantTx {
    /// Locks the runs of many approvals at once, in one order for all, so that two requests that decide the same ones in
    /// different orders don't wait for each other in a circle.
    ///
    /// # Errors
    /// The database is away.
    pub async fn approvals_lock(&mut self, approvals: &[ApprovalId]) -> Result<()> {
        let tenant = self.tenant();
        // What is remembered refers to the tenant, and whoever deletes that locks it before its runs.
        self.tenant_hold().await?;
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

    /// Locks an approval together with its run; `edits`: with what a changed input is judged by.
    pub(super) async fn approval_lock(
        &mut self,
        approval_id: ApprovalId,
        edits: bool,
        voter: &Voter,
    ) -> Result<Option<LockedApproval>> {
        let tenant = self.tenant();
        let row = sqlx::query!(
            "SELECT a.run_id, r.context
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
        // What is remembered refers to the tenant, and whoever deletes that locks it before its runs.
        self.tenant_hold().await?;
        // Whoever changes an approval holds its run, so the row needs no lock of its own.
        let Some(run) = self.run_lock(run_id).await? else { return Ok(None) };
        let Some(record) = self.approval_fetch(approval_id).await? else { return Ok(None) };
        let rules = if edits && record.status == "pending" {
            Some(self.edit_rules(run_id, run.state.depth > 0).await?)
        } else {
            None
        };
        let creators = self.creators(run_id).await?;
        // Whoever let the request in may have looked the key up a moment ago.
        let valid_keys = self.keys_valid(voting_keys(&record.votes).chain(voter.key)).await?;
        Ok(Some(LockedApproval { record, run, context: row.context, creators, valid_keys, rules }))
    }

    async fn edit_rules(&mut self, run_id: RunId, is_called: bool) -> Result<EditRules> {
        let (agent, waiting_patches) = self.budget_facts(run_id).await?;
        let agent = with_tools(&agent, &self.run_tools_fetch(run_id).await?);
        let tenant_policy = self.policy_fetch().await?.map(|(_, policy)| policy);
        let given = if is_called { Some(self.given_budgets(run_id).await?) } else { None };
        let run_policy = self.run_policy(run_id).await?;
        Ok(EditRules { agent, tenant_policy, run_policy, waiting_patches, given })
    }
}
