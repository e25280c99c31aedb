//! Who counts as having started what a schedule starts, and with whose rights.

use answerable_testkit::ModelReply;
use reqwest::Method;
use serde_json::{Value, json};

use super::{fired, made, path};
use crate::harness::{Client, Fits, Run, With, World, rules};

/// A run that nobody who started it may approve.
fn asks(world: &World) -> Value {
    let ask = rules(&[json!({"tool": "pay", "effect": "ask", "self_approval": false})]);
    json!({"agent": world.agent(&[world.write("pay")]).with(ask), "input": "go"})
}

async fn change(client: &Client, schedule: &str, user: &str, change: Value) -> Value {
    client.patch(&path(schedule), &change).header("x-acting-user", user).await.ok()
}

/// The run that a schedule starts, when it asks.
async fn asking<'w>(world: &'w World, schedule: &str) -> (Run<'w>, String) {
    world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("So be it.")]);
    let fired = fired(world, schedule).await;
    let run = world.run(&json!({"id": fired["run_id"]}));
    let approval = run.pending().await;
    (run, approval)
}

#[tokio::test]
async fn whoever_made_or_changed_it_does_not_approve_its_runs() {
    let world = World::shared().await;
    let body = json!({"name": "pay day", "cron": "0 0 1 1 *", "run": asks(&world)});
    let made = world.client.post("/v1/schedules", &body).header("x-acting-user", "ann").await.is(201);
    made.fits(&json!({"created_by": "user:ann", "updated_by": "user:ann"}));
    let id = made["id"].as_str().expect("an id");
    let vote = async |approval: &str, user: &str| {
        let path = format!("/v1/approvals/{approval}/decision");
        world.client.post(&path, &json!({"decision": "approve"})).header("x-acting-user", user).await
    };
    let (run, approval) = asking(&world, id).await;
    vote(&approval, "ann").await.refused(403, "forbidden");
    // Nor does the key.
    run.decide(&json!({"decision": "approve"})).await.refused(403, "forbidden");
    vote(&approval, "bob").await.ok();
    run.ended().await;
    // Who says when it runs has started it too, beside who said what. Who names or pauses it hasn't.
    change(&world.client, id, "bob", json!({"timezone": "Asia/Tokyo"}))
        .await
        .fits(&json!({"updated_by": "user:bob"}));
    change(&world.client, id, "cat", json!({"name": "pay day!"}))
        .await
        .fits(&json!({"updated_by": "user:cat"}));
    change(&world.client, id, "cat", json!({"paused": true})).await;
    change(&world.client, id, "dan", json!({"paused": false})).await;
    let (run, approval) = asking(&world, id).await;
    for user in ["ann", "bob", "dan"] {
        vote(&approval, user).await.refused(403, "forbidden");
    }
    vote(&approval, "cat").await.ok();
    run.ended().await;
    // Who says anew what runs is the only one.
    change(&world.client, id, "eve", json!({"run": asks(&world).with(json!({"metadata": {"n": "2"}}))}))
        .await;
    let (run, approval) = asking(&world, id).await;
    vote(&approval, "eve").await.refused(403, "forbidden");
    vote(&approval, "ann").await.ok();
    run.ended().await;
    for (by, found) in [("user:ann", 1), ("user:eve", 1), ("user:bob", 0), ("nobody", 0)] {
        let list = world.client.get(&format!("/v1/schedules?created_by={by}")).await;
        list.fits(&json!({"data": {"$len": found}}));
    }
}

#[tokio::test]
async fn who_fires_it_has_started_that_run_beside_them() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("So be it.")]);
    let body = json!({"name": "pay day", "cron": "0 0 1 1 *", "run": asks(&world)});
    let made = world.client.post("/v1/schedules", &body).header("x-acting-user", "ann").await.is(201);
    let id = made["id"].as_str().expect("an id");
    let trigger =
        world.client.post(&format!("{}/trigger", path(id)), &json!({})).header("x-acting-user", "bob");
    let run = trigger.await.is(201);
    let run = world.run(&run);
    let approval = format!("/v1/approvals/{}/decision", run.pending().await);
    let vote = |user: &str| {
        world.client.post(&approval, &json!({"decision": "approve"})).header("x-acting-user", user)
    };
    for user in ["ann", "bob"] {
        vote(user).await.refused(403, "forbidden");
    }
    vote("cat").await.ok();
    run.ended().await;
    world.client.get(&path(id)).await.fits(&json!({"last": {"triggered_by": "user:bob"}}));
}

#[tokio::test]
async fn limits_above_the_agents_are_an_admins_whenever_they_are_used() {
    let world = World::shared().await;
    super::answers(&world).await;
    let above = json!({"run": {"budgets": {"max_steps": 1000}}});
    let id = made(&world, above.clone()).await;
    fired(&world, &id).await.fits(&json!({"outcome": "started"}));
    let runs = world.client.get(&format!("/v1/runs?schedule_id={id}")).await.ok();
    world.run(&runs["data"][0]).ended().await.fits(&json!({"budgets": {"max_steps": 1000}}));
    let plain = world.key(&["runs:write"]).await;
    let change = async |change: Value| plain.patch(&path(&id), &change).await;
    change(json!({"cron": "* * * * *"})).await.refused(403, "forbidden");
    change(json!({"skip_if_running": false})).await.refused(403, "forbidden");
    plain.post(&format!("{}/trigger", path(&id)), &json!({})).await.refused(403, "forbidden");
    // Stopping it is anybody's who may write runs; letting it go on isn't.
    change(json!({"paused": true, "name": "stopped"})).await.fits(&json!({"paused_at": "*"}));
    change(json!({"paused": false})).await.refused(403, "forbidden");
    change(json!({"run": {"agent": world.agent(&[]), "input": "go"}, "paused": false})).await.ok();
    fired(&world, &id).await.fits(&json!({"outcome": "started"}));
    let reader = world.key(&["runs:read"]).await;
    for (method, at) in [("PATCH", ""), ("DELETE", ""), ("POST", "/trigger")] {
        let ask = reader.ask(method.parse::<Method>().expect("a method"), &format!("{}{at}", path(&id)));
        let ask = if method == "DELETE" { ask } else { ask.json(&json!({})) };
        ask.await.refused(403, "forbidden");
    }
}
