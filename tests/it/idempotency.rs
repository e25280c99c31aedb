//! The same request twice is one thing.

use std::time::Duration;

use answerable_testkit::ModelReply;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Answer, Fits, With, World};

async fn start(world: &World, key: &str, body: &Value) -> Answer {
    world.client.post("/v1/runs", body).once(key).await
}

async fn count(world: &World, what: &str) -> usize {
    world.client.get(what).await.ok()["data"].as_array().expect("a list").len()
}

#[tokio::test]
async fn a_run_is_made_once_and_shown_as_it_is_now() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([("pay", json!({"amount": 5}))]), ModelReply::text("Paid.")]);
    let body = json!({"agent": world.agent(&[world.write("pay")]), "input": "go"});
    let first = start(&world, "order-1", &body).await;
    assert!(!first.is_replayed());
    let first = first.is(201);
    world.run(&first).ended().await;
    let again = world.client.post("/v1/runs", &body).once("order-1").header("prefer", "wait=5").await;
    assert!(again.is_replayed() && again.header("location").is_some(), "{again}");
    again.is(201).fits(&json!({"id": first["id"], "status": "finished"}));
    let other = body.with(json!({"input": "something else"}));
    start(&world, "order-1", &other).await.refused(422, "idempotency_conflict");
    assert_eq!((count(&world, "/v1/runs").await, world.tools.effects("pay")), (1, 1));
}

#[tokio::test]
async fn many_at_once_with_one_key_are_one() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([("pay", json!({"amount": 5}))]), ModelReply::text("Paid.")]);
    let body = json!({"agent": world.agent(&[world.write("pay")]), "input": "go"});
    let answers = join_all((0..24).map(|_| start(&world, "order-1", &body))).await;
    let mut ids: Vec<Value> = Vec::new();
    for answer in answers {
        match answer.status {
            409 => drop(answer.refused(409, "conflict")),
            _ => ids.push(answer.is(201)["id"].clone()),
        }
    }
    assert!(!ids.is_empty() && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    world.run(&json!({"id": ids[0]})).ended().await;
    assert_eq!((count(&world, "/v1/runs").await, world.tools.effects("pay")), (1, 1));
}

#[tokio::test]
async fn a_key_holds_over_a_kill_right_after_the_answer() {
    let world = World::alone().await;
    world
        .model
        .script("m", [ModelReply::text("one").delayed(Duration::from_millis(300)), ModelReply::text("two")]);
    let body = json!({"agent": world.agent(&[]), "input": "go"});
    let first = start(&world, "order-1", &body).await.is(201);
    world.server.crash().await;
    let again = start(&world, "order-1", &body).await;
    assert!(again.is_replayed());
    again.is(201).fits(&json!({"id": first["id"]}));
    world.run(&first).ended().await.fits(&json!({"status": "finished"}));
    world.server.crash().await;
    start(&world, "order-1", &body).await.is(201).fits(&json!({"id": first["id"], "status": "finished"}));
    assert_eq!(count(&world, "/v1/runs").await, 1);
}

#[tokio::test]
async fn a_key_is_for_one_route_and_one_tenant() {
    let world = World::shared().await;
    let (_, neighbour) = world.neighbour(&json!({})).await;
    world.model.script("m", ["one", "two"].map(ModelReply::text));
    let agent = world.agent(&[]);
    let body = json!({"agent": agent, "input": "go"});
    let first = start(&world, "k", &body).await.is(201);
    let theirs = neighbour.post("/v1/runs", &body).once("k").await;
    assert!(!theirs.is_replayed());
    assert_ne!(theirs.is(201)["id"], first["id"]);
    let made = world.client.post("/v1/agents", &agent).once("k").await;
    assert!(!made.is_replayed());
    made.is(201).fits(&json!({"id": "~agt_"}));
    world.run(&first).ended().await;
}

#[tokio::test]
async fn every_making_takes_a_key() {
    let world = World::shared().await;
    let hook = json!({"url": world.tools.url("hook"), "events": ["run.failed"]});
    let table = [("/v1/agents", world.agent(&[])), ("/v1/threads", json!({})), ("/v1/webhooks", hook)];
    for (path, body) in table {
        let make = || world.client.post(path, &body).once("one").send();
        let (first, again) = (make().await, make().await);
        assert!(!first.is_replayed() && again.is_replayed(), "{again}");
        assert_eq!(again.header("location"), first.header("location"));
        assert_eq!(first.is(201), again.is(201));
        assert_eq!(count(&world, path).await, 1);
    }
}

#[tokio::test]
async fn every_command_takes_a_key() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("never read").held()]);
    let run = world.start(&world.agent(&[world.write("pay").with(json!({"risk": "high"}))])).await;
    let approval = run.pending().await;
    let table = [
        (run.path("/messages"), json!({"content": "be brief"}), 201),
        (format!("/v1/approvals/{approval}/decision"), json!({"decision": "approve"}), 200),
        (run.path("/cancel"), json!({"reason": "enough"}), 200),
    ];
    for (path, body, status) in table {
        let command = || world.client.post(&path, &body).once("one").send();
        let (first, again) = (command().await, command().await);
        assert!(!first.is_replayed() && again.is_replayed(), "{again}");
        assert_eq!(first.is(status), again.is(status));
        let other = body.with(json!({"reason": "another"}));
        let other = if path.ends_with("/messages") { json!({"content": "another"}) } else { other };
        world.client.post(&path, &other).once("one").await.refused(422, "idempotency_conflict");
    }
    run.ended().await.fits(&json!({"status": "cancelled"}));
    let messages = run.list("messages").await;
    let brief =
        messages.as_array().expect("a list").iter().filter(|message| message["content"] == "be brief");
    assert!(brief.count() <= 1, "{messages:#}");
}

#[tokio::test]
async fn keys_that_can_not_be_are_refused() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("Done.")]);
    let body = json!({"agent": world.agent(&[]), "input": "go"});
    for key in ["k".repeat(256), "schlüssel".to_owned(), String::new()] {
        start(&world, &key, &body).await.refused_at("/header/idempotency-key");
    }
    let run = start(&world, &"k".repeat(255), &body).await.is(201);
    world.run(&run).ended().await;
    assert_eq!(count(&world, "/v1/runs").await, 1);
}

#[tokio::test]
async fn a_refused_request_uses_no_key_up() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("Done.")]);
    let body = json!({"agent": world.agent(&[]), "input": "go"});
    start(&world, "k", &body.clone().with(json!({"colour": "red"}))).await.refused_at("/colour");
    let run = start(&world, "k", &body).await;
    assert!(!run.is_replayed());
    world.run(&run.is(201)).ended().await;
}
