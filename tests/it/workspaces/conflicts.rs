//! A run overwrites nothing that it has not seen as it is; whatever happened in between.

use answerable_testkit::ModelReply;
use serde_json::json;

use super::{put, read, tool, workspace};
use crate::harness::{Fits, With, World, client_tool};

fn write(content: &str) -> ModelReply {
    ModelReply::calls([("write_file", json!({"path": "a.txt", "content": content}))])
}

#[tokio::test]
async fn a_file_that_was_changed_meanwhile_is_read_again_first() {
    let world = World::shared().await;
    let agent = world.agent(&[tool("write_file"), tool("read_file"), client_tool("look")]);
    world.model.script(
        "m",
        [
            write("one"),
            ModelReply::calls([("look", json!({}))]),
            write("three"),
            ModelReply::calls([("read_file", json!({"path": "a.txt"}))]),
            write("two and three"),
            ModelReply::text("Written."),
        ],
    );
    let run = world.start(&agent).await;
    let call = run.open_call().await;
    let id = workspace(&run).await;
    put(&world.client, &id, "a.txt", "two").await.is(200);
    run.submit(&call, "nothing").await.ok();
    run.ended().await.fits(&json!({"status": "finished"}));
    let calls = run.calls().await;
    calls.fits(&json!([
        {"result": {"status": "succeeded"}}, {"tool_name": "look"},
        {"result": {"status": "failed", "error_code": "CONFLICT", "retryable": false}},
        {"result": {"content": "~two"}}, {"result": {"status": "succeeded"}},
    ]));
    let words = calls[2]["result"]["content"].as_str().expect("words");
    assert!(words.contains("version 1") && words.contains("version 2"), "{words}");
    assert_eq!(read(&world.client, &id, "a.txt").await, "two and three");
    run.list("ledger").await.fits(&json!({"$any": [
        {"tool_name": "write_file", "status": "failed", "side_effect": "none", "error_code": "CONFLICT"},
    ]}));
}

#[tokio::test]
async fn also_where_the_run_was_approved_on_another_server() {
    let world = World::alone().await;
    let policy = json!({"policy": {"rules": [{"tool": "write_file", "effect": "ask",
        "input": {"required": ["content"], "properties": {"content": {"const": "three"}}}}]}});
    let agent = world.agent(&[tool("write_file")]).with(policy);
    world.model.script("m", [write("one"), write("three"), ModelReply::text("Somebody was here.")]);
    let run = world.start(&agent).await;
    run.waiting().await;
    let id = workspace(&run).await;
    world.server.kill();
    let other = world.server.beside().await;
    let run = run.through(&world.client.at(other.url()));
    put(run.client(), &id, "a.txt", "two").await.is(200);
    run.approve().await;
    run.ended().await.fits(&json!({"status": "finished"}));
    run.calls().await.fits(&json!([
        {"result": {"status": "succeeded"}}, {"result": {"status": "failed", "error_code": "CONFLICT"}},
    ]));
    assert_eq!(read(run.client(), &id, "a.txt").await, "two");
}

#[tokio::test]
async fn of_two_runs_at_once_the_second_sees_that_it_was_second() {
    let world = World::shared().await;
    world.model.script("m", [write("one"), ModelReply::text("Written.")]);
    let agent = world.agent(&[tool("write_file"), client_tool("look")]);
    let base = world.start(&agent).await;
    base.ended().await;
    // Two runs go on from the same one, with the same files.
    let look = || ModelReply::calls([("look", json!({}))]);
    let done = || ModelReply::text("Done.");
    world.model.script("m", [look(), look(), write("two"), done(), write("three"), done()]);
    let mut heirs = Vec::new();
    for input in ["left", "right"] {
        let heir = world.client.post(&base.path("/continue"), &json!({"input": input})).await.is(201);
        heirs.push(world.run(&heir));
    }
    let mut calls = Vec::new();
    for heir in &heirs {
        calls.push(heir.open_call().await);
    }
    heirs[0].submit(&calls[0], "go").await.ok();
    heirs[0].ended().await;
    heirs[1].submit(&calls[1], "go").await.ok();
    heirs[1].ended().await;
    heirs[0]
        .calls()
        .await
        .fits(&json!({"$any": [{"input": {"content": "two"}, "result": {"status": "succeeded"}}]}));
    heirs[1].calls().await.fits(
        &json!({"$any": [{"input": {"content": "three"}, "result": {"status": "failed", "error_code": "CONFLICT"}}]}),
    );
    assert_eq!(read(&world.client, &workspace(&base).await, "a.txt").await, "two");
}

#[tokio::test]
async fn a_denied_write_writes_nothing() {
    let world = World::shared().await;
    let agent = world.agent(&[tool("write_file").with(json!({"risk": "high"}))]);
    world.model.script("m", [write("one"), ModelReply::text("Not written.")]);
    let run = world.start(&agent).await;
    let id = workspace(&run).await;
    run.deny("no").await;
    run.ended().await.fits(&json!({"status": "finished"}));
    super::paths(&world.client, &id).await.fits(&json!([]));
}
