//! A replay costs nobody anything, tells nobody, and stands in nobody's way; and what can't be replayed says why.

use answerable_testkit::{ModelReply, WebhookReceiver};
use serde_json::{Value, json};

use crate::harness::recorded::{ask_replay, journal, replay};
use crate::harness::{Fits, Run, With, World, traces};

async fn paid(world: &World) -> Run<'_> {
    let calls = [("pay", json!({"amount": 5}))];
    world
        .model
        .script("m", [ModelReply::calls(calls).usage(100, 20), ModelReply::text("Paid.").usage(130, 10)]);
    let pay = world.write("pay").with(json!({"idempotency_key": "order-{{input.amount}}"}));
    let run = world.start(&world.agent(&[pay])).await;
    run.ended().await.fits(&json!({"final_answer": "Paid."}));
    run
}

async fn usage(world: &World) -> Vec<Value> {
    let mut all = Vec::new();
    for group in ["day", "agent", "model"] {
        all.push(world.client.get(&format!("/v1/usage?group_by={group}")).await.ok());
    }
    all
}

#[tokio::test]
async fn it_is_on_no_bill() {
    let world = World::shared().await;
    let run = paid(&world).await;
    let before = usage(&world).await;
    let quotas = json!({"quotas": {"max_tokens_per_day": 300, "max_queued_runs": 1}});
    world.server.operator().patch(&format!("/v1/tenants/{}", world.tenant), &quotas).await.ok();
    let once = replay(&run, json!({})).await;
    replay(&run, json!({"policy": {"rules": [{"tool": "pay", "effect": "deny"}]}})).await;
    once.now().await.fits(&json!({"budgets": {"used": {"tokens": 260, "tool_calls": 1}}}));
    assert_eq!(usage(&world).await, before);
    world.client.delete(&once.path("")).await.is(204);
    assert_eq!(usage(&world).await, before, "nor when it is deleted");
    // 40 tokens of the day are left.
    world.model.script("m", [ModelReply::text("Still here.")]);
    world.start(&world.agent(&[])).await.ended().await.fits(&json!({"status": "finished"}));
    assert_eq!(world.sql::<i64>("SELECT count(*) FROM run_queue WHERE run_id = $1", &once.id).await, Some(0));
}

#[tokio::test]
async fn it_holds_no_key_and_webhooks_do_not_hear_of_it() {
    let world = World::shared().await;
    let hooks = WebhookReceiver::start().await.expect("a receiver");
    let run = paid(&world).await;
    let hook = json!({"url": hooks.url(), "events": ["*"]});
    let hook =
        world.client.post("/v1/webhooks", &hook).await.is(201)["id"].as_str().expect("an id").to_owned();
    let replay = replay(&run, json!({})).await;
    assert_eq!(replay.event_types().await.last().map(String::as_str), Some("run.finished"));
    world.client.get(&format!("/v1/webhooks/{hook}/deliveries")).await.fits(&json!({"data": []}));
    let outbox = "SELECT count(*) FROM span_outbox WHERE run_id = $1";
    assert_eq!(world.sql::<i64>(outbox, &replay.id).await, Some(0));
    let spans = traces::of(&replay).await;
    assert!(spans.iter().any(|span| span.name == "tool.call"));
    assert!(spans.iter().all(|span| span.get("answerable.ledger_id").is_null()), "an entry that isn't there");
    let keys = "SELECT count(*) FROM ledger WHERE run_id = $1";
    assert_eq!(
        (world.sql::<i64>(keys, &replay.id).await, world.sql::<i64>(keys, &run.id).await),
        (Some(0), Some(1))
    );
    // Nothing can be made of what did not happen.
    for (path, body) in [("/continue", json!({"input": "again"})), ("/fork", json!({"after_step": 1}))] {
        let problem = world.client.post(&replay.path(path), &body).await.refused(409, "conflict");
        problem.fits(&json!({"detail": "~Continue or fork the run that it replays"}));
    }
    replay.cancel().await.fits(&json!({"status": "finished"}));
}

