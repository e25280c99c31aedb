//! Servers die while one run waits for another, in each of the gaps between what is written and what is told. A lock that
//! the test holds in the database keeps a gap open.

use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use crate::child_runs::{agent, agent_tool, child};
use crate::harness::{Fits, Run, With, World, until};

/// A lock on something in the world's database, held until it is dropped.
pub(crate) struct Held(PgConnection);

impl Held {
    pub(crate) async fn of(world: &World, lock: &'static str, run: Option<&Run<'_>>) -> Self {
        let mut connection = PgConnection::connect(world.database_url()).await.expect("a connection");
        sqlx::query("BEGIN").execute(&mut connection).await.expect("a transaction");
        let id = run.map(|run| run.id.trim_start_matches("run_").parse::<Uuid>().expect("a run's id"));
        let query = id.map_or_else(|| sqlx::query(lock), |id| sqlx::query(lock).bind(id));
        query.execute(&mut connection).await.expect("a lock");
        Self(connection)
    }

    /// Nobody changes this run.
    pub(crate) async fn state(run: &Run<'_>) -> Self {
        Self::of(run.world(), "SELECT FROM run_states WHERE run_id = $1 FOR UPDATE", Some(run)).await
    }

    /// Nobody claims any run.
    pub(crate) async fn claims(world: &World) -> Self {
        Self::of(world, "SELECT pg_advisory_xact_lock(x'616e7377636c616d'::bigint)", None).await
    }

    pub(crate) async fn let_go(self) {
        self.0.close().await.expect("an end");
    }
}

async fn asking<'w>(world: &'w World, tools: &[Value], replies: Vec<ModelReply>) -> Run<'w> {
    let helper = agent(world, "helper", tools, json!({})).await;
    world.model.script("helper", replies);
    let ask = ModelReply::calls([("ask", json!({"input": "how many?"}))]);
    world.model.script("m", [ask.held(), ModelReply::text("Seven.")]);
    let run = world.start(&world.agent(&[agent_tool("ask", &helper)])).await;
    world.model.requests_reached(1).await;
    run
}

/// Each was asked so often, and all is as it should be.
async fn ended_well(run: &Run<'_>, helper_asked: usize) {
    run.ended().await.fits(&json!({"status": "finished", "final_answer": "Seven.", "uncertain": []}));
    run.list("ledger")
        .await
        .fits(&json!([{"status": "succeeded", "side_effect": "committed", "attempts": 1}]));
    child(run, 0).await.ended().await.fits(&json!({"status": "finished"}));
    let model = &run.world().model;
    assert_eq!((model.requests_for("m").len(), model.requests_for("helper").len()), (2, helper_asked));
    let children = "SELECT count(*) FROM children WHERE parent_run_id = $1";
    assert_eq!(run.world().sql::<i64>(children, &run.id).await, Some(1), "one run a call");
}

#[tokio::test]
async fn after_the_call_is_written_down_its_run_is_begun_once() {
    let world = World::alone().await;
    let run = asking(&world, &[], vec![ModelReply::text("seven")]).await;
    let claims = Held::claims(&world).await;
    world.model.release();
    let below = child(&run, 0).await;
    run.when("the wait", |run| run["status"] == "waiting_tool").await;
    below.now().await.fits(&json!({"status": "queued", "parent": {"run_id": run.id}}));
    world.server.kill();
    claims.let_go().await;
    world.server.start_again().await;
    ended_well(&run, 1).await;
}

#[tokio::test]
async fn while_the_child_works_another_server_goes_on_with_it() {
    let world = World::alone().await;
    let replies = vec![ModelReply::text("never read").held(), ModelReply::text("seven")];
    let run = asking(&world, &[], replies).await;
    world.model.release();
    world.model.requests_reached(2).await;
    world.server.crash().await;
    run.now().await.fits(&json!({"status": "waiting_tool", "attempt": 1}));
    ended_well(&run, 2).await;
    child(&run, 0).await.now().await.fits(&json!({"attempt": 2}));
}

#[tokio::test]
async fn after_the_childs_end_its_caller_is_told_by_another_server() {
    let world = World::alone().await;
    let run = asking(&world, &[], vec![ModelReply::text("seven").held()]).await;
    world.model.release();
    world.model.requests_reached(2).await;
    let below = child(&run, 0).await;
    run.when("the wait", |run| run["status"] == "waiting_tool").await;
    let parent = Held::state(&run).await;
    world.model.release();
    below.when("its end", |run| run["status"] == "finished").await;
    world.server.kill();
    parent.let_go().await;
    let told = "SELECT told_at IS NOT NULL FROM children WHERE parent_run_id = $1";
    assert_eq!(world.sql::<bool>(told, &run.id).await, Some(false), "the gap");
    world.server.start_again().await;
    ended_well(&run, 1).await;
}

