//! A run that has ended can be deleted, with all that belongs to it.

use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::{Value, json};

use crate::harness::{Fits, Run, With, World, client_tool, until};

async fn delete(run: &Run<'_>) {
    run.world().client.delete(&run.path("")).await.is(204);
}

async fn usage(world: &World) -> Vec<Value> {
    let mut all = Vec::new();
    for group in ["day", "agent", "model"] {
        all.push(world.client.get(&format!("/v1/usage?group_by={group}")).await.ok());
    }
    all
}

#[tokio::test]
async fn nothing_of_it_is_there_afterwards() {
    let world = World::shared().await;
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201)["id"].clone();
    let in_thread = format!("/v1/threads/{}/messages", thread.as_str().expect("an id"));
    world.tools.script("read_log", [ToolAnswer::text(&"line ".repeat(100))]);
    let tools = [
        world.read("read_log").with(json!({"output": {"max_chars": 50}})),
        world.write("pay").with(json!({"risk": "high"})),
    ];
    let calls = [("read_log", json!({})), ("pay", json!({"amount": 5}))];
    world
        .model
        .script("m", [ModelReply::calls(calls), ModelReply::text("Paid."), ModelReply::text("Hello.")]);
    let body = json!({"agent": world.agent(&tools), "thread_id": thread, "input": "go"});
    let create = || world.client.post("/v1/runs", &body).once("order-7");
    let run = world.run(&create().await.is(201));
    let approval = run.pending().await;
    let decide = || {
        let path = format!("/v1/approvals/{approval}/decision");
        world.client.post(&path, &json!({"decision": "approve"})).once("decide-7")
    };
    decide().await.ok();
    run.ended().await.fits(&json!({"status": "finished"}));
    let other = world.start_with(&world.agent(&[]), json!({"thread_id": thread, "input": "hello"})).await;
    other.ended().await;
    let artifact = run.list("artifacts").await[0]["id"].as_str().expect("an artifact").to_owned();
    let before = usage(&world).await;
    delete(&run).await;

    world.client.delete(&run.path("")).await.refused(404, "not_found");
    for what in [
        "",
        "/messages",
        "/steps",
        "/steps/1",
        "/events",
        "/ledger",
        "/approvals",
        "/artifacts",
        "/checkpoints",
        "/export",
        "/journal",
        "/wait",
    ] {
        world.client.get(&run.path(what)).await.refused(404, "not_found");
    }
    for what in [format!("/v1/approvals/{approval}"), format!("/v1/artifacts/{artifact}/content")] {
        world.client.get(&what).await.refused(404, "not_found");
    }
    let stream = world.client.get(&run.path("/events")).header("accept", "text/event-stream").await;
    stream.refused(404, "not_found");
    world.client.post(&run.path("/cancel"), &json!({})).await.refused(404, "not_found");
    let listed = json!({"data": {"$none": {"id": run.id}}});
    world.client.get("/v1/runs").await.fits(&listed);
    world.client.get("/v1/approvals").await.fits(&json!({"data": {"$none": {"run_id": run.id}}}));
    world.client.get(&in_thread).await.fits(&json!({"data": [
        {"role": "user", "content": "hello"}, {"role": "assistant", "content": "Hello."},
    ]}));
    // Sent once more, the requests don't do anything again.
    create().await.refused(404, "not_found");
    decide().await.refused(404, "not_found");
    assert_eq!(usage(&world).await, before);
    assert_eq!(world.tools.effects("pay"), 1);
    other.now().await.fits(&json!({"status": "finished"}));
}

