//! A suspended tenant is served nothing and worked on nothing; resumed, all of it goes on by itself.

use std::time::{Duration, Instant};

use answerable_testkit::{ModelReply, ToolAnswer, WebhookReceiver};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::{Client, Fits, Run, With, World, seconds_from_now};

/// Seconds in which a server stops: a lease is renewed four times in its span, and there is some grace for a busy machine.
const SOON: Duration = Duration::from_secs(15);

async fn suspend(world: &World, tenant: &str, suspended: bool) -> Value {
    let path = format!("/v1/tenants/{tenant}");
    world.server.operator().patch(&path, &json!({"suspended": suspended})).await.ok()
}

/// Returns when the client is answered with this status.
async fn answers(client: &Client, status: u16) {
    let deadline = Instant::now() + SOON;
    while client.get("/v1/runs").await.status != status {
        assert!(Instant::now() < deadline, "no {status} within {SOON:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Returns when that is true of the run's rows.
async fn holds(world: &World, what: &'static str, run: &Run<'_>) {
    let deadline = Instant::now() + SOON;
    while world.sql::<bool>(what, &run.id).await != Some(true) {
        assert!(Instant::now() < deadline, "not within {SOON:?}: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

const RESTS: &str = "SELECT lease_owner IS NULL AND due > 0 FROM run_queue WHERE run_id = $1";
/// Whoever has the run has renewed its lease since, twice, and was told.
const TOLD: &str = "SELECT q.lease_until > t.suspended_at + interval '2 seconds' FROM run_queue q JOIN tenants t USING (tenant_id)
    WHERE run_id = $1";
const PAID: &str = "SELECT status = 'succeeded' FROM ledger WHERE run_id = $1";

#[tokio::test]
async fn all_rests_and_all_goes_on_by_itself() {
    let world = World::alone().await;
    let other = world.server.beside().await;
    let there = world.client.at(other.url());
    let receiver = WebhookReceiver::start().await.expect("a receiver");
    let hook = json!({"url": receiver.url(), "events": ["run.finished"]});
    world.client.post("/v1/webhooks", &hook).await.is(201);
    world.tools.script("pay", [ToolAnswer::text("paid").held()]);
    world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("Paid.")]);
    world.model.script("later", [ModelReply::text("On time.")]);
    let works = world.start(&world.agent(&[world.write("pay")])).await;
    world.tools.reached("pay", 1).await;
    let agent = world.agent(&[]).with(json!({"model": {"model": "later"}}));
    let queued = world.start_with(&agent, json!({"not_before": seconds_from_now(1.5)})).await;
    suspend(&world, &world.tenant, true).await.fits(&json!({"suspended_at": "*"}));
    answers(&world.client, 403).await;
    answers(&there, 403).await;
    there.post("/v1/runs", &json!({"agent": agent, "input": "go"})).await.refused(403, "forbidden");
    holds(&world, TOLD, &works).await;
    // The call that was out is awaited, its outcome is written, and nothing more is begun.
    world.tools.release("pay");
    holds(&world, PAID, &works).await;
    holds(&world, RESTS, &works).await;
    holds(&world, RESTS, &queued).await;
    assert_eq!((world.model.requests_for("m").len(), world.model.requests_for("later").len()), (1, 0));
    assert!(receiver.deliveries().is_empty());
    suspend(&world, &world.tenant, false).await.fits(&json!({"suspended_at": null}));
    answers(&world.client, 200).await;
    answers(&there, 200).await;
    works.ended().await.fits(&json!({"status": "finished", "final_answer": "Paid.", "attempt": 1}));
    queued.ended().await.fits(&json!({"status": "finished", "attempt": 1}));
    assert_eq!(world.tools.effects("pay"), 1);
    receiver.first_of("run.finished").await;
    drop(other);
}

#[tokio::test]
async fn of_several_calls_the_next_waits() {
    let world = World::alone().await;
    world.tools.script("pay", [ToolAnswer::text("paid").held(), ToolAnswer::text("paid")]);
    let calls = (1..=3).map(|amount| ("pay", json!({"amount": amount})));
    world.model.script("m", [ModelReply::calls(calls), ModelReply::text("Paid.")]);
    let run = world.start(&world.agent(&[world.write("pay")])).await;
    world.tools.reached("pay", 1).await;
    suspend(&world, &world.tenant, true).await;
    holds(&world, TOLD, &run).await;
    world.tools.release("pay");
    holds(&world, RESTS, &run).await;
    assert_eq!(world.tools.effects("pay"), 1);
    suspend(&world, &world.tenant, false).await;
    run.ended().await.fits(&json!({"status": "finished", "final_answer": "Paid.", "attempt": 1}));
    assert_eq!(world.tools.effects("pay"), 3);
}

#[tokio::test]
async fn a_run_goes_on_where_it_is_when_its_tenant_is_resumed() {
    let world = World::alone().await;
    world.tools.script("look", [ToolAnswer::text("seen").held()]);
    world.model.script("m", [ModelReply::calls([("look", json!({})), ("pay", json!({"amount": 1}))])]);
    let agent = world.agent(&[world.read("look"), world.write("pay")]);
    let agent = agent.with(json!({"budgets": {"timeout_ms": 8_000}}));
    let run = world.start(&agent).await;
    world.tools.reached("look", 1).await;
    suspend(&world, &world.tenant, true).await;
    holds(&world, TOLD, &run).await;
    suspend(&world, &world.tenant, false).await;
    // A call is out all the time, and still its limits hold again.
    run.ended().await.fits(&json!({"status": "failed", "stop_reason": "timeout", "attempt": 1}));
    assert_eq!(world.tools.effects("pay"), 0);
    world.tools.release("look");
}

#[tokio::test]
async fn what_happened_waits_to_be_told() {
    let world = World::alone().await;
    let receiver = WebhookReceiver::start().await.expect("a receiver");
    let hook = json!({"url": receiver.url(), "events": ["run.finished"]});
    world.client.post("/v1/webhooks", &hook).await.is(201);
    // Its last words come in while it is suspended.
    world.model.script("m", [ModelReply::text("Done.").held(), ModelReply::text("Done.")]);
    let run = world.start(&world.agent(&[])).await;
    world.model.requests_reached(1).await;
    suspend(&world, &world.tenant, true).await;
    answers(&world.client, 403).await;
    world.model.release();
    holds(&world, "SELECT status = 'finished' FROM runs WHERE run_id = $1", &run).await;
    holds(
        &world,
        "SELECT next_attempt_at <= now() AND lease_until IS NULL FROM deliveries WHERE run_id = $1",
        &run,
    )
    .await;
    // Others' are delivered meanwhile, so there was somebody who could have.
    let (_, neighbour) = world.neighbour(&json!({})).await;
    let others = WebhookReceiver::start().await.expect("a receiver");
    neighbour.post("/v1/webhooks", &json!({"url": others.url(), "events": ["run.finished"]})).await.is(201);
    neighbour.post("/v1/runs", &json!({"agent": world.agent(&[]), "input": "go"})).await.is(201);
    others.first_of("run.finished").await;
    assert!(receiver.deliveries().is_empty());
    suspend(&world, &world.tenant, false).await;
    receiver.first_of("run.finished").await;
}

#[tokio::test]
async fn a_link_decides_nothing_for_a_suspended_tenant() {
    let world = World::alone().await;
    let receiver = WebhookReceiver::start().await.expect("a receiver");
    let hook = json!({"url": receiver.url(), "events": ["approval.requested"]});
    world.client.post("/v1/webhooks", &hook).await.is(201);
    world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("Paid.")]);
    let run = world.start(&world.agent(&[world.write("pay").with(json!({"risk": "high"}))])).await;
    let told = receiver.first_of("approval.requested").await.json();
    let url = told["data"]["decision_url"].as_str().expect("a link").to_owned();
    let link = url.strip_prefix(world.server.url()).expect("the server's").to_owned();
    suspend(&world, &world.tenant, true).await;
    answers(&world.client, 403).await;
    let stranger = world.server.stranger();
    stranger.post(&link, &json!({"decision": "approve"})).await.refused(403, "forbidden");
    let page = stranger.ask(reqwest::Method::GET, &link).header("accept", "text/html").send().await;
    assert!(page.status == 403 && page.text.contains("suspended"), "{page}");
    suspend(&world, &world.tenant, false).await;
    answers(&world.client, 200).await;
    stranger.post(&link, &json!({"decision": "approve"})).await.ok();
    run.ended().await.fits(&json!({"status": "finished"}));
}

#[tokio::test]
async fn the_time_does_not_count() {
    let world = World::alone().await;
    let (tenant, client) = world.neighbour(&json!({"max_concurrent_runs": 1})).await;
    world.model.script("m", [ModelReply::text("First.").held(), ModelReply::text("Second.")]);
    let body = json!({"agent": world.agent(&[]), "input": "go"});
    let first = world.run(&client.post("/v1/runs", &body).await.is(201)).through(&client);
    world.model.requests_reached(1).await;
    let second = world.run(&client.post("/v1/runs", &body).await.is(201)).through(&client);
    suspend(&world, &tenant, true).await;
    answers(&client, 403).await;
    // As if all that had been an hour ago. By its limits a run has ten minutes.
    let long_ago = "WITH tenant AS (
            UPDATE tenants SET suspended_at = suspended_at - interval '1 hour'
            WHERE tenant_id = (SELECT tenant_id FROM runs WHERE run_id = $1)
        ), queued AS (
            UPDATE run_queue SET expires_at = expires_at - interval '1 hour', wake_at = wake_at - interval '1 hour' WHERE run_id = $1
        )
        UPDATE run_states SET state = jsonb_set(state::jsonb, '{clock,since}',
            to_jsonb((state -> 'clock' ->> 'since')::bigint - 3600000))::json
        WHERE run_id = $1 RETURNING true";
    assert_eq!(world.sql::<bool>(long_ago, &second.id).await, Some(true));
    suspend(&world, &tenant, false).await;
    answers(&client, 200).await;
    world.model.release();
    first.ended().await.fits(&json!({"status": "finished"}));
    let shown = second.ended().await;
    shown.fits(&json!({"status": "finished", "final_answer": "Second."}));
    let counted = shown["budgets"]["used"]["elapsed_ms"].as_u64().expect("a time");
    assert!(counted < 600_000, "{shown:#}");
}

#[tokio::test]
async fn a_server_that_dies_meanwhile_leaves_its_runs_resting() {
    let world = World::alone().await;
    world.model.script("m", [ModelReply::text("too late").held(), ModelReply::text("Taken over.")]);
    let run = world.start(&world.agent(&[])).await;
    world.model.requests_reached(1).await;
    suspend(&world, &world.tenant, true).await;
    answers(&world.client, 403).await;
    world.server.crash().await;
    // Whoever looks for what dead servers left has looked by then.
    let over =
        "SELECT lease_until < now() - interval '2 seconds' FROM run_queue WHERE run_id = $1 AND epoch = 1";
    holds(&world, over, &run).await;
    assert_eq!(world.model.requests().len(), 1);
    suspend(&world, &world.tenant, false).await;
    answers(&world.client, 200).await;
    run.ended().await.fits(&json!({"status": "finished", "final_answer": "Taken over.", "attempt": 2}));
}

#[tokio::test]
async fn it_is_written_down_and_a_suspended_tenant_can_be_deleted() {
    let world = World::shared().await;
    let operator = world.server.operator();
    let (tenant, _) = world.neighbour(&json!({})).await;
    suspend(&world, &tenant, true).await;
    let since = suspend(&world, &tenant, true).await["suspended_at"].clone();
    suspend(&world, &tenant, false).await;
    suspend(&world, &tenant, true).await.fits(&json!({"suspended_at": "*"}));
    let acts = operator.get(&format!("/v1/tenants/audit?target={tenant}")).await.ok();
    acts.fits(&json!({"data": {"$any": [{"action": "tenant.resume", "detail": {"suspended_at": since}}]}}));
    let suspends = |act: &&Value| act["action"] == "tenant.suspend";
    assert_eq!(acts["data"].as_array().expect("acts").iter().filter(suspends).count(), 2, "{acts:#}");
    operator.delete(&format!("/v1/tenants/{tenant}")).await.is(204);
    operator.get(&format!("/v1/tenants/{tenant}")).await.refused(404, "not_found");
}
