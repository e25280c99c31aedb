//! What changes around the runs while they live: policies, grants, keys, cancels; and servers that die.

use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::stage::{Stage, new_key};
use super::witness::{Change, Demand, TenantRule, What};
use crate::harness::Answer;

/// The tenant's policies.
const POLICIES: [&[TenantRule]; 7] = [
    &[],
    &[],
    &[TenantRule { tool: Some("pay"), from_amount: 0, demand: Demand::Deny }],
    &[TenantRule { tool: Some("note"), from_amount: 0, demand: Demand::Ask { people: 1, creators: true } }],
    &[TenantRule { tool: Some("pay"), from_amount: 0, demand: Demand::Ask { people: 2, creators: true } }],
    &[TenantRule { tool: Some("pay"), from_amount: 0, demand: Demand::Ask { people: 1, creators: false } }],
    &[TenantRule { tool: None, from_amount: 4, demand: Demand::Deny }],
];

/// Changes one thing after the other, until all runs have ended.
pub(super) async fn make(stage: &Stage, rng: &mut StdRng) {
    while !stage.is_over() {
        match rng.random_range(0..100) {
            0..55 => {
                let policy = POLICIES.choose(rng).copied().expect("a policy");
                change(stage, What::Policy(policy)).await;
            }
            55..70 => {
                if let Some((grant, approval)) = a_grant(stage, rng).await {
                    revoke_grant(stage, &grant, approval).await;
                }
            }
            70..90 => {
                change(stage, What::KeyRevoked(stage.key(2).id)).await;
                a_new_key(stage).await;
            }
            90..95 => {
                let run = stage.runs.choose(rng).expect("a run").clone();
                change(stage, What::Cancelled(run)).await;
            }
            _ => {}
        }
        let pause = rng.random_range(50..400);
        sleep(Duration::from_millis(pause)).await;
    }
}

async fn change(stage: &Stage, what: What) {
    let before = stage.begun().await;
    match &what {
        What::Policy(rules) => {
            let policy = as_json(rules);
            insist(stage, 200, |turn| stage.client(turn).put("/v1/policy", &policy).try_send()).await;
        }
        What::KeyRevoked(key) => {
            let path = format!("/v1/tenants/{}/keys/{key}", stage.world.tenant);
            insist(stage, 204, |turn| stage.operator(turn).delete(&path).try_send()).await;
        }
        What::Cancelled(run) => {
            let path = format!("/v1/runs/{run}/cancel");
            insist(stage, 200, |turn| stage.client(turn).post(&path, &json!({})).try_send()).await;
        }
        What::GrantRevoked(_) => unreachable!("it has a path of its own"),
    }
    let after = stage.begun().await;
    stage.evidence().changes.push(Change { what, before, after });
}

async fn revoke_grant(stage: &Stage, grant: &str, approval: String) {
    let path = format!("/v1/grants/{grant}");
    let before = stage.begun().await;
    insist(stage, 204, |turn| stage.client(turn).delete(&path).try_send()).await;
    let after = stage.begun().await;
    stage.evidence().changes.push(Change { what: What::GrantRevoked(approval), before, after });
}

/// Asks for a change until a server says that it is made: whoever died over it may have made it, and it is the same twice.
async fn insist<F>(stage: &Stage, wanted: u16, ask: impl Fn(usize) -> F)
where
    F: Future<Output = reqwest::Result<Answer>>,
{
    for turn in 0.. {
        match ask(turn % stage.servers.len()).await {
            Ok(answer) if answer.status == wanted => return,
            Ok(answer) => assert!(answer.status == 503 || answer.status == 404, "{answer}"),
            Err(_) => {}
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// A grant that stands, and the approval that it was made of.
async fn a_grant(stage: &Stage, rng: &mut StdRng) -> Option<(String, String)> {
    let grants = stage.client(rng.random_range(0..2)).get("/v1/grants").try_send().await.ok()?;
    let grants = grants.body["data"].as_array().cloned().unwrap_or_default();
    let grant = grants.choose(rng)?;
    let text = |name: &str| grant[name].as_str().map(str::to_owned);
    Some((text("id")?, text("approval_id").expect("a grant names its approval")))
}

async fn a_new_key(stage: &Stage) {
    for turn in 0.. {
        let server = &stage.servers[turn % 2];
        if let Some(key) = new_key(&stage.world, server, &["approvals:decide", "runs:read"]).await {
            return stage.replace_key(key);
        }
        sleep(Duration::from_millis(50)).await;
    }
}

fn as_json(rules: &[TenantRule]) -> Value {
    let rule = |rule: &TenantRule| {
        let input = json!({"required": ["amount"], "properties": {"amount": {"minimum": rule.from_amount}}});
        let mut shown = json!({"input": input});
        if let Some(tool) = rule.tool {
            shown["tool"] = json!(tool);
        }
        match rule.demand {
            Demand::Allow => shown["effect"] = json!("allow"),
            Demand::Deny => shown["effect"] = json!("deny"),
            Demand::Ask { people, creators } => {
                shown["effect"] = json!("ask");
                shown["approvals"] = json!(people);
                shown["self_approval"] = json!(creators);
            }
        }
        shown
    };
    json!({"rules": rules.iter().map(rule).collect::<Vec<_>>()})
}

/// Kills servers and starts them again, until all runs have ended. Now and then none is there.
pub(super) async fn kill(stage: &Stage, rng: &mut StdRng) {
    while !stage.is_over() {
        let (pause, away) = (rng.random_range(300..1_500), rng.random_range(50..1_200));
        sleep(Duration::from_millis(pause)).await;
        let first = rng.random_range(0..2);
        let both = rng.random_range(0..6) == 0;
        stage.servers[first].kill();
        if both {
            stage.servers[1 - first].kill();
        }
        sleep(Duration::from_millis(away)).await;
        for (n, server) in stage.servers.iter().enumerate() {
            if both || n == first {
                server.start_again().await;
            }
        }
    }
}
