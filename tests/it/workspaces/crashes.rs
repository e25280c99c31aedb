//! A server dies after a call's changes are written and before the call's outcome is. Locks that the test holds in the
//! database keep that gap open.

use answerable_testkit::ModelReply;
use serde_json::{Value, json};

use super::{put, read, tool, workspace};
use crate::child_crashes::Held;
use crate::harness::{Fits, Run, World, until};

/// A run that wrote a file and is about to edit it, on a server that dies in the gap.
async fn died_in_the_gap(world: &World) -> Run<'_> {
    let call = |name: &str, input: Value| ModelReply::calls([(name, input)]);
    let edit = call("edit_file", json!({"path": "a.txt", "old_text": "one", "new_text": "one one"}));
    let replies = [
        call("write_file", json!({"path": "a.txt", "content": "one"})),
        edit.held(),
        ModelReply::text("Done."),
    ];
    world.model.script("m", replies);
    let run = world.start(&world.agent(&[tool("write_file"), tool("edit_file")])).await;
    world.model.requests_reached(2).await;
    let files = Held::of(world, "LOCK TABLE workspace_calls IN EXCLUSIVE MODE", None).await;
    world.model.release();
    run.ledger_where(|ledger| ledger[1]["status"] == "started").await;
    let state = Held::state(&run).await;
    files.let_go().await;
    let written = "SELECT count(*) FROM workspace_calls WHERE run_id = $1";
    until("the file is written", async || world.sql::<i64>(written, &run.id).await == Some(2)).await;
    // The outcome's commit is on its way already, and would be made without the server: it ends with it.
    let waits = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' AND $1::uuid IS NOT NULL";
    until("the commit waits", async || world.sql::<i64>(waits, &run.id).await != Some(0)).await;
    world.server.kill();
    let ended = "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' AND $1::uuid IS NOT NULL";
    assert_eq!(world.sql::<i64>(ended, &run.id).await, Some(1));
    state.let_go().await;
    let status = "SELECT status FROM ledger WHERE run_id = $1 ORDER BY started_at DESC LIMIT 1";
    assert_eq!(world.sql::<String>(status, &run.id).await.as_deref(), Some("started"), "the gap");
    run
}

#[tokio::test]
async fn changes_are_made_once_and_the_same_answer_is_given() {
    let world = World::alone().await;
    let run = died_in_the_gap(&world).await;
    world.server.start_again().await;
    run.ended().await.fits(&json!({"status": "finished", "final_answer": "Done.", "uncertain": []}));
    run.calls().await.fits(&json!([
        {"result": {"status": "succeeded"}},
        {"result": {"status": "succeeded", "content": "Edited a.txt at line 1, 7 bytes. It has version 2 now."}},
    ]));
    run.list("ledger").await.fits(&json!([
        {"attempts": 1}, {"status": "succeeded", "side_effect": "committed", "attempts": 2},
    ]));
    let id = workspace(&run).await;
    let listed = world.client.get(&format!("/v1/workspaces/{id}/files")).await;
    listed.fits(&json!({"data": [{"path": "a.txt", "version": 2, "bytes": 7}]}));
    assert_eq!(read(&world.client, &id, "a.txt").await, "one one");
    assert_eq!(world.model.requests_for("m").len(), 3, "no step is made again");
}

#[tokio::test]
async fn also_where_somebody_changed_the_file_since() {
    let world = World::alone().await;
    let run = died_in_the_gap(&world).await;
    // Nobody takes the run up before the file is another one.
    let claims = Held::claims(&world).await;
    world.server.start_again().await;
    let id = workspace(&run).await;
    put(&world.client, &id, "a.txt", "somebody's one").await.is(200);
    claims.let_go().await;
    run.ended().await.fits(&json!({"status": "finished", "uncertain": []}));
    run.calls().await.fits(&json!([{}, {"result": {"status": "succeeded", "content": "~version 2 now"}}]));
    assert_eq!(read(&world.client, &id, "a.txt").await, "somebody's one");
}