#[tokio::test]
async fn it_stands_by_itself() {
    let world = World::shared().await;
    let run = paid(&world).await;
    let once = replay(&run, json!({})).await;
    world.client.delete(&run.path("")).await.is(204);
    once.ended().await.fits(&json!({"final_answer": "Paid.", "replay": {"of": run.id}}));
    once.calls().await.fits(&json!([{"tool_name": "pay", "result": {"status": "succeeded"}}]));
    let again = replay(&once, json!({})).await;
    again.now().await.fits(&json!({"replay": {"of": once.id, "first_difference": null}}));
    world.client.get("/v1/runs").await.fits(&json!({"data": [{"id": again.id}, {"id": once.id}]}));
    let stream = once.stream(None).await.rest().await;
    assert_eq!(stream.last().map(|event| event.kind.as_str()), Some("run.finished"));
}

#[tokio::test]
async fn the_same_request_makes_one() {
    let world = World::shared().await;
    let run = paid(&world).await;
    let again =
        || async { world.client.post(&run.path("/replay"), &json!({"tools": "recorded"})).once("r-1").await };
    let (first, second) = (again().await, again().await);
    assert!(second.is_replayed());
    assert_eq!(first.is(201), second.is(201));
}

#[tokio::test]
async fn what_can_not_be_replayed_says_why() {
    let world = World::shared().await;
    world.model.script("asks", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("No.")]);
    let pay = world.write("pay").with(json!({"risk": "high"}));
    let live = world.start(&world.agent(&[pay]).with(json!({"model": {"model": "asks"}}))).await;
    live.waiting().await;
    ask_replay(&live, json!({})).await.refused(409, "conflict");
    live.cancel().await;
    live.ended().await;
    let run = paid(&world).await;
    let post = |body: Value| world.client.post(&run.path("/replay"), &body);
    post(json!({})).await.refused_at("/tools");
    post(json!({"tools": "live"})).await.refused_at("/tools");
    for (body, pointer) in [
        (json!({"agent": {"name": "x", "instructions": "y"}}), "/agent/model"),
        (json!({"agent": world.agent(&[world.read("a"), world.read("a")])}), "/agent/tools/1/name"),
        (
            json!({"agent": world.agent(&[]).with(json!({"model": {"provider": "none"}}))}),
            "/agent/model/provider",
        ),
        (json!({"policy": {"rules": [{"tool": "pay", "effect": "perhaps"}]}}), "/policy/rules/0/effect"),
        (
            json!({"policy": {"rules": [{"effect": "allow", "input": {"properties": {"n": {}}}}]}}),
            "/policy/rules/0/input/properties/n",
        ),
        (json!({"budgets": {"max_steps": 0}}), "/budgets/max_steps"),
        (json!({"context": {"big": "x".repeat(300_000)}}), "/context"),
        (json!({"input": "go"}), "/input"),
    ] {
        ask_replay(&run, body).await.refused_at(pointer);
    }
    let reader = world.key(&["runs:read"]).await;
    reader.post(&run.path("/replay"), &json!({"tools": "recorded"})).await.refused(403, "forbidden");
    let (_, stranger) = world.neighbour(&json!({})).await;
    stranger.post(&run.path("/replay"), &json!({"tools": "recorded"})).await.refused(404, "not_found");
    let gone = "WITH gone AS (DELETE FROM journal WHERE run_id = $1 RETURNING 1) SELECT count(*) FROM gone";
    assert!(world.sql::<i64>(gone, &run.id).await > Some(3));
    ask_replay(&run, json!({})).await.refused(410, "expired");
    world.client.get(&run.path("/export")).await.refused(410, "expired");
    world.client.get(&run.path("/journal")).await.refused(410, "expired");
}

#[tokio::test]
async fn what_is_too_long_to_be_read_at_once_is_only_downloaded() {
    let world = World::shared().await;
    let run = paid(&world).await;
    let longer = "WITH more AS (
            INSERT INTO journal (tenant_id, run_id, seq, index, event, at)
            SELECT tenant_id, run_id, 1000 + n, 1, event, at FROM journal, generate_series(1, 20000) AS n
            WHERE run_id = $1 AND (seq, index) = (SELECT seq, index FROM journal WHERE run_id = $1 ORDER BY seq, index LIMIT 1)
            RETURNING 1)
        SELECT count(*) FROM more";
    assert_eq!(world.sql::<i64>(longer, &run.id).await, Some(20_000));
    ask_replay(&run, json!({})).await.refused(409, "conflict");
    world.client.get(&run.path("/export")).await.refused(409, "conflict");
    assert!(journal(&run).await.lines.len() > 20_000);
}