#[tokio::test]
async fn after_the_caller_is_told_the_answer_waits_for_it() {
    let world = World::alone().await;
    let run = asking(&world, &[], vec![ModelReply::text("seven").held()]).await;
    world.model.release();
    world.model.requests_reached(2).await;
    let below = child(&run, 0).await;
    run.when("the wait", |run| run["status"] == "waiting_tool").await;
    let claims = Held::claims(&world).await;
    world.model.release();
    below.when("its end", |run| run["status"] == "finished").await;
    let told = "SELECT told_at IS NOT NULL FROM children WHERE parent_run_id = $1";
    until("its end is told", async || world.sql::<bool>(told, &run.id).await == Some(true)).await;
    world.server.kill();
    claims.let_go().await;
    world.server.start_again().await;
    ended_well(&run, 1).await;
}

#[tokio::test]
async fn a_cancel_reaches_the_child_though_its_server_died() {
    let world = World::alone().await;
    let run = asking(&world, &[], vec![ModelReply::text("never read").held()]).await;
    world.model.release();
    world.model.requests_reached(2).await;
    let below = child(&run, 0).await;
    run.when("the wait", |run| run["status"] == "waiting_tool").await;
    let state = Held::state(&below).await;
    run.cancel().await;
    run.when("its end", |run| run["status"] == "cancelled").await;
    world.server.kill();
    state.let_go().await;
    let stopped = "SELECT stopped_at IS NOT NULL FROM children WHERE parent_run_id = $1";
    assert_eq!(world.sql::<bool>(stopped, &run.id).await, Some(false), "the gap");
    world.server.start_again().await;
    below.ended().await.fits(&json!({"status": "cancelled"}));
    // It changed nothing, and in the end that is known.
    run.ledger_where(|ledger| ledger[0]["status"] == "failed").await.fits(&json!([{"side_effect": "none"}]));
    run.ended().await.fits(&json!({"status": "cancelled", "uncertain": []}));
    assert_eq!(world.model.requests_for("helper").len(), 1, "a cancelled run asks nobody");
}

#[tokio::test]
async fn a_write_of_a_childs_that_was_out_is_known_to_be_unknown_above() {
    let world = World::alone().await;
    world.tools.script("pay", [ToolAnswer::default().held()]);
    let pay = ModelReply::calls([("pay", json!({"amount": 5}))]);
    let run = asking(&world, &[world.write("pay")], vec![pay]).await;
    world.model.release();
    world.tools.reached("pay", 1).await;
    world.server.crash().await;
    run.ended()
        .await
        .fits(&json!({"status": "failed", "stop_reason": "side_effect_uncertain", "uncertain": {"$len": 1}}));
    run.list("ledger").await.fits(&json!([{"status": "uncertain", "side_effect": "possible"}]));
    let below = child(&run, 0).await;
    below.ended().await.fits(&json!({"stop_reason": "side_effect_uncertain"}));
    assert_eq!(world.tools.requests("pay").len(), 1, "it is never sent again");
}

#[tokio::test]
async fn an_end_that_comes_with_a_cancel_is_known_and_no_effect_is_made_twice() {
    let world = World::alone().await;
    let one_step = json!({"budgets": {"max_steps": 1}});
    let helper = agent(&world, "helper", &[world.write("pay")], one_step).await;
    world.model.script("helper", [ModelReply::calls([("pay", json!({"amount": 5}))]).held()]);
    let ask = || ModelReply::calls([("ask", json!({"input": "pay"}))]);
    world.model.script("m", [ask(), ask(), ModelReply::text("Paid before.")]);
    // It was said to change nothing.
    let tool = agent_tool("ask", &helper).with(json!({"side_effect": "none"}));
    let run = world.start(&world.agent(&[tool])).await;
    world.model.requests_reached(2).await;
    run.when("the wait", |run| run["status"] == "waiting_tool").await;
    let below = child(&run, 0).await;
    let claims = Held::claims(&world).await;
    run.cancel().await;
    world.model.release();
    below.when("its end", |run| run["status"] == "failed").await;
    let told = "SELECT told_at IS NOT NULL FROM children WHERE parent_run_id = $1";
    until("its end is told", async || world.sql::<bool>(told, &run.id).await == Some(true)).await;
    claims.let_go().await;
    run.ended().await.fits(&json!({"status": "cancelled", "uncertain": []}));
    let entry = json!([{"status": "failed", "side_effect": "committed", "error_code": "BUDGET_EXHAUSTED"}]);
    run.list("ledger").await.fits(&entry);
    // Whoever stands on it makes the same call, and hears of that.
    let fork = world.client.post(&run.path("/fork"), &json!({"after_step": 0})).await.is(201);
    let fork = world.run(&fork);
    fork.ended().await.fits(&json!({"status": "finished", "final_answer": "Paid before."}));
    let result = json!({"status": "failed", "content": "~stays changed"});
    fork.calls().await.fits(&json!([{"child_run_id": null, "result": result}]));
    assert_eq!((world.tools.effects("pay"), world.model.requests_for("helper").len()), (1, 1));
}
