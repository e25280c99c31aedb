//! Calls that nobody awaits any more: the server is told, and hears the right one.

use std::time::Duration;

use answerable_core::tool::{Attempt, ErrorCode};
use answerable_ports::ToolExecutor;
use answerable_testkit::McpAnswer;
use serde_json::json;

use super::world::World;

#[tokio::test]
async fn a_dropped_call_is_called_off() {
    let world = World::start().await;
    let files = world.files();
    files.script("pay", [McpAnswer::text("paid").held()]);
    let (tools, call) = (world.tools.clone(), world.prepared(1, "files", "pay", json!({})));
    let task = tokio::spawn(async move { tools.run(&call).await });
    files.reached("tools/call", 1).await;
    task.abort();
    files.reached("notifications/cancelled", 1).await;
    assert_eq!(
        files.params("notifications/cancelled")[0]["requestId"],
        files.requests("tools/call")[0].json()["id"]
    );
    assert_eq!(files.faults(), Vec::<String>::new());
}

#[tokio::test]
async fn a_late_call_is_called_off() {
    let world = World::start().await;
    let files = world.files();
    files.script("pay", [McpAnswer::text("paid").as_stream().held()]);
    let mut call = world.prepared(1, "files", "pay", json!({}));
    call.tool.timeout_ms = Some(150);
    assert!(matches!(world.run(&call).await.attempt, Attempt::Unclear(ErrorCode::Timeout, _)));
    files.reached("notifications/cancelled", 1).await;
}

#[tokio::test]
async fn a_call_that_is_off_is_called_off_and_still_tells_what_it_came_to() {
    let world = World::start().await;
    let files = world.files();
    files.script("pay", [McpAnswer::text("paid").held()]);
    let (tools, call) = (world.tools.clone(), world.prepared(1, "files", "pay", json!({})));
    let id = call.call_id;
    let task = tokio::spawn(async move { tools.run(&call).await.attempt });
    files.reached("tools/call", 1).await;
    world.tools.call_off(answerable_core::id::CallId(uuid::Uuid::from_u128(77)));
    world.tools.call_off(id);
    files.reached("notifications/cancelled", 1).await;
    assert_eq!(
        files.params("notifications/cancelled")[0]["requestId"],
        files.requests("tools/call")[0].json()["id"]
    );
    files.release();
    assert!(matches!(task.await.expect("no panic"), Attempt::Succeeded(_)));
    assert_eq!(files.requests("notifications/cancelled").len(), 1);
}

#[tokio::test]
async fn a_call_that_is_off_is_not_sent() {
    let world = World::start().await;
    let files = world.files();
    // While its session is opened, and after its session was lost.
    files.script("initialize", [McpAnswer::usual().held(), McpAnswer::usual()]);
    files.script("pay", [McpAnswer::forgetting().held()]);
    for (method, calls) in [("initialize", 0), ("tools/call", 1)] {
        let (tools, call) = (world.tools.clone(), world.prepared(1, "files", "pay", json!({})));
        let id = call.call_id;
        let task = tokio::spawn(async move { tools.run(&call).await.attempt });
        files.reached(method, 1).await;
        world.tools.call_off(id);
        if calls == 1 {
            files.reached("notifications/cancelled", 1).await;
        }
        files.release();
        let attempt = task.await.expect("no panic");
        assert!(matches!(attempt, Attempt::NotDone(ErrorCode::Unavailable, _, None)), "{attempt:?}");
        assert_eq!(files.requests("tools/call").len(), calls);
    }
}

#[tokio::test]
async fn what_is_answered_is_not_called_off() {
    let world = World::start().await;
    let files = world.files();
    files.script(
        "pay",
        [
            McpAnswer::text("paid"),
            McpAnswer::is_error("no"),
            McpAnswer::error(-32603, "no"),
            McpAnswer::cut(),
        ],
    );
    for _ in 0..4 {
        world.call("pay", json!({})).await;
    }
    // What leaves without being awaited would leave before a whole exchange that begins later is over.
    world.call("look", json!({})).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(files.requests("notifications/cancelled").is_empty());
}

#[tokio::test]
async fn a_call_that_never_left_is_not_called_off() {
    let world = World::start().await;
    world.set(1, "greets", &world.far.url("greets"));
    let greets = world.far.server("greets");
    greets.script("initialize", [McpAnswer::usual().held(), McpAnswer::usual()]);
    let (tools, call) = (world.tools.clone(), world.prepared(1, "greets", "pay", json!({})));
    let task = tokio::spawn(async move { tools.run(&call).await });
    greets.reached("initialize", 1).await;
    task.abort();
    // The next one opens the session that the first didn't.
    assert!(matches!(
        world.run(&world.prepared(1, "greets", "look", json!({}))).await.attempt,
        Attempt::Succeeded(_)
    ));
    assert!(greets.requests("notifications/cancelled").is_empty());
    assert_eq!(greets.requests("tools/call").len(), 1);
}

#[tokio::test]
async fn a_call_that_is_off_has_all_of_its_own_time() {
    let world = World::start().await;
    let files = world.files();
    files.script("pay", [McpAnswer::text("paid").held()]);
    let mut call = world.prepared(1, "files", "pay", json!({}));
    call.tool.timeout_ms = Some(14_000);
    let (tools, id) = (world.tools.clone(), call.call_id);
    let task = tokio::spawn(async move { tools.run(&call).await.attempt });
    files.reached("tools/call", 1).await;
    world.tools.call_off(id);
    tokio::time::sleep(Duration::from_secs(11)).await;
    files.release();
    assert!(matches!(task.await.expect("no panic"), Attempt::Succeeded(_)));
    // And no more than that.
    let mut call = world.prepared(1, "files", "pay", json!({}));
    call.tool.timeout_ms = Some(300);
    let tools = world.tools.clone();
    let task = tokio::spawn(async move { tools.run(&call).await.attempt });
    files.reached("tools/call", 2).await;
    world.tools.call_off(id);
    let attempt = task.await.expect("no panic");
    assert!(matches!(attempt, Attempt::Unclear(ErrorCode::Timeout, _)), "{attempt:?}");
}
