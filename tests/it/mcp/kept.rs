//! Lists that are read again while a run lives: those that are as they were, and those that don't come.

use answerable_testkit::{McpAnswer, ModelReply};
use serde_json::{Value, json};

use super::{Mcp, reads, takes};
use crate::harness::recorded::same_again;
use crate::harness::{Fits, Run, With, World, client_tool};
use crate::journal::folds;

/// Its payments are asked for.
fn asks() -> Value {
    json!({"policy": {"rules": [{"tool": "shop__pay", "effect": "ask"}]}})
}

/// The names of events in the run's journal that tell of tools.
async fn told(run: &Run<'_>) -> Vec<String> {
    let names = "SELECT array_agg(name ORDER BY seq, index) FROM journal, json_object_keys(event) AS name
                 WHERE run_id = $1 AND name LIKE 'Tools%'";
    run.world().sql(names, &run.id).await.expect("a journal")
}

/// Bytes of its journal.
async fn bytes(run: &Run<'_>) -> i64 {
    let bytes = "SELECT sum(octet_length(event::text))::bigint FROM journal WHERE run_id = $1";
    run.world().sql(bytes, &run.id).await.expect("a journal")
}

#[tokio::test]
async fn a_run_goes_on_with_its_tools_when_their_server_answers_401() {
    let world = World::shared().await;
    let mcp = Mcp::start().await;
    let shop = mcp.server(&world, "shop", &["pay", "refund"]).await;
    world.model.script(
        "m",
        [
            ModelReply::calls([("shop__pay", json!({}))]),
            ModelReply::calls([("shop__refund", json!({}))]),
            ModelReply::text("Paid and refunded."),
        ],
    );
    let run = world.start(&takes(&world, "shop", json!({})).with(asks())).await;
    run.waiting().await;
    shop.script("tools/list", [McpAnswer::status(401, "no")]);
    run.approve().await;
    run.ended().await.fits(&json!({"status": "finished", "final_answer": "Paid and refunded."}));
    run.calls().await.fits(&json!([
        {"tool_name": "shop__pay", "result": {"status": "succeeded"}},
        {"tool_name": "shop__refund", "result": {"status": "succeeded"}},
    ]));
    assert_eq!(shop.requests("tools/list").len(), 2, "it was asked again");
    assert_eq!(told(&run).await, ["ToolsListed", "ToolsChanged", "ToolsKept"]);
    folds(&run).await;
    same_again(&run).await;
    // A run that is new has no tools to go on with.
    let late = world.start(&takes(&world, "shop", json!({}))).await;
    late.ended().await.fits(&json!({"status": "failed", "stop_reason": "tools_unavailable"}));
}

#[tokio::test]
async fn a_run_goes_on_when_its_server_is_deleted() {
    let world = World::shared().await;
    let mcp = Mcp::start().await;
    mcp.server(&world, "shop", &["pay"]).await;
    mcp.server(&world, "files", &["read"]).await;
    let both =
        json!([{"server": "shop", "allow": ["*"]}, {"server": "files", "allow": ["*"], "defaults": reads()}]);
    world.model.script(
        "m",
        [
            ModelReply::calls([("shop__pay", json!({}))]),
            ModelReply::calls([("files__read", json!({})), ("shop__pay", json!({"n": 2}))]),
            ModelReply::text("The shop is closed."),
        ],
    );
    let run = world.start(&world.agent(&[]).with(json!({"mcp": both})).with(asks())).await;
    let decision = json!({"decision": "approve"});
    run.waiting().await;
    world.client.delete("/v1/mcp_servers/shop").await.is(204);
    run.decide(&decision).await.ok();
    run.decide(&decision).await.ok();
    run.ended().await.fits(&json!({"status": "finished", "final_answer": "The shop is closed."}));
    run.calls().await.fits(&json!([
        {"tool_name": "shop__pay", "result": {"status": "failed"}},
        {"tool_name": "files__read", "result": {"status": "succeeded"}},
        {"tool_name": "shop__pay", "validation": "ok", "result": {"status": "failed"}},
    ]));
    let told = told(&run).await;
    assert!(told.iter().all(|name| name != "ToolsUnavailable"), "{told:?}");
    assert_eq!(told.iter().filter(|name| *name == "ToolsListed").count(), 1);
    folds(&run).await;
}

#[tokio::test]
async fn a_list_that_is_as_it_was_costs_the_journal_little() {
    let world = World::shared().await;
    let mcp = Mcp::start().await;
    let files = mcp.server(&world, "files", &[]).await;
    let large = |n: usize| json!({"name": format!("read_{n}"), "description": "long ".repeat(280)});
    files.offers((0..40).map(large));
    let waits = |n: usize| ModelReply::calls([("ask_user", json!({"n": n}))]);
    world.model.script("m", [waits(1), waits(2), waits(3), ModelReply::text("Told.")]);
    let agent = world.agent(&[client_tool("ask_user")]);
    let agent = agent.with(json!({"mcp": [{"server": "files", "allow": ["*"], "defaults": reads()}]}));
    let run = world.start(&agent).await;
    run.waiting().await;
    let first = bytes(&run).await;
    assert!(first > 50_000, "{first}");
    for _ in 0..3 {
        let call = run.open_call().await;
        run.submit(&call, "seven").await.ok();
    }
    run.ended().await.fits(&json!({"status": "finished", "final_answer": "Told."}));
    assert_eq!(files.requests("tools/list").len(), 4, "it was asked after each wait");
    let more = bytes(&run).await - first;
    assert!(more < 20_000, "{more} bytes after {first}");
    assert_eq!(told(&run).await.iter().filter(|name| *name == "ToolsKept").count(), 3);
    assert_eq!(run.event_types().await.iter().filter(|kind| *kind == "tools.listed").count(), 1);
    folds(&run).await;
    same_again(&run).await;
}
