//! What calls are judged by, as engines read it; and changes of that.

use answerable_core::Millis;
use answerable_core::id::{ApprovalId, KeyId, RunId};
use answerable_core::json::input_hash;
use answerable_core::permission::{CallFacts, CompiledPolicy, Judgement, Owner, Policies, judge};
use answerable_core::registry::Registry;
use answerable_core::schema::Effort;
use answerable_ports::store::Rules;
use answerable_ports::{Lease, RunStore};
use answerable_store::NewKey;
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::world::World;

/// What calls of a run are judged by at this moment.
pub(crate) struct Gate {
    pub(crate) rules: Rules,
    tenant: Option<CompiledPolicy>,
    run: Option<CompiledPolicy>,
}

impl Gate {
    pub(crate) async fn of(world: &World, run_id: RunId) -> Self {
        let lease = Lease { tenant_id: world.tenant, run_id, epoch: 0 };
        let rules = world.engine.rules(lease, None, None).await.expect("rules");
        let compiled = |policy, owner| CompiledPolicy::compile(policy, owner).expect("a policy");
        let tenant = rules.tenant_policy.as_ref();
        let tenant = tenant.map(|(version, policy)| compiled(policy, Owner::Tenant).numbered(*version));
        let run = rules.run_policy.as_ref().map(|policy| compiled(policy, Owner::Run));
        Self { rules, tenant, run }
    }

    pub(crate) fn judge(&self, registry: &Registry, tool_name: &str, input: &Value, at: Millis) -> Judgement {
        let hash = input_hash(input);
        let call = CallFacts {
            tool_name,
            risk: registry.tool(tool_name).expect("a tool").risk,
            input,
            input_hash: &hash,
            context: &Value::Null,
            creators: &self.rules.creators,
            effort: &Effort::of_one(),
        };
        let policies =
            Policies { agent: &registry.policy, tenant: self.tenant.as_ref(), run: self.run.as_ref() };
        judge(policies, &self.rules.grants, &call, at).under(self.rules.number)
    }

    pub(super) fn stands(&self, judgement: &Judgement, approval: ApprovalId) -> bool {
        judgement.is_met_by(&self.deciders(approval), &self.rules.creators)
    }

    /// Those who gave an approval, as far as their word counts by now.
    pub(super) fn deciders(&self, approval: ApprovalId) -> Vec<String> {
        let deciders = self.rules.deciders.get(&approval).into_iter().flatten();
        deciders.map(|decider| decider.by.clone()).collect()
    }
}

/// The tenant has this policy from here on.
pub(crate) async fn put_policy(world: &World, policy: Value) {
    let mut tx = world.tx().await;
    tx.policy_put(&policy, "key_1").await.expect("a policy");
    tx.commit().await.expect("committed");
}

/// A key of the tenant's.
pub(crate) async fn new_key(world: &World, expires_at: Option<DateTime<Utc>>) -> KeyId {
    let key_id = KeyId(Uuid::now_v7());
    let scopes = vec!["approvals:decide".into()];
    let key = NewKey { key_id, name: "desk".into(), secret_hash: [0; 32], scopes, expires_at };
    let mut tx = world.store.system().await.expect("a transaction");
    tx.key_create(world.tenant, &key).await.expect("an answer").expect("a tenant");
    tx.commit().await.expect("committed");
    key_id
}

/// The key is taken back.
pub(crate) async fn revoke_key(world: &World, key: KeyId) {
    let mut tx = world.store.system().await.expect("a transaction");
    assert!(tx.key_revoke(world.tenant, key).await.expect("an answer"));
    tx.commit().await.expect("committed");
}
