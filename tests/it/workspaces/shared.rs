//! Whose files they are: a thread's, or those of a run without one and of the runs that stand on it.

use answerable_testkit::ModelReply;
use serde_json::json;

use super::{paths, put, read, tool, workspace};
use crate::harness::{Fits, World};

fn write(file: &str, content: &str) -> ModelReply {
    ModelReply::calls([("write_file", json!({"path": file, "content": content}))])
}

fn read_file(file: &str) -> ModelReply {
    ModelReply::calls([("read_file", json!({"path": file}))])
}

#[tokio::test]
async fn the_runs_of_a_thread_share_them_and_what_they_have_seen() {
    let world = World::shared().await;
    let agent = world.agent(&[tool("write_file"), tool("read_file"), tool("edit_file")]);
    world.model.script(
        "m",
        [
            write("notes/a.txt", "one"),
            ModelReply::text("Written."),
            // The second run knows the file: its history has the first run's write.
            write("notes/a.txt", "one and two"),
            ModelReply::calls([(
                "edit_file",
                json!({"path": "notes/a.txt", "old_text": "two", "new_text": "three"}),
            )]),
            read_file("notes/a.txt"),
            ModelReply::text("Read."),
        ],
    );
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201);
    let first = world.start_with(&agent, json!({"thread_id": thread["id"]})).await;
    first.ended().await.fits(&json!({"status": "finished"}));
    let second = world.start_with(&agent, json!({"thread_id": thread["id"]})).await;
    second.ended().await.fits(&json!({"status": "finished"}));
    second.calls().await.fits(&json!([
        {"result": {"status": "succeeded", "content": "~version 2"}},
        {"result": {"status": "succeeded", "content": "~Edited notes/a.txt at line 1"}},
        {"result": {"status": "succeeded", "content": "~one and three"}},
    ]));
    assert_eq!(workspace(&first).await, thread["workspace_id"]);
    assert_eq!(workspace(&second).await, thread["workspace_id"]);
    second.list("ledger").await.fits(&json!([
        {"tool_name": "write_file", "status": "succeeded", "side_effect": "committed"},
        {"tool_name": "edit_file", "status": "succeeded", "side_effect": "committed"},
        {"tool_name": "read_file", "status": "succeeded", "side_effect": "none"},
    ]));
}

#[tokio::test]
async fn a_run_without_a_thread_has_its_own() {
    let world = World::shared().await;
    let agent = world.agent(&[tool("write_file"), tool("list_files")]);
    world.model.script("m", [write("a.txt", "mine"), ModelReply::text("Written.")]);
    let first = world.start(&agent).await;
    first.ended().await;
    world.model.script("m", [ModelReply::calls([("list_files", json!({}))]), ModelReply::text("None.")]);
    let second = world.start(&agent).await;
    second.ended().await;
    second.calls().await.fits(&json!([{"result": {"content": "There are no files."}}]));
    assert_ne!(workspace(&first).await, workspace(&second).await);
}

#[tokio::test]
async fn a_continued_run_goes_on_with_them() {
    let world = World::shared().await;
    let agent = world.agent(&[tool("write_file")]);
    world.model.script("m", [write("a.txt", "one"), ModelReply::text("Written.")]);
    let base = world.start(&agent).await;
    base.ended().await;
    world.model.script("m", [write("a.txt", "two"), ModelReply::text("Again.")]);
    let more = world.client.post(&base.path("/continue"), &json!({"input": "again"})).await.is(201);
    let more = world.run(&more);
    more.ended().await.fits(&json!({"status": "finished"}));
    more.calls()
        .await
        .fits(&json!({"$any": [{"input": {"content": "two"}, "result": {"status": "succeeded"}}]}));
    assert_eq!(workspace(&more).await, workspace(&base).await);
    assert_eq!(read(&world.client, &workspace(&base).await, "a.txt").await, "two");
}

#[tokio::test]
async fn a_fork_changes_its_own_copy() {
    let world = World::shared().await;
    let agent = world.agent(&[tool("write_file"), tool("read_file")]);
    world.model.script("m", [write("a.txt", "one"), write("b.txt", "kept"), ModelReply::text("Written.")]);
    let base = world.start(&agent).await;
    base.ended().await;
    world.model.script(
        "m",
        [
            // It does not know what became of the file after the step that it was forked from.
            write("a.txt", "two"),
            read_file("a.txt"),
            write("a.txt", "two"),
            ModelReply::text("Changed."),
        ],
    );
    let fork = world.client.post(&base.path("/fork"), &json!({"after_step": 1})).await.is(201);
    let fork = world.run(&fork);
    fork.ended().await.fits(&json!({"status": "finished"}));
    let (of_base, of_fork) = (workspace(&base).await, workspace(&fork).await);
    assert_ne!(of_base, of_fork);
    paths(&world.client, &of_fork).await.fits(&json!(["a.txt", "b.txt"]));
    assert_eq!(read(&world.client, &of_base, "a.txt").await, "one");
    assert_eq!(read(&world.client, &of_fork, "a.txt").await, "two");
    let calls = fork.calls().await;
    calls.fits(&json!({"$in_order": [
        {"result": {"status": "failed", "error_code": "CONFLICT"}},
        {"tool_name": "read_file", "result": {"status": "succeeded"}},
        {"input": {"content": "two"}, "result": {"status": "succeeded"}},
    ]}));
}

#[tokio::test]
async fn clients_and_runs_see_each_others() {
    let world = World::shared().await;
    let agent = world.agent(&[tool("read_file"), tool("search_files"), tool("list_files")]);
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201);
    let id = thread["workspace_id"].as_str().expect("an id");
    put(&world.client, id, "in/a.txt", "one red line\none grey line\n").await.is(200);
    world.model.script(
        "m",
        [
            ModelReply::calls([
                ("read_file", json!({"path": "/in/a.txt", "from_line": 2})),
                ("search_files", json!({"pattern": "gr[ea]y"})),
                ("list_files", json!({"prefix": "in"})),
            ]),
            ModelReply::text("Read."),
        ],
    );
    let run = world.start_with(&agent, json!({"thread_id": thread["id"]})).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    run.calls().await.fits(&json!([
        {"result": {"content": "~2\tone grey line\n[in/a.txt, version 1: lines 2 to 2 of 2]"}},
        {"result": {"content": "in/a.txt:2: one grey line"}},
        {"result": {"content": "~in/a.txt\t27 bytes"}},
    ]));
}
