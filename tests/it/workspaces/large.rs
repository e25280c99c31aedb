//! Large files are in object storage, large outputs in artifacts; both are read in parts.

use answerable_testkit::{ModelReply, TestDatabase, ToolAnswer};
use reqwest::Method;
use serde_json::json;

use super::{path, put, read, tool};
use crate::harness::{Fits, Server, With, World};
use std::sync::Arc;

/// How many files are in a folder and in those within it.
fn count(folder: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { count(&entry.path()) } else { 1 }).sum()
}

#[tokio::test]
async fn a_large_file_is_read_on_any_server_that_shares_the_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let blobs = folder.path().join("not/made/yet");
    let place = format!("file://{}", blobs.display());
    let database = TestDatabase::create().await.expect("a database");
    let server = Server::start_with(&database.url, &[("ANSWERABLE_BLOBS", &place)]).await;
    let world = World::on(Arc::new(server), Some(database)).await;
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201);
    let id = thread["workspace_id"].as_str().expect("an id");
    put(&world.client, id, "small.txt", "small").await.is(200);
    assert_eq!(count(&blobs), 0, "small ones are in the database");
    let log: String = (1..=20_000).map(|line| format!("line {line} of many\n")).collect();
    put(&world.client, id, "big.log", &log).await.is(200);
    put(&world.client, id, "same.log", &log).await.is(200);
    assert_eq!(count(&blobs), 1, "each content once");
    let other = world.server.beside().await;
    assert_eq!(read(&world.client.at(other.url()), id, "big.log").await, log);
    world.model.script(
        "m",
        [
            ModelReply::calls([("read_file", json!({"path": "big.log", "from_line": 19_999}))]),
            ModelReply::calls([(
                "edit_file",
                json!({"path": "big.log", "old_text": "line 19999 of many\n", "new_text": ""}),
            )]),
            ModelReply::text("Cut."),
        ],
    );
    let agent = world.agent(&[tool("read_file"), tool("edit_file")]);
    let run = world.start_with(&agent, json!({"thread_id": thread["id"]})).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    run.calls().await.fits(&json!([
        {"result": {"content": "~lines 19999 to 20000 of 20000]"}},
        {"result": {"status": "succeeded", "content": "~at line 19999"}},
    ]));
    assert_eq!(count(&blobs), 2);
    assert!(!read(&world.client, id, "big.log").await.contains("line 19999 "));
}

#[tokio::test]
async fn bytes_that_are_no_text_stay_as_they_are() {
    let world = World::shared().await;
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201);
    let id = thread["workspace_id"].as_str().expect("an id");
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    world.client.ask(Method::PUT, &path(id, "a.bin")).raw("application/x-odd", bytes.clone()).await.is(200);
    let shown = world.client.get(&format!("/v1/workspaces/{id}/files")).await.ok();
    shown.fits(&json!({"data": [{"bytes": 100_000, "media_type": "application/x-odd"}]}));
    world.model.script(
        "m",
        [ModelReply::calls([("read_file", json!({"path": "a.bin"}))]), ModelReply::text("No text.")],
    );
    let agent = world.agent(&[tool("read_file")]);
    let run = world.start_with(&agent, json!({"thread_id": thread["id"]})).await;
    run.ended().await;
    run.calls().await.fits(&json!([
        {"result": {"status": "failed", "error_code": "INVALID_ARGUMENTS", "content": "~no text: application/x-odd"}},
    ]));
}

#[tokio::test]
async fn a_long_output_is_paged_through() {
    let world = World::shared().await;
    let whole: String = (0..5000).map(|number| format!("{number:04} ")).collect();
    world.tools.script("log", [ToolAnswer::text(&whole)]);
    world.model.script("m", [ModelReply::calls([("log", json!({}))]), ModelReply::text("Wait.")]);
    let log = world.read("log").with(json!({"output": {"max_chars": 1000}}));
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201);
    let in_thread = json!({"thread_id": thread["id"]});
    let first =
        world.start_with(&world.agent(&[log.clone(), tool("read_artifact")]), in_thread.clone()).await;
    first.ended().await;
    let artifact = first.calls().await[0]["result"]["artifact_id"].as_str().expect("an id").to_owned();
    let told = first.list("messages").await;
    let note = format!("[read_artifact with artifact_id {artifact} and offset 1000 reads on]");
    told.fits(&json!({"$any": [{"role": "tool", "content": format!("~{note}")}]}));
    // The next run of the thread has it in its history, and may read it; a run beside it may not.
    let parts = |offset: usize| {
        ModelReply::calls([(
            "read_artifact",
            json!({"artifact_id": artifact, "offset": offset, "limit": 10}),
        )])
    };
    world.model.script("m", [parts(1000), parts(24_990), parts(25_001), ModelReply::text("Read.")]);
    let second = world.start_with(&world.agent(&[tool("read_artifact")]), in_thread).await;
    second.ended().await.fits(&json!({"status": "finished"}));
    second.calls().await.fits(&json!([
        {"result": {"content": "~0200 0201 \n[characters 1000 to 1010 of 25000; the next is offset 1010]"}},
        {"result": {"content": "~4998 4999 \n[characters 24990 to 25000 of 25000]"}},
        {"result": {"status": "failed", "error_code": "INVALID_ARGUMENTS"}},
    ]));
    world.model.script("m", [parts(0), ModelReply::text("Not mine.")]);
    let alone = world.start(&world.agent(&[tool("read_artifact")])).await;
    alone.ended().await;
    alone.calls().await.fits(&json!([{"result": {"status": "failed", "error_code": "NOT_FOUND"}}]));
}

#[tokio::test]
async fn without_the_tool_nobody_is_told_of_it() {
    let world = World::shared().await;
    world.tools.script("log", [ToolAnswer::text(&"line ".repeat(1000))]);
    world.model.script("m", [ModelReply::calls([("log", json!({}))]), ModelReply::text("Long.")]);
    let log = world.read("log").with(json!({"output": {"max_chars": 100}}));
    let run = world.start(&world.agent(&[log])).await;
    run.ended().await;
    run.list("messages").await.fits(&json!({"$none": {"content": "~read_artifact"}}));
}
