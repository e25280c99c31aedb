//! The journal tells the whole: folded from the accepted state on, it gives the state that is stored.

use answerable_core::agent::AgentSpec;
use answerable_core::id::RunId;
use answerable_core::registry::Registry;
use answerable_core::run::{Event, RunConfig, RunState, step};
use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::{Value, json};

use crate::harness::{Run, With, World};

#[tokio::test]
async fn a_plain_run_folds() {
    let world = World::shared().await;
    world.tools.script("look", [ToolAnswer::status(500), ToolAnswer::default()]);
    world.model.script(
        "m",
        [
            ModelReply::calls([("look", json!({"at": "door"})), ("nothing", json!({}))]),
            ModelReply::status(503),
            ModelReply::text("Seen."),
        ],
    );
    let look = world.read("look").with(json!({"retry": {"max_attempts": 2, "backoff_ms": 5}}));
    let run = world.start(&world.agent(&[look])).await;
    run.ended().await;
    folds(&run).await;
}

#[tokio::test]
async fn a_run_that_people_and_crashes_moved_folds() {
    let world = World::alone().await;
    world.tools.script("pay", [ToolAnswer::default().held()]);
    world
        .model
        .script("m", [ModelReply::calls([("pay", json!({"amount": 5}))]), ModelReply::text("Nobody knows.")]);
    let pay = world.write("pay").with(json!({"risk": "high", "on_uncertain": "observe"}));
    let run = world.start(&world.agent(&[pay])).await;
    run.waiting().await;
    run.approve().await;
    world.tools.reached("pay", 1).await;
    world.server.kill();
    world.server.start_again().await;
    run.ended().await;
    folds(&run).await;
}

/// Folds the run's journal and compares.
pub(crate) async fn folds(run: &Run<'_>) {
    let fetch = |query| run.world().sql::<Value>(query, &run.id);
    let spec = fetch(
        "SELECT a.spec FROM runs r JOIN agent_specs a USING (tenant_id, spec_hash) WHERE r.run_id = $1",
    );
    let spec: AgentSpec = serde_json::from_value(spec.await.expect("an agent")).expect("reads");
    let registry = Registry::compile(spec).expect("compiles");
    let facts = fetch(
        "SELECT json_build_object('budgets', budgets, 'starts',
             (extract(epoch FROM date_trunc('milliseconds', greatest(created_at, not_before))) * 1000)::bigint)
         FROM runs WHERE run_id = $1",
    );
    let facts = facts.await.expect("facts");
    let journal = fetch("SELECT json_agg(event ORDER BY seq, index) FROM journal WHERE run_id = $1");
    let events: Vec<Event> = serde_json::from_value(journal.await.expect("a journal")).expect("events");
    let stored = fetch("SELECT state FROM run_states WHERE run_id = $1").await.expect("a state");

    let id: RunId = run.id.parse().expect("a run's id");
    let budgets = serde_json::from_value(facts["budgets"].clone()).expect("budgets");
    let starts = facts["starts"].as_i64().expect("a moment");
    let stood_on = fetch("SELECT state FROM checkpoints WHERE run_id = $1 AND seq = 0").await;
    let mut state = stood_on.map_or_else(
        || RunState::accepted(id, budgets, 1, starts, None),
        |state| serde_json::from_value(state).expect("a state"),
    );
    let config = RunConfig { registry: &registry, max_recoveries: 5 };
    assert!(events.len() > 3, "a journal of {} events", events.len());
    for event in events {
        state = step(config, state, event).expect("what is in the journal was legal").state;
    }
    assert_eq!(serde_json::to_value(&state).expect("JSON"), stored);
}
