//! The journal tells the whole: folded from the accepted state on, it gives the state that is stored.

use std::collections::BTreeMap;

use answerable_core::agent::AgentSpec;
use answerable_core::catalog::Equipped;
use answerable_core::id::{RunId, TenantId};
use answerable_core::registry::Registry;
use answerable_core::run::{Event, RunConfig, RunState, step};
use answerable_core::trace::{Frame, Span, SpanLink, Told, agent_span, spans};
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
    let mut equipped = Equipped::of(&registry);
    assert!(events.len() >= 3, "a journal of {} events", events.len());
    let frame = frame(run).await;
    let mut implied = Vec::new();
    for event in events {
        let registry = equipped.registry();
        let config = RunConfig { registry, max_recoveries: 5 };
        let next = step(config, state.clone(), event.clone()).expect("what is in the journal was legal");
        let (before, after, records, inputs) = (&state, &next.state, &next.records, &BTreeMap::new());
        implied.push(spans(&frame, &Told { registry, before, event: &event, after, records, inputs }));
        state = next.state;
        equipped.hear(&event);
    }
    assert_eq!(serde_json::to_value(&state).expect("JSON"), stored);
    let told =
        fetch("SELECT json_agg(coalesce(spans, '[]') ORDER BY seq, index) FROM journal WHERE run_id = $1");
    let told: Vec<Vec<Span>> = serde_json::from_value(told.await.expect("spans")).expect("spans");
    assert_eq!(told, implied, "the spans beside the journal are those that it implies");
}

/// What is the same for all spans of a run that nobody's trace has to do with.
async fn frame(run: &Run<'_>) -> Frame {
    let facts = run.world().sql::<Value>(
        "SELECT json_build_object('tenant', tenant_id, 'accepted', (extract(epoch FROM created_at) * 1000)::bigint,
             'base', origin_run_id, 'base_trace', (SELECT b.trace_id FROM runs b WHERE b.run_id = runs.origin_run_id))
         FROM runs WHERE run_id = $1",
        &run.id,
    );
    let facts = facts.await.expect("facts");
    let base = facts["base"].as_str().map(|id| SpanLink {
        trace_id: facts["base_trace"].as_str().expect("a trace").to_owned(),
        span_id: agent_span(RunId(id.parse().expect("an id"))),
    });
    Frame {
        tenant_id: TenantId(facts["tenant"].as_str().expect("a tenant").parse().expect("an id")),
        run_id: run.id.parse().expect("a run's id"),
        agent: None,
        thread_id: None,
        accepted_at: facts["accepted"].as_i64().expect("a moment"),
        parent: None,
        links: base.into_iter().collect(),
        content: false,
    }
}
