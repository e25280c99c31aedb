//! How much a tenant may have.

use answerable_testkit::{ModelReply, ToolAnswer};
use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Client, Fits, With, World, agent};

/// How to make one more of what a quota limits.
fn make(client: &Client, quota: &str, number: usize) -> crate::harness::Ask {
    match quota {
        "max_agents" => client.post("/v1/agents", &agent(&[])),
        "max_threads" => client.post("/v1/threads", &json!({})),
        "max_webhooks" => {
            client.post("/v1/webhooks", &json!({"url": "http://127.0.0.1:9/", "events": ["run.finished"]}))
        }
        "max_schedules" => {
            let run = json!({"agent": agent(&[]), "input": "go"});
            client.post("/v1/schedules", &json!({"name": "s", "cron": "@daily", "run": run}))
        }
        _ => client.put(&format!("/v1/secrets/s{number}"), &json!({"value": "x"})),
    }
}

#[tokio::test]
async fn of_a_hundred_at_the_last_place_one_is_made() {
    let world = World::shared().await;
    for quota in ["max_agents", "max_threads", "max_webhooks", "max_schedules", "max_secrets"] {
        let (tenant, client) = world.neighbour(&json!({quota: 3})).await;
        for number in 0..2 {
            make(&client, quota, 1000 + number).await.ok();
        }
        let answers = join_all((0..100).map(|number| make(&client, quota, number).send())).await;
        let made = answers.iter().filter(|answer| answer.status < 300).count();
        assert_eq!(made, 1, "{quota}");
        let refused = answers.into_iter().find(|answer| answer.status >= 300).expect("a refusal");
        assert!(refused.header("retry-after").is_some(), "{refused}");
        let problem = refused.refused(429, "quota_exceeded");
        problem["detail"].fits(&json!(format!("~({quota})")));
        let quotas = client.get("/v1/quotas").await.ok();
        let own = quotas["data"].as_array().expect("a list").iter().find(|row| row["name"] == quota);
        own.expect("the quota").fits(&json!({"limit": 3, "used": 3}));
        // More room, at once.
        let more = json!({"quotas": {quota: 4}});
        world.server.operator().patch(&format!("/v1/tenants/{tenant}"), &more).await.ok();
        make(&client, quota, 2000).await.ok();
        make(&client, quota, 2001).await.refused(429, "quota_exceeded");
    }
}

#[tokio::test]
async fn what_goes_makes_room() {
    let world = World::shared().await;
    let quotas = json!({"max_agents": 1, "max_threads": 1, "max_secrets": 1});
    let (_, client) = world.neighbour(&quotas).await;
    for quota in ["max_agents", "max_threads", "max_secrets"] {
        for _ in 0..3 {
            let made = make(&client, quota, 0).await;
            let path = made.header("location").unwrap_or("/v1/secrets/s0").to_owned();
            made.ok();
            make(&client, quota, 1).await.refused(429, "quota_exceeded");
            client.delete(&path).await.is(204);
        }
    }
    // What is there is changed at any time.
    make(&client, "max_secrets", 0).await.ok();
    make(&client, "max_secrets", 0).await.ok();
}

fn put(client: &Client, workspace: &Value, path: &str, bytes: usize) -> crate::harness::Ask {
    let path = format!("/v1/workspaces/{}/files/{path}", workspace.as_str().expect("a workspace"));
    client.ask(Method::PUT, &path).raw("text/plain", "x".repeat(bytes))
}

#[tokio::test]
async fn files_and_runs_are_refused_when_all_bytes_are_used() {
    let world = World::shared().await;
    let (_, client) = world.neighbour(&json!({"max_workspace_bytes": 1000})).await;
    let thread = client.post("/v1/threads", &json!({})).await.is(201);
    let workspace = &thread["workspace_id"];
    put(&client, workspace, "a", 600).await.ok();
    put(&client, workspace, "b", 401).await.refused(429, "quota_exceeded");
    put(&client, workspace, "b", 400).await.ok();
    put(&client, workspace, "a", 601).await.refused(429, "quota_exceeded");
    let run = json!({"agent": agent(&[]), "input": "go"});
    client.post("/v1/runs", &run).await.refused(429, "quota_exceeded");
    put(&client, workspace, "a", 599).await.ok();
    world.model.script("m", [ModelReply::text("Done.")]);
    client.post("/v1/runs", &run).await.is(201);
}

#[tokio::test]
async fn a_tool_that_writes_too_much_is_told_so() {
    let world = World::shared().await;
    let (_, client) = world.neighbour(&json!({"max_workspace_bytes": 100})).await;
    let write = json!({"path": "a.txt", "content": "x".repeat(101)});
    world.model.script("m", [ModelReply::calls([("write_file", write)]), ModelReply::text("It is full.")]);
    let spec = agent(&[json!({"name": "write_file", "kind": "workspace"})]);
    let run = client.post("/v1/runs", &json!({"agent": spec, "input": "go"})).await.is(201);
    let run = world.run(&run);
    run.through(&client).ended().await.fits(&json!({"status": "finished", "final_answer": "It is full."}));
    let asked = world.model.requests_for("m")[1].to_string();
    assert!(asked.contains("max_workspace_bytes") && asked.contains("Nothing was written"), "{asked}");
}

/// The run goes on with the head; nothing is an internal error.
#[tokio::test]
async fn a_run_with_all_its_artifacts_keeps_no_more_of_what_tools_say() {
    let world = World::shared().await;
    let tool = world.read("look").with(json!({"output": {"max_chars": 100}}));
    let long = "y".repeat(5_000);
    world.tools.script("look", [ToolAnswer::text(&long), ToolAnswer::text(&long)]);
    let look = || ModelReply::calls([("look", json!({}))]);
    world.model.script("m", [look().held(), look(), ModelReply::text("Seen.")]);
    let run = world.start(&world.agent(&[tool])).await;
    world.model.requests_reached(1).await;
    // As if it had kept a GiB but for one artifact of this size.
    let much = "INSERT INTO artifacts (tenant_id, artifact_id, run_id, media_type, bytes, sha256, content, created_at)
        SELECT tenant_id, gen_random_uuid(), run_id, 'text/plain', (1::bigint << 30) - 5000, 'sha256:' || repeat('0', 64), '', now() FROM runs
        WHERE run_id = $1 RETURNING bytes";
    world.sql::<i64>(much, &run.id).await.expect("written");
    world.model.release();
    run.ended().await.fits(&json!({"status": "finished", "final_answer": "Seen."}));
    let asked = world.model.requests_for("m")[2].to_string();
    assert!(
        asked.contains("the whole is artifact art_") && asked.contains("the whole was not kept, since"),
        "{asked}"
    );
    assert_eq!(run.list("artifacts").await.as_array().map(Vec::len), Some(2));
}