#[tokio::test]
async fn only_an_end_lets_it_go() {
    let world = World::shared().await;
    world.model.script("slow", [ModelReply::text("too late").held()]);
    world.model.script("asks", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("No.")]);
    world.model.script("waits", [ModelReply::calls([("ask_user", json!({}))]), ModelReply::text("Well.")]);
    let agent = |model: &str| {
        let tools = [world.write("pay").with(json!({"risk": "high"})), client_tool("ask_user")];
        world.agent(&tools).with(json!({"model": {"model": model}}))
    };
    let later = json!({"not_before": crate::harness::seconds_from_now(600.0)});
    let queued = world.start_with(&agent("m"), later).await;
    let running = world.start(&agent("slow")).await;
    world.model.requests_reached(1).await;
    let asking = world.start(&agent("asks")).await;
    let waiting = world.start(&agent("waits")).await;
    asking.waiting().await;
    waiting.waiting().await;
    for (run, status) in [
        (&queued, "queued"),
        (&running, "running"),
        (&asking, "waiting_approval"),
        (&waiting, "waiting_tool"),
    ] {
        run.now().await.fits(&json!({"status": status}));
        world.client.delete(&run.path("")).await.refused(409, "conflict");
        run.now().await.fits(&json!({"status": status}));
    }
    for run in [&queued, &running, &asking, &waiting] {
        run.cancel().await;
        run.ended().await.fits(&json!({"status": "cancelled"}));
        delete(run).await;
    }
    world.model.script("gone", [ModelReply::status(400)]);
    let failed = world.start(&agent("gone")).await;
    failed.ended().await.fits(&json!({"status": "failed"}));
    delete(&failed).await;
}

#[tokio::test]
async fn only_an_admin_of_its_tenant_may() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("Done.")]);
    let run = world.start(&world.agent(&[])).await;
    run.ended().await;
    let (_, stranger) = world.neighbour(&json!({})).await;
    stranger.delete(&run.path("")).await.refused(404, "not_found");
    let worker = world.key(&["runs:read", "runs:write", "approvals:decide", "agents:write"]).await;
    worker.delete(&run.path("")).await.refused(403, "forbidden");
    for odd in ["/v1/runs/run_00000000-0000-7000-8000-000000000000", "/v1/runs/nothing"] {
        world.client.delete(odd).await.refused(404, "not_found");
    }
    run.now().await.fits(&json!({"status": "finished"}));
    delete(&run).await;
}

#[tokio::test]
async fn calls_that_are_still_out_are_waited_for() {
    let world = World::shared().await;
    world.tools.script("pay", [ToolAnswer::json(&json!({"paid": true})).held()]);
    world.model.script("m", [ModelReply::calls([("pay", json!({}))])]);
    let run = world.start(&world.agent(&[world.write("pay")])).await;
    world.tools.reached("pay", 1).await;
    run.cancel().await;
    let cancelled = |run: &Value| run["status"] == "cancelled";
    run.when("its end", cancelled).await;
    let refused = world.client.delete(&run.path("")).await;
    assert!(refused.header("retry-after").is_some(), "{refused}");
    refused.refused(409, "conflict");
    world.tools.release("pay");
    run.ended().await;
    let queued = "SELECT count(*) FROM run_queue WHERE run_id = $1";
    until("it has left the queue", async || world.sql::<i64>(queued, &run.id).await == Some(0)).await;
    delete(&run).await;
}

#[tokio::test]
async fn its_business_keys_stay_taken() {
    let world = World::shared().await;
    let pay = world.write("pay").with(json!({"idempotency_key": "order-{{input.order}}"}));
    let agent = world.agent(&[pay]);
    world.tools.script("pay", [ToolAnswer::json(&json!({"receipt": "r-77"}))]);
    let pays = || ModelReply::calls([("pay", json!({"order": 7}))]);
    world.model.script("m", [pays(), ModelReply::text("Paid."), pays(), ModelReply::text("Paid before.")]);
    let first = world.start(&agent).await;
    first.ended().await;
    delete(&first).await;
    let second = world.start(&agent).await;
    second.ended().await.fits(&json!({"status": "finished"}));
    assert_eq!(world.tools.requests("pay").len(), 1);
    second
        .calls()
        .await
        .fits(&json!([{"result": {"status": "succeeded", "content": "~its answer was not kept"}}]));
    assert!(!world.model.requests_for("m")[3].to_string().contains("r-77"), "what was deleted is told again");
    // Also when the one that took it over is deleted.
    delete(&second).await;
    world.model.script("m", [pays(), ModelReply::text("Paid before.")]);
    world.start(&agent).await.ended().await;
    assert_eq!(world.tools.requests("pay").len(), 1);
}
