//! What schedules may be, and how they are shown and changed.

use answerable_testkit::ModelReply;
use chrono::{Datelike as _, Timelike as _, Utc};
use reqwest::Method;
use serde_json::{Value, json};

use super::{body, made, path, time};
use crate::harness::{Fits, With, World};

#[tokio::test]
async fn a_schedule_is_kept_shown_listed_and_deleted() {
    let world = World::shared().await;
    let wanted =
        body(&world, json!({"cron": "30 2 * * *", "timezone": "Asia/Kathmandu", "metadata": {"desk": "7"}}));
    let answer = world.client.post("/v1/schedules", &wanted).once("first").await;
    let location = answer.header("location").map(str::to_owned);
    let shown = answer.is(201);
    let id = shown["id"].as_str().expect("an id");
    assert_eq!(location, Some(path(id)));
    shown.fits(&json!({"object": "schedule", "name": "report", "cron": "30 2 * * *", "timezone": "Asia/Kathmandu",
        "run": wanted["run"], "skip_if_running": true, "paused_at": null, "last": null, "metadata": {"desk": "7"}}));
    let next = time(&shown["next_at"]);
    assert_eq!((next.hour(), next.minute(), next.second()), (20, 45, 0), "02:30 at 05:45 ahead of UTC");
    assert!(next > Utc::now() && next.signed_duration_since(Utc::now()).num_hours() < 24);
    let again = world.client.post("/v1/schedules", &wanted).once("first").await;
    assert!(again.is_replayed());
    assert_eq!(again.is(201), shown);
    world.client.get(&path(id)).await.fits(&shown);
    let second = made(&world, json!({"name": "second"})).await;
    world
        .client
        .get("/v1/schedules")
        .await
        .fits(&json!({"data": [{"id": second}, {"id": id}], "next_cursor": null}));
    let page = world.client.get("/v1/schedules?limit=1").await.fits(&json!({"data": [{"id": second}]}));
    let cursor = page["next_cursor"].as_str().expect("a cursor");
    world.client.get(&format!("/v1/schedules?cursor={cursor}")).await.fits(&json!({"data": [{"id": id}]}));
    world.client.get(&format!("{}/firings", path(id))).await.fits(&json!({"data": [], "next_cursor": null}));
    world.client.delete(&path(id)).await.is(204);
    for (method, at) in [("GET", ""), ("DELETE", ""), ("GET", "/firings"), ("POST", "/trigger")] {
        let ask = world.client.ask(method.parse::<Method>().expect("a method"), &format!("{}{at}", path(id)));
        ask.await.refused(404, "not_found");
    }
    let change = world.client.patch(&path(id), &json!({"paused": true}));
    change.await.refused(404, "not_found");
}

#[tokio::test]
async fn a_credential_that_is_written_into_its_agent_is_not_shown() {
    let world = World::shared().await;
    let headers = json!({"authorization": "Bearer sk-live-7", "x-key": "{{secret.shop}}"});
    world.client.put("/v1/secrets/shop", &json!({"value": "canary"})).await.ok();
    let agent = world.agent(&[world.read("look").with(json!({"http": {"headers": headers}}))]);
    let wanted = body(&world, json!({"run": {"agent": agent}}));
    let make = || world.client.post("/v1/schedules", &wanted).once("hidden");
    let made = make().await;
    let id = made.body["id"].as_str().expect("an id").to_owned();
    let answers = [
        made,
        make().await,
        world.client.get(&path(&id)).await,
        world.client.get("/v1/schedules").await,
        world.client.patch(&path(&id), &json!({"name": "renamed"})).await,
        world.client.get("/v1/export").await,
    ];
    for answer in answers {
        assert!(
            answer.text.contains("[redacted]") && answer.text.contains("{{secret.shop}}"),
            "{}",
            answer.text
        );
        assert!(!answer.text.contains("sk-live"), "{}", answer.text);
    }
    // What was shown is no credential.
    let sent_back = world.client.get(&path(&id)).await.ok();
    let change = world.client.patch(&path(&id), &json!({"run": sent_back["run"]})).await;
    change.refused_at("/run/agent/tools/0/http/headers/authorization");
}

