//! Sessions: opened in order, kept, lost, replaced, closed, and never shared between tenants.

use std::collections::BTreeMap;
use std::time::Duration;

use answerable_core::tool::{Attempt, ErrorCode};
use answerable_ports::McpPlace;
use answerable_testkit::McpAnswer;
use serde_json::{Value, json};

use super::world::{World, idle, key, names, output};

#[tokio::test]
async fn a_call_in_a_session_says_all_that_the_server_may_want_to_know() {
    let world = World::start().await;
    let files = world.files();
    files.script("read", [McpAnswer::text("three lines")]);
    let input =
        json!({"path": "a.txt", "n": serde_json::from_str::<Value>("12345678901234567890123").expect("n")});
    assert_eq!(output(world.call("read", input.clone()).await).content, "three lines");
    assert_eq!(output(world.call("read", input.clone()).await).content, "three lines");
    assert_eq!(
        (files.requests("initialize").len(), files.requests("notifications/initialized").len()),
        (1, 1)
    );
    let greeting = &files.params("initialize")[0];
    assert_eq!(
        (&greeting["protocolVersion"], &greeting["clientInfo"]["name"]),
        (&json!("2025-11-25"), &json!("answerable"))
    );
    let calls = files.requests("tools/call");
    assert_eq!(calls[0].header("authorization"), Some(key(1).as_str()));
    assert_eq!(calls[0].header("mcp-protocol-version"), Some("2025-11-25"));
    assert_eq!(calls[0].header("mcp-session-id"), calls[1].header("mcp-session-id"));
    assert!(calls[0].header("traceparent").is_some() && calls[0].header("idempotency-key").is_none());
    let params = &files.params("tools/call")[0];
    assert_eq!((&params["name"], &params["arguments"]), (&json!("read"), &input));
    let meta = &params["_meta"];
    assert_eq!(meta["traceparent"], "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    assert_eq!(
        (&meta["answerable/idempotency_key"], &meta["answerable/attempt"]),
        (&json!("key-1"), &json!(1))
    );
    assert!(meta["answerable/run_id"].as_str().is_some_and(|id| id.starts_with("run_")));
    assert_eq!(meta["progressToken"], calls[0].json()["id"]);
    assert_eq!(files.faults(), Vec::<String>::new());
}

#[tokio::test]
async fn runs_of_a_tenant_share_a_session_and_tenants_do_not() {
    let world = World::start().await;
    world.set(2, "files", &world.far.url("files"));
    let files = world.files();
    files.script("who", [McpAnswer::usual().delayed(Duration::from_millis(30)), McpAnswer::usual()]);
    let calls: Vec<_> = (0..24).map(|n| world.prepared(1 + n % 2, "files", "who", json!({"n": n}))).collect();
    let tasks = calls.into_iter().map(|call| {
        let tools = world.tools.clone();
        tokio::spawn(async move { answerable_ports::ToolExecutor::run(&tools, &call).await.attempt })
    });
    for task in tasks.collect::<Vec<_>>() {
        assert_eq!(output(task.await.expect("no panic")).content, "ok");
    }
    assert_eq!(files.requests("initialize").len(), 2, "one for each tenant");
    assert_eq!(files.requests("tools/call").len(), 24);
    assert_eq!(files.faults(), Vec::<String>::new());
}

#[tokio::test]
async fn answers_are_not_mixed_up() {
    let world = World::start().await;
    let files = world.files();
    let answers = (0..12).map(|n| McpAnswer::text(&n.to_string()).delayed(Duration::from_millis(60 - 5 * n)));
    files.script("count", answers);
    let mut tasks = Vec::new();
    for n in 0..12 {
        let (tools, call) = (world.tools.clone(), world.prepared(1, "files", "count", json!({"n": n})));
        tasks.push(tokio::spawn(
            async move { answerable_ports::ToolExecutor::run(&tools, &call).await.attempt },
        ));
        files.reached("tools/call", n + 1).await;
    }
    for (n, task) in tasks.into_iter().enumerate() {
        assert_eq!(output(task.await.expect("no panic")).content, n.to_string());
    }
}

