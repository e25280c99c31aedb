//! Files go with what had them.

use answerable_testkit::ModelReply;
use serde_json::json;

use super::{path, paths, put, tool, workspace};
use crate::child_runs::{agent, agent_tool, child};
use crate::harness::{Fits, Run, World};

async fn wrote(world: &World, more: serde_json::Value) -> Run<'_> {
    let write = ModelReply::calls([("write_file", json!({"path": "a.txt", "content": "x"}))]);
    world.model.script("m", [write, ModelReply::text("Written.")]);
    let run = world.start_with(&world.agent(&[tool("write_file")]), more).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    run
}

#[tokio::test]
async fn with_a_run_that_has_no_thread() {
    let world = World::shared().await;
    let run = wrote(&world, json!({})).await;
    let id = workspace(&run).await;
    paths(&world.client, &id).await.fits(&json!(["a.txt"]));
    world.client.delete(&run.path("")).await.is(204);
    world.client.get(&format!("/v1/workspaces/{id}/files")).await.refused(404, "not_found");
    put(&world.client, &id, "a.txt", "late").await.refused(404, "not_found");
}

#[tokio::test]
async fn with_the_last_of_the_runs_that_stand_on_each_other() {
    let world = World::shared().await;
    let base = wrote(&world, json!({})).await;
    let id = workspace(&base).await;
    world.model.script("m", [ModelReply::text("More.")]);
    let more = world.client.post(&base.path("/continue"), &json!({"input": "more"})).await.is(201);
    let more = world.run(&more);
    more.ended().await;
    world.client.delete(&base.path("")).await.is(204);
    paths(&world.client, &id).await.fits(&json!(["a.txt"]));
    world.client.delete(&more.path("")).await.is(204);
    world.client.get(&path(&id, "a.txt")).await.refused(404, "not_found");
}

#[tokio::test]
async fn with_a_thread_and_not_with_its_runs() {
    let world = World::shared().await;
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201);
    let (first, second) = (
        wrote(&world, json!({"thread_id": thread["id"]})).await,
        wrote(&world, json!({"thread_id": thread["id"]})).await,
    );
    let id = workspace(&first).await;
    world.client.delete(&first.path("")).await.is(204);
    paths(&world.client, &id).await.fits(&json!(["a.txt"]));
    let name = thread["id"].as_str().expect("an id");
    world.client.delete(&format!("/v1/threads/{name}")).await.is(204);
    world.client.get(&path(&id, "a.txt")).await.refused(404, "not_found");
    world.client.get(&format!("/v1/workspaces/{id}/files")).await.refused(404, "not_found");
    second.now().await.fits(&json!({"status": "finished"}));
}

#[tokio::test]
async fn with_a_thread_and_not_with_the_runs_that_its_runs_called() {
    let world = World::shared().await;
    let helper = agent(&world, "helper", &[tool("write_file")], json!({})).await;
    let write = ModelReply::calls([("write_file", json!({"path": "a.txt", "content": "x"}))]);
    world.model.script("helper", [write, ModelReply::text("Written.")]);
    let ask = ModelReply::calls([("ask", json!({"input": "write"}))]);
    world.model.script("m", [ask, ModelReply::text("Done.")]);
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201);
    let asks = world.agent(&[agent_tool("ask", &helper)]);
    let run = world.start_with(&asks, json!({"thread_id": thread["id"]})).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    let id = workspace(&run).await;
    paths(&world.client, &id).await.fits(&json!(["a.txt"]));
    let below = child(&run, 0).await;
    assert_eq!(workspace(&below).await, id, "it works on its caller's files");
    let name = thread["id"].as_str().expect("an id");
    world.client.delete(&format!("/v1/threads/{name}")).await.is(204);
    world.client.get(&format!("/v1/workspaces/{id}/files")).await.refused(404, "not_found");
    world.client.get(&path(&id, "a.txt")).await.refused(404, "not_found");
    put(&world.client, &id, "a.txt", "late").await.refused(404, "not_found");
    below.now().await.fits(&json!({"status": "finished"}));
}

#[tokio::test]
async fn with_a_tenant() {
    let world = World::alone().await;
    wrote(&world, json!({})).await;
    let files = "SELECT count(*) FROM workspace_files WHERE $1::uuid IS NOT NULL";
    let nil = "run_00000000-0000-0000-0000-000000000000";
    assert_eq!(world.sql::<i64>(files, nil).await, Some(1));
    world.server.operator().delete(&format!("/v1/tenants/{}", world.tenant)).await.is(204);
    assert_eq!(world.sql::<i64>(files, nil).await, Some(0));
}