#[tokio::test]
async fn what_could_not_run_is_no_schedule() {
    let world = World::shared().await;
    let run = |changes: Value| json!({"run": changes});
    let nobody = "0197c0de-0000-7000-8000-000000000000";
    for (pointer, changes) in [
        ("/cron", json!({"cron": "* * * * * *"})),
        ("/cron", json!({"cron": "0 0 30 2 *"})),
        ("/cron", json!({"cron": ""})),
        ("/timezone", json!({"timezone": "Mars/Olympus"})),
        ("/name", json!({"name": ""})),
        ("/colour", json!({"colour": "red"})),
        ("/run/colour", run(json!({"colour": "red"}))),
        ("/run/input", run(json!({"input": 5}))),
        ("/run/not_before", run(json!({"not_before": "2030-01-01T00:00:00Z"}))),
        ("/run/deadline", run(json!({"deadline": "2030-01-01T00:00:00Z"}))),
        ("/run/thread_id", run(json!({"thread_id": format!("thr_{nobody}")}))),
        ("/run/agent_id", run(json!({"agent": null, "agent_id": format!("agt_{nobody}")}))),
        ("/run/agent/model/provider", run(json!({"agent": {"model": {"provider": "nobody"}}}))),
        ("/run/policy/rules/0/effect", run(json!({"policy": {"rules": [{"effect": "perhaps"}]}}))),
        ("/run", run(json!({"input": "x".repeat(257 * 1024)}))),
        (
            "/run/input/0/content/0/artifact_id",
            run(
                json!({"input": [{"role": "user", "content": [{"type": "image", "artifact_id": format!("art_{nobody}")}]}]}),
            ),
        ),
        ("/run/metadata/a", run(json!({"metadata": {"a": "\u{0}"}}))),
    ] {
        world.client.post("/v1/schedules", &body(&world, changes)).await.refused_at(pointer);
    }
    let above = run(json!({"budgets": {"max_steps": 1000}}));
    let key = world.key(&["runs:write"]).await;
    key.post("/v1/schedules", &body(&world, above)).await.refused(403, "forbidden");
    world.client.get("/v1/schedules").await.fits(&json!({"data": []}));
    // Nothing of the tries is left.
    world.client.get("/v1/runs").await.fits(&json!({"data": []}));
    let reader = world.key(&["runs:read"]).await;
    reader.post("/v1/schedules", &body(&world, json!({}))).await.refused(403, "forbidden");
    reader.get("/v1/schedules").await.ok();
}

#[tokio::test]
async fn a_change_changes_what_is_given() {
    let world = World::shared().await;
    let id = made(&world, json!({"metadata": {"a": "1", "b": "2"}})).await;
    let change = async |change: Value| world.client.patch(&path(&id), &change).await;
    change(json!({})).await.refused(422, "invalid_request");
    change(json!({"cron": "60 * * * *"})).await.refused_at("/cron");
    change(json!({"timezone": "CEST"})).await.refused_at("/timezone");
    change(json!({"run": {"agent": world.agent(&[]), "input": "go", "colour": 1}}))
        .await
        .refused_at("/run/colour");
    let named = change(json!({"name": "another", "metadata": {"a": null, "c": "3"}})).await;
    let named =
        named.fits(&json!({"name": "another", "metadata": {"b": "2", "c": "3"}, "cron": "0 0 1 1 *"}));
    let before = time(&named["next_at"]);
    assert_eq!((before.month(), before.day(), before.hour()), (1, 1, 0));
    let moved = change(json!({"timezone": "America/New_York"})).await.ok();
    assert_eq!((time(&moved["next_at"]) - before).num_hours(), 5);
    let paused = change(json!({"paused": true})).await.fits(&json!({"next_at": null, "paused_at": "*"}));
    change(json!({"paused": true})).await.fits(&paused);
    let resumed = change(json!({"paused": false})).await.fits(&json!({"paused_at": null}));
    assert_eq!(resumed["next_at"], moved["next_at"]);
    let run = json!({"agent": world.agent(&[]), "input": "stop", "context": {"big": 1_234_567_890_123_456_789_u64}});
    change(json!({"run": run, "skip_if_running": false}))
        .await
        .fits(&json!({"run": run, "skip_if_running": false}));
    world.client.get(&format!("{}/firings", path(&id))).await.fits(&json!({"data": []}));
}

#[tokio::test]
async fn somebody_may_fire_it_out_of_its_time() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("one").held(), ModelReply::text("two")]);
    let id = made(&world, json!({"paused": true, "run": {"metadata": {"of": "schedule"}}})).await;
    let trigger = || world.client.post(&format!("{}/trigger", path(&id)), &json!({}));
    let answer = trigger().once("now").await;
    let location = answer.header("location").map(str::to_owned);
    let run = answer.is(201);
    run.fits(&json!({"schedule_id": id, "metadata": {"of": "schedule"}, "due_at": "*"}));
    assert_eq!(location, Some(format!("/v1/runs/{}", run["id"].as_str().expect("an id"))));
    let again = trigger().once("now").await;
    assert!(again.is_replayed());
    again.is(201).fits(&json!({"id": run["id"]}));
    world.model.requests_reached(1).await;
    trigger().await.refused(409, "conflict");
    let first = world.run(&run);
    let fired =
        json!({"outcome": "started", "run_id": run["id"], "due_at": run["due_at"], "triggered_by": "*"});
    let shown =
        world.client.get(&path(&id)).await.fits(&json!({"last": fired, "next_at": null, "paused_at": "*"}));
    world.client.get(&format!("{}/firings", path(&id))).await.fits(&json!({"data": [shown["last"]]}));
    // Another one beside it, where that is allowed.
    world.client.patch(&path(&id), &json!({"skip_if_running": false})).await.ok();
    let second = trigger().header("prefer", "wait=20").await.is(201);
    second.fits(&json!({"status": "finished", "final_answer": "two"}));
    world.model.release();
    first.ended().await.fits(&json!({"final_answer": "one", "schedule_id": id}));
    let of = format!("/v1/runs?schedule_id={id}");
    world.client.get(&of).await.fits(&json!({"data": {"$len": 2}}));
    world.client.get("/v1/runs?schedule_id=sch_1").await.fits(&json!({"data": []}));
    // Its runs outlive it.
    world.client.delete(&path(&id)).await.is(204);
    world.client.get(&of).await.fits(&json!({"data": [{"schedule_id": id}, {"id": run["id"]}]}));
}