#[tokio::test]
async fn a_lost_session_is_opened_again_and_the_call_sent_again() {
    let said = "Bad Request: No valid session ID provided";
    for lost in [McpAnswer::forgetting(), McpAnswer::error(-32000, said).with_status(400).and_forgets()] {
        let world = World::start().await;
        let files = world.files();
        files.script("pay", [McpAnswer::text("paid 1"), lost, McpAnswer::text("paid 2")]);
        assert_eq!(output(world.call("pay", json!({"n": 1})).await).content, "paid 1");
        assert_eq!(world.changes(), 0);
        assert_eq!(output(world.call("pay", json!({"n": 2})).await).content, "paid 2");
        assert_eq!((files.requests("initialize").len(), files.requests("tools/call").len()), (2, 3));
        assert_eq!(files.params("tools/call")[1]["arguments"], files.params("tools/call")[2]["arguments"]);
        assert_eq!(world.changes(), 1, "its list may be another");
        assert!(files.requests("DELETE").is_empty(), "there is nothing to end");
        assert_eq!(files.faults(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn another_400_is_no_lost_session() {
    let world = World::start().await;
    let files = world.files();
    for answer in
        [McpAnswer::status(400, "your session is over"), McpAnswer::error(-32000, "no").with_status(400)]
    {
        files.script("pay", [answer]);
        let attempt = world.call("pay", json!({})).await;
        assert!(matches!(attempt, Attempt::Refused(ErrorCode::InvalidArguments, _)), "{attempt:?}");
    }
    assert_eq!((files.requests("initialize").len(), files.requests("tools/call").len()), (1, 2));
}

#[tokio::test]
async fn settings_that_change_within_a_call_break_nothing_off() {
    let world = World::start().await;
    let files = world.files();
    files.script("slow", [McpAnswer::text("late").held()]);
    let (tools, call) = (world.tools.clone(), world.prepared(1, "files", "slow", json!({})));
    let task = tokio::spawn(async move { answerable_ports::ToolExecutor::run(&tools, &call).await.attempt });
    files.reached("tools/call", 1).await;
    let place = McpPlace::Url { url: world.far.url("files"), headers: BTreeMap::new() };
    world.put(1, "files", place, 5000, "2");
    assert_eq!(output(world.call("read", json!({})).await).content, "ok");
    assert!(files.requests("DELETE").is_empty(), "a call is under way in it");
    files.release();
    assert_eq!(output(task.await.expect("no panic")).content, "late");
    files.reached("DELETE", 1).await;
}

#[tokio::test]
async fn a_session_that_is_lost_again_and_again_is_given_up() {
    let world = World::start().await;
    let files = world.files();
    files.script("pay", [McpAnswer::forgetting()]);
    let attempt = world.call("pay", json!({})).await;
    assert!(matches!(attempt, Attempt::NotDone(ErrorCode::Unavailable, _, None)), "{attempt:?}");
    assert_eq!(files.requests("tools/call").len(), 2);
}

#[tokio::test]
async fn a_lost_session_told_within_a_200_is_a_failure_and_the_next_call_has_a_new_one() {
    let world = World::start().await;
    let files = world.files();
    files.script("read", [McpAnswer::error(-32600, "Session not found"), McpAnswer::text("fine")]);
    let attempt = world.call("read", json!({})).await;
    assert!(matches!(attempt, Attempt::Refused(ErrorCode::Internal, _)), "{attempt:?}");
    assert_eq!(output(world.call("read", json!({})).await).content, "fine");
    assert_eq!(files.requests("initialize").len(), 2);
}

#[tokio::test]
async fn a_404_of_a_server_without_sessions_is_no_lost_session() {
    let world = World::start().await;
    let files = world.files();
    files.without_sessions();
    files.script("read", [McpAnswer::status(404, "no such page"), McpAnswer::text("fine")]);
    let attempt = world.call("read", json!({})).await;
    assert!(
        matches!(&attempt, Attempt::Refused(ErrorCode::NotFound, why) if why.contains("no such page")),
        "{attempt:?}"
    );
    assert_eq!(output(world.call("read", json!({})).await).content, "fine");
    assert_eq!(files.requests("initialize").len(), 1);
    assert_eq!(files.requests("tools/call")[0].header("mcp-session-id"), None);
}

#[tokio::test]
async fn many_calls_that_find_the_session_lost_open_one_in_its_place() {
    let world = World::start().await;
    let files = world.files();
    assert_eq!(output(world.call("read", json!({})).await).content, "ok");
    files.forget_sessions();
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let (tools, call) = (world.tools.clone(), world.prepared(1, "files", "read", json!({"n": n})));
            tokio::spawn(async move { answerable_ports::ToolExecutor::run(&tools, &call).await.attempt })
        })
        .collect();
    for task in tasks {
        assert_eq!(output(task.await.expect("no panic")).content, "ok");
    }
    assert_eq!(files.requests("initialize").len(), 2);
    assert_eq!(files.faults(), Vec::<String>::new());
}

#[tokio::test]
async fn changed_settings_open_another_session_and_close_the_old_one() {
    let world = World::start().await;
    assert_eq!(output(world.call("read", json!({})).await).content, "ok");
    let before = world.changes();
    let place = McpPlace::Url {
        url: world.far.url("files"),
        headers: BTreeMap::from([("x-key".into(), "other".into())]),
    };
    world.put(1, "files", place, 5000, "2");
    assert_eq!(output(world.call("read", json!({})).await).content, "ok");
    let files = world.files();
    assert_eq!(files.requests("tools/call")[1].header("x-key"), Some("other"));
    assert_eq!(files.requests("initialize").len(), 2);
    assert!(world.changes() > before);
    files.reached("DELETE", 1).await;
    assert_eq!(
        files.requests("DELETE")[0].header("mcp-session-id"),
        files.requests("tools/call")[0].header("mcp-session-id")
    );
}

#[tokio::test]
async fn an_idle_session_is_closed_and_one_in_use_is_not() {
    let world = World::with(BTreeMap::new(), idle(80)).await;
    let files = world.files();
    files.script("slow", [McpAnswer::text("late").held()]);
    let (tools, call) = (world.tools.clone(), world.prepared(1, "files", "slow", json!({})));
    let task = tokio::spawn(async move { answerable_ports::ToolExecutor::run(&tools, &call).await.attempt });
    files.reached("tools/call", 1).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(files.requests("DELETE").is_empty(), "a call is under way");
    let before = world.changes();
    files.release();
    assert_eq!(output(task.await.expect("no panic")).content, "late");
    files.reached("DELETE", 1).await;
    assert!(world.changes() > before, "from now on nothing is heard of it");
    assert_eq!(output(world.call("read", json!({})).await).content, "ok");
    assert_eq!(files.requests("initialize").len(), 2);
    assert_eq!(files.faults(), Vec::<String>::new());
}

#[tokio::test]
async fn a_greeting_that_makes_no_sense_is_refused_and_nothing_is_called() {
    let world = World::start().await;
    for greeting in [
        McpAnswer::result(&json!({"protocolVersion": "1999-01-01", "capabilities": {}})),
        McpAnswer::result(&json!({"protocolVersion": "2026-07-28", "capabilities": {}})),
        McpAnswer::result(&json!({"capabilities": {}})),
        McpAnswer::error(-32602, "go away"),
        McpAnswer::raw("text/html", "<html>welcome</html>"),
        McpAnswer::status(401, "who are you"),
        McpAnswer::status(405, ""),
        McpAnswer::usual().header("mcp-session-id", &"x".repeat(2000)),
    ] {
        let name = uuid::Uuid::new_v4().to_string();
        world.set(1, &name, &world.far.url(&name));
        world.far.server(&name).script("initialize", [greeting.clone()]);
        let attempt = world.run(&world.prepared(1, &name, "read", json!({}))).await.attempt;
        let Attempt::Refused(code, why) = attempt else { panic!("{greeting:?}: {attempt:?}") };
        assert!(matches!(code, ErrorCode::Unavailable | ErrorCode::PermissionDenied), "{code:?} {why}");
        assert!(world.far.server(&name).requests("tools/call").is_empty());
        let fault = answerable_ports::ToolSource::list(&world.tools, super::world::tenant(1), &name).await;
        assert!(matches!(fault, Err(answerable_ports::McpFault::Refused(_))), "{fault:?}");
    }
}

#[tokio::test]
async fn older_versions_are_spoken_too() {
    let world = World::start().await;
    let files = world.files();
    files.offers([json!({"name": "read"})]);
    files.script("initialize", [McpAnswer::result(&json!({"protocolVersion": "2025-03-26"}))]);
    files.script(
        "read",
        [McpAnswer::raw(
            "application/json",
            r#" [{"jsonrpc":"2.0","method":"notifications/tools/list_changed"},
        {"jsonrpc":"2.0","id":"3","result":{"content":[{"type":"text","text":"ok"}]}}]"#,
        )],
    );
    assert_eq!(names(&world.list().await.expect("a list")), ["read"]);
    assert_eq!(output(world.call("read", json!({})).await).content, "ok");
    assert_eq!(files.requests("tools/call")[0].header("mcp-protocol-version"), Some("2025-03-26"));
    assert_eq!(world.changes(), 1);
}
