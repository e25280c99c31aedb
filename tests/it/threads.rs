//! Conversations over several runs, one at a time.

use answerable_testkit::ModelReply;
use serde_json::{Value, json};

use crate::harness::{Fits, With, World};

async fn thread(world: &World) -> Value {
    let thread = world.client.post("/v1/threads", &json!({"metadata": {"desk": "north"}})).await.is(201);
    thread.fits(&json!({"id": "~thr_", "status": "idle", "metadata": {"desk": "north"}}));
    thread["id"].clone()
}

#[tokio::test]
async fn a_run_knows_what_was_said_before() {
    let world = World::shared().await;
    let thread = thread(&world).await;
    world.model.script("m", ["Hello Ann.", "Ann, you said."].map(ModelReply::text));
    for input in ["I am Ann", "who am I?"] {
        let run = world.start_with(&world.agent(&[]), json!({"input": input, "thread_id": thread})).await;
        run.ended().await.fits(&json!({"status": "finished", "thread_id": thread}));
    }
    world.model.requests_for("m")[1]["messages"].fits(&json!([
        {"role": "system"}, {"role": "user", "content": "I am Ann"}, {"role": "assistant", "content": "Hello Ann."},
        {"role": "user", "content": "who am I?"},
    ]));
    let path = format!("/v1/threads/{}", thread.as_str().expect("an id"));
    world.client.get(&format!("{path}/messages")).await.fits(&json!({"data": [
        {"role": "user", "content": "I am Ann"}, {"role": "assistant", "content": "Hello Ann."},
        {"role": "user", "content": "who am I?"}, {"role": "assistant", "content": "Ann, you said."},
    ]}));
    world.client.get("/v1/threads").await.fits(&json!({"data": [{"id": thread, "status": "idle"}]}));
    world.client.delete(&path).await.is(204);
    world.client.get(&path).await.refused(404, "not_found");
    let body = json!({"agent": world.agent(&[]), "input": "go", "thread_id": thread});
    world.client.post("/v1/runs", &body).await.refused_at("/thread_id");
}

#[tokio::test]
async fn a_busy_thread_queues_rejects_or_cancels() {
    let world = World::shared().await;
    let thread = thread(&world).await;
    let agent = world.agent(&[]);
    let body = |on_busy: &str| json!({"thread_id": thread, "on_busy": on_busy});
    world.model.script(
        "m",
        [ModelReply::text("one").held(), ModelReply::text("two"), ModelReply::text("three").held()],
    );
    world.model.script("m", [ModelReply::text("four")]);
    let first = world.start_with(&agent, json!({"thread_id": thread})).await;
    world.model.requests_reached(1).await;
    world
        .client
        .get(&format!("/v1/threads/{}", thread.as_str().expect("an id")))
        .await
        .fits(&json!({"status": "busy"}));
    let request = json!({"agent": agent, "input": "go"}).with(body("reject"));
    world.client.post("/v1/runs", &request).await.refused(409, "conflict");
    let second = world.start_with(&agent, body("queue")).await;
    second.now().await.fits(&json!({"status": "queued"}));
    world.model.release();
    first.ended().await.fits(&json!({"final_answer": "one"}));
    second.ended().await.fits(&json!({"final_answer": "two"}));
    assert!(world.model.requests_for("m")[1].to_string().contains("one"));
    let third = world.start_with(&agent, body("reject")).await;
    world.model.requests_reached(3).await;
    let fourth = world.start_with(&agent, body("cancel_previous")).await;
    fourth.ended().await.fits(&json!({"status": "finished", "final_answer": "four"}));
    third.ended().await.fits(&json!({"status": "cancelled"}));
    let bad = json!({"agent": agent, "input": "go"}).with(body("sometimes"));
    world.client.post("/v1/runs", &bad).await.refused_at("/on_busy");
}

#[tokio::test]
async fn a_thread_goes_on_after_a_cancel_with_open_calls() {
    let world = World::shared().await;
    let thread = thread(&world).await;
    let agent = world.agent(&[world.write("pay").with(json!({"risk": "high"}))]);
    let calls = [5, 6].map(|n| ("pay", json!({"amount": n})));
    world.model.script("m", [ModelReply::calls(calls), ModelReply::text("As you like.")]);
    let first = world.start_with(&agent, json!({"thread_id": thread})).await;
    first.waiting().await;
    let next = world.start_with(&agent, json!({"thread_id": thread, "input": "never mind"})).await;
    first.cancel().await;
    first.ended().await;
    // The laws see to it that each open call got an answer.
    next.ended().await.fits(&json!({"status": "finished"}));
    assert_eq!(world.tools.effects("pay"), 0);
}
