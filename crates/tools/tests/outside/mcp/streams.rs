//! Answers as streams of events, with what else comes in them.

use std::time::Duration;

use answerable_core::tool::{Attempt, ErrorCode};
use answerable_ports::ToolSource;
use answerable_testkit::McpAnswer;
use serde_json::json;

use super::world::{World, idle, output, tenant};

#[tokio::test]
async fn progress_and_logs_before_an_answer_are_heard_and_change_nothing() {
    let world = World::start().await;
    let files = world.files();
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 2, "progress": 0.5, "total": 1}});
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}});
    let other = json!({"jsonrpc": "2.0", "id": 999, "result": {"content": []}});
    files.script(
        "long",
        [McpAnswer::text("done").after(progress).after(log).after(other).after(json!("odd"))],
    );
    assert_eq!(output(world.call("long", json!({})).await).content, "done");
    assert_eq!(world.changes(), 0);
}

#[tokio::test]
async fn the_servers_own_requests_are_answered() {
    let world = World::start().await;
    let files = world.files();
    let ping = json!({"jsonrpc": "2.0", "id": "p1", "method": "ping"});
    let sampling = json!({"jsonrpc": "2.0", "id": 7, "method": "sampling/createMessage", "params": {}});
    files.script("ask", [McpAnswer::text("done").after(ping).after(sampling)]);
    assert_eq!(output(world.call("ask", json!({})).await).content, "done");
    files.reached("reply", 2).await;
    let replies: Vec<_> = files.requests("reply").iter().map(|request| request.json()).collect();
    let to = |id: serde_json::Value| replies.iter().find(|reply| reply["id"] == id).expect("a reply");
    assert_eq!(to(json!("p1"))["result"], json!({}));
    assert_eq!(to(json!(7))["error"]["code"], json!(-32601));
    assert_eq!(files.faults(), Vec::<String>::new());
}

#[tokio::test]
async fn a_stream_that_ends_early_is_taken_up_again() {
    let world = World::start().await;
    let files = world.files();
    files.script("long", [McpAnswer::text("done").resumed()]);
    assert_eq!(output(world.call("long", json!({})).await).content, "done");
    assert!(files.requests("GET").iter().any(|request| request.header("last-event-id").is_some()));
    assert_eq!(files.requests("tools/call").len(), 1, "it is not sent again");
    // Also one that breaks off in the middle of a line.
    files.script("torn", [McpAnswer::text("done").resumed().cut_after(65)]);
    assert_eq!(output(world.call("torn", json!({})).await).content, "done");
    // Where it can't be, nobody knows.
    files.script("lost", [McpAnswer::raw("text/event-stream", "id: gone\nretry: 1\ndata:\n\n")]);
    let attempt = world.call("lost", json!({})).await;
    assert!(matches!(attempt, Attempt::Unclear(ErrorCode::Unavailable, _)), "{attempt:?}");
    // Not beyond the call's time.
    files.script("slow", [McpAnswer::raw("text/event-stream", "id: gone\nretry: 20000\ndata:\n\n")]);
    let mut call = world.prepared(1, "files", "slow", json!({}));
    call.tool.timeout_ms = Some(150);
    let attempt = world.run(&call).await.attempt;
    assert!(matches!(attempt, Attempt::Unclear(ErrorCode::Timeout, _)), "{attempt:?}");
}

#[tokio::test]
async fn a_stream_without_end_has_a_limit() {
    let world = World::start().await;
    let event =
        format!("data: {{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":\"{}\"}}\n\n", "x".repeat(1 << 20));
    world.files().script("flood", [McpAnswer::raw("text/event-stream", event.repeat(70))]);
    let mut call = world.prepared(1, "files", "flood", json!({}));
    call.tool.timeout_ms = Some(60_000);
    let attempt = world.run(&call).await.attempt;
    assert!(matches!(attempt, Attempt::Unclear(ErrorCode::OutputTooLarge, _)), "{attempt:?}");
}

#[tokio::test]
async fn the_servers_own_stream_ends_with_the_session() {
    let world = World::with(Default::default(), idle(100)).await;
    let files = world.files();
    files.with_stream();
    assert_eq!(output(world.call("look", json!({})).await).content, "ok");
    files.reached("GET", 1).await;
    files.reached("DELETE", 1).await;
    let deaf = async {
        while files.tell(json!({"jsonrpc": "2.0", "method": "x"})) > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), deaf).await.expect("nobody listens any more");
}

#[tokio::test]
async fn a_stream_that_is_refused_for_now_is_asked_for_again_and_one_that_is_not_there_is_not() {
    let world = World::start().await;
    let refusals = [400, 401, 403, 404, 405].map(|status| (status, McpAnswer::status(status, "")));
    let changed = json!({"method": "notifications/tools/list_changed", "params": "x".repeat(2 << 20)});
    let event = format!("data: {changed}\n\n");
    let odd = [
        (429, McpAnswer::status(429, "")),
        (409, McpAnswer::status(409, "")),
        (500, McpAnswer::status(500, "")),
        (200, McpAnswer::raw("text/html", "<html>")),
        // An event that is longer than is read there.
        (201, McpAnswer::raw("text/event-stream", event)),
    ];
    let all: Vec<_> = refusals.into_iter().chain(odd).collect();
    for (status, answer) in &all {
        let name = format!("s{status}");
        let server = world.far.server(&name);
        server.with_stream();
        server.script("GET", [answer.clone(), McpAnswer::usual()]);
        world.set(1, &name, &world.far.url(&name));
        assert_eq!(
            output(world.run(&world.prepared(1, &name, "look", json!({}))).await.attempt).content,
            "ok"
        );
        server.reached("GET", 1).await;
    }
    for (status, _) in &all[5..] {
        let name = format!("s{status}");
        world.far.server(&name).reached("GET", 2).await;
        assert_eq!(world.tools.changes(tenant(1), &name), 0, "{status}");
    }
    for (status, _) in &all[..5] {
        assert_eq!(world.far.server(&format!("s{status}")).requests("GET").len(), 1, "{status}");
    }
}
