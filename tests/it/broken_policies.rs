//! Where a policy can't be judged, nothing runs.

use answerable_testkit::ModelReply;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use crate::harness::{Fits, Run, World};
use crate::policies::{decision, pay, payer};

/// Policies that make no sense: no policy at all, and ones that a newer server or a broken disk might have written.
fn broken() -> Vec<Value> {
    vec![
        json!([]),
        json!(null),
        json!("allow"),
        json!({"rules": [], "newer": true}),
        json!({"rules": [{"effect": "allow", "newer": 1}]}),
        json!({"rules": [{"effect": "permit"}]}),
        json!({"rules": [{"effect": "allow", "input": {"type": "objekt"}}]}),
        json!({"rules": [{"effect": "ask", "approvals": 0}]}),
    ]
}

/// Breaks a row of the tenant's policy or of a run's.
async fn write(world: &World, query: &'static str, run: &str, policy: &Value) {
    let mut connection = PgConnection::connect(world.database_url()).await.expect("a connection");
    let id: Uuid = run.rsplit('_').next().and_then(|id| id.parse().ok()).expect("an id");
    let done = sqlx::query(query).bind(id).bind(policy.to_string()).execute(&mut connection).await;
    assert_eq!(done.expect("written").rows_affected(), 1);
}

const OF_TENANT: &str = "UPDATE tenant_policies SET policy = $2::json WHERE tenant_id = $1";
const OF_RUN: &str = "UPDATE runs SET policy = $2::json WHERE run_id = $1";

/// All of the run's calls were denied, whether people approved them or not, and nothing was sent.
async fn is_denied(run: &Run<'_>) {
    let end = run.ended().await;
    let denied = end["denied"].as_array().expect("a list");
    assert!(
        !denied.is_empty() && denied.len() == run.calls().await.as_array().map_or(0, Vec::len),
        "{end:#}"
    );
    for one in denied {
        one.fits(&json!({"tool_name": "pay", "reason": "~can't be judged"}));
    }
    decision(run).await.fits(&json!({"effect": "deny", "policy": null, "reason": "~can't be judged"}));
    run.list("ledger").await.fits(&json!([]));
    assert_eq!(run.world().tools.requests("pay").len(), 0);
}

#[tokio::test]
async fn where_the_tenants_policy_makes_no_sense_nothing_runs() {
    let world = World::alone().await;
    world.expect_errors("can't be judged");
    for policy in broken() {
        world.client.put("/v1/policy", &json!({"rules": [{"tool": "*", "effect": "allow"}]})).await.ok();
        // One that people have approved, and one that nobody would be asked about.
        world.model.script("m", [pay(5), ModelReply::text("It was not allowed.")]);
        let asked = world.start(&payer(&world, "high")).await;
        asked.waiting().await;
        write(&world, OF_TENANT, &world.tenant, &policy).await;
        asked.approve().await;
        is_denied(&asked).await;
        world.model.script("m", [pay(5), ModelReply::text("It was not allowed.")]);
        let plain = world.start(&payer(&world, "low")).await;
        is_denied(&plain).await;
        let body = json!({"agent": payer(&world, "low"), "tool_name": "pay", "input": {"amount": 5}});
        world.client.post("/v1/policy/check", &body).await.ok().fits(&json!({"outcome": "denied", "policy": null,
            "policies": [{"owner": "agent", "verdict": "allow"}, {"owner": "tenant", "verdict": "deny", "fault": "*"}]}));
    }
    // A sound one opens what it allows again.
    world.client.put("/v1/policy", &json!({"rules": []})).await.ok();
    world.model.script("m", [pay(5), ModelReply::text("Done.")]);
    world.start(&payer(&world, "low")).await.ended().await.fits(&json!({"denied": []}));
    assert_eq!(world.tools.effects("pay"), 1);
}

#[tokio::test]
async fn where_the_runs_policy_makes_no_sense_nothing_runs() {
    let world = World::alone().await;
    world.expect_errors("can't be judged");
    for policy in broken().into_iter().filter(Value::is_object) {
        world.model.script("m", [pay(5), pay(6), ModelReply::text("It was not allowed.")]);
        let own = json!({"policy": {"rules": [{"effect": "allow"}], "max_denials": 9}});
        let run = world.start_with(&payer(&world, "high"), own).await;
        run.waiting().await;
        write(&world, OF_RUN, &run.id, &policy).await;
        run.approve().await;
        // The next call is judged anew, and denied as well.
        is_denied(&run).await;
        run.calls().await.fits(&json!({"$len": 2}));
        let body = json!({"run_id": run.id, "tool_name": "pay", "input": {"amount": 5}});
        world.client.post("/v1/policy/check", &body).await.ok().fits(&json!({"outcome": "denied",
            "policies": [{"owner": "agent"}, {"owner": "run", "fault": "*"}]}));
    }
}
