//! What a run's calls are judged by beside its agent, and the number of it all.

use std::collections::{BTreeMap, BTreeSet};

use answerable_core::id::{ApprovalId, KeyId, RunId};
use answerable_core::json::input_hash;
use answerable_core::permission::Policy;
use answerable_ports::commit::DecisionWord;
use answerable_ports::store::{Decider, Rules};
use uuid::Uuid;

use crate::Result;
use crate::decisions::{Votes, subject, voting_keys};
use crate::error::store_error;
use crate::policies::read_policy;
use crate::tx::TenantTx;

impl TenantTx {
    /// What a run's calls are judged by at this moment.
    ///
    /// # Errors
    /// The database is away, or a policy makes no sense.
    pub(crate) async fn rules_fetch(
        &mut self,
        run_id: RunId,
        thread_id: Option<Uuid>,
        agent_id: Option<Uuid>,
    ) -> Result<Rules> {
        // Before all that it is the number of: what changes meanwhile has a newer one, and nothing begins under this.
        let number = self.rules_number().await?;
        let run_policy = self.run_policy(run_id).await?;
        Ok(Rules {
            number,
            tenant_policy: self.policy_fetch().await?,
            run_policy,
            creators: self.creators(run_id).await?,
            grants: self.grants_covering(run_id.0, thread_id, agent_id).await?,
            deciders: self.deciders(run_id).await?,
        })
    }

    /// The policy that a run was started with.
    pub(crate) async fn run_policy(&mut self, run_id: RunId) -> Result<Option<Policy>> {
        let policy = sqlx::query_scalar!(
            "SELECT policy FROM runs WHERE tenant_id = $1 AND run_id = $2",
            self.tenant(),
            run_id.0,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        policy.map(read_policy).transpose()
    }

    /// All who count as having started a run.
    pub(crate) async fn creators(&mut self, run_id: RunId) -> Result<Vec<String>> {
        sqlx::query_scalar!(
            // A run of before they were kept has the one who started it.
            r#"SELECT CASE WHEN creators = '{}' THEN ARRAY[created_by] ELSE creators END AS "creators!"
               FROM runs WHERE tenant_id = $1 AND run_id = $2"#,
            self.tenant(),
            run_id.0,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)
    }

    async fn rules_number(&mut self) -> Result<i64> {
        let number =
            sqlx::query_scalar!("SELECT number FROM tenant_rules WHERE tenant_id = $1", self.tenant())
                .fetch_optional(self.conn())
                .await
                .map_err(store_error)?;
        Ok(number.unwrap_or(0))
    }

    /// Who approved what, of a run's approvals that are given and not used up; those with keys that are valid still.
    async fn deciders(&mut self, run_id: RunId) -> Result<BTreeMap<ApprovalId, Vec<Decider>>> {
        let given = sqlx::query!(
            "SELECT approval_id, votes, coalesce(approved_hash, input_hash) AS hash,
                 CASE WHEN approved_hash IS NULL THEN edited_input END AS unhashed
             FROM approvals
             WHERE tenant_id = $1 AND run_id = $2 AND status = 'approved' AND decision = 'approve' AND used_at IS NULL
               AND voided_at IS NULL",
            self.tenant(),
            run_id.0,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let keys: Vec<KeyId> = given.iter().flat_map(|row| voting_keys(&row.votes)).collect();
        let valid_until = self.keys_valid_until(keys.into_iter()).await?;
        let valid_keys: BTreeSet<KeyId> = valid_until.keys().copied().collect();
        let deciders = given.into_iter().map(|row| {
            // Servers of an older version wrote no hash of an edit.
            let hash = row.unhashed.as_ref().map(input_hash).or(row.hash).unwrap_or_default();
            let votes = Votes { all: &row.votes, valid_keys: &valid_keys };
            let agreed = votes.deciders_until(&subject(DecisionWord::Approve, &hash), &valid_until);
            let deciders = agreed.into_iter().map(|(by, until)| Decider { by, until });
            (ApprovalId(row.approval_id), deciders.collect())
        });
        Ok(deciders.collect())
    }
}
