//! What an answer, or none, means: row by row of the contract's table.

use std::time::Duration;

use answerable_core::tool::{Attempt, ErrorCode};
use answerable_ports::{McpFault, McpPlace, McpTarget};
use answerable_testkit::McpAnswer;
use serde_json::json;

use super::world::{World, output};

/// What comes of a call that is answered so, in a session that is open.
async fn answered(world: &World, answer: McpAnswer) -> Attempt {
    let tool = format!("t{}", uuid::Uuid::new_v4().simple());
    world.files().script(&tool, [answer]);
    world.call(&tool, json!({})).await
}

#[tokio::test]
async fn every_row_of_the_table() {
    use ErrorCode::{
        Conflict, Internal, InvalidArguments, NotFound, PermissionDenied, RateLimited, Timeout, Unavailable,
    };
    let world = World::start().await;
    for (status, code) in [
        (302, Unavailable),
        (400, InvalidArguments),
        (401, PermissionDenied),
        (403, PermissionDenied),
        (405, InvalidArguments),
        (409, Conflict),
        (410, NotFound),
        (422, InvalidArguments),
    ] {
        let attempt = answered(&world, McpAnswer::status(status, "no such cart")).await;
        let Attempt::Refused(got, message) = attempt else { panic!("{status}: {attempt:?}") };
        assert_eq!((got, message.contains("no such cart")), (code, status >= 400), "{status}: {message}");
    }
    for (answer, code) in [
        (McpAnswer::error(-32602, "the path has no such form"), InvalidArguments),
        (McpAnswer::error(-32601, "no such tool"), NotFound),
        (McpAnswer::error(-32002, "no such resource"), NotFound),
        (McpAnswer::error(-32600, "no such form"), Internal),
        (McpAnswer::error(-32700, "what?"), Internal),
        (McpAnswer::error(-32000, "not now").with_status(400), InvalidArguments),
        (McpAnswer::error(-32602, "with a status").with_status(400), InvalidArguments),
        (McpAnswer::error(-32602, "as a stream").as_stream(), InvalidArguments),
        (McpAnswer::error(-32602, "for nobody").for_id(serde_json::Value::Null), InvalidArguments),
        (McpAnswer::is_error("no such file: a.txt"), Internal),
    ] {
        let attempt = answered(&world, answer.clone()).await;
        let Attempt::Refused(got, message) = attempt else { panic!("{answer:?}: {attempt:?}") };
        assert_eq!(got, code, "{message}");
        assert!(!message.is_empty() && !message.contains("-326"), "{message}");
    }
    for (answer, code, wanted) in [
        (McpAnswer::status(429, ""), RateLimited, None),
        (McpAnswer::status(429, "").header("retry-after", "2"), RateLimited, Some(2000)),
        (McpAnswer::status(503, "").header("retry-after", "0"), Unavailable, Some(0)),
    ] {
        let attempt = answered(&world, answer).await;
        let Attempt::NotDone(got, _, ms) = attempt else { panic!("{attempt:?}") };
        assert_eq!((got, ms), (code, wanted));
    }
    for (answer, code) in [
        (McpAnswer::status(500, "Traceback: /srv/app.py"), Unavailable),
        (McpAnswer::status(503, ""), Unavailable),
        (McpAnswer::error(-32603, "the server behind me died"), Unavailable),
        (McpAnswer::error(-32000, "connection closed"), Unavailable),
        (McpAnswer::error(-32001, "request timed out"), Unavailable),
        (McpAnswer::error(-32001, "request timed out").as_stream(), Unavailable),
        (McpAnswer::error(1, "oops"), Unavailable),
        (McpAnswer::raw("application/json", r#"{"jsonrpc":"2.0","id":null,"error":"oops"}"#), Unavailable),
        (McpAnswer::status(408, ""), Timeout),
        (McpAnswer::cut(), Unavailable),
        (McpAnswer::status(202, ""), Unavailable),
        (McpAnswer::status(204, ""), Unavailable),
        (McpAnswer::raw("text/html", "<html>"), Unavailable),
        (McpAnswer::raw("application/json", "{}"), Unavailable),
        (McpAnswer::raw("application/json", r#"{"jsonrpc":"2.0","id":1,"result":null}"#), Unavailable),
        (McpAnswer::text("for another").for_id(json!(999)), Unavailable),
        (McpAnswer::text("for another").for_id(json!(999)).as_stream(), Unavailable),
        (McpAnswer::result(&json!([1])), Unavailable),
        (McpAnswer::raw("text/event-stream", ""), Unavailable),
        (McpAnswer::raw("text/event-stream", "data: {\"jsonrpc\"\n\n"), Unavailable),
        (McpAnswer::raw("application/json", vec![b' '; 17 << 20]), ErrorCode::OutputTooLarge),
        (
            McpAnswer::raw("text/event-stream", [b"data: ".to_vec(), vec![b'x'; 17 << 20]].concat()),
            ErrorCode::OutputTooLarge,
        ),
    ] {
        let attempt = answered(&world, answer.clone()).await;
        let Attempt::Unclear(got, message) = attempt else { panic!("{:?}: {attempt:?}", answer.clone()) };
        assert_eq!(got, code, "{message}");
        assert!(!message.contains("Traceback") && !message.contains("127.0.0.1"), "{message}");
    }
    assert_eq!(world.files().requests("initialize").len(), 1, "none of it ends the session");
}

#[tokio::test]
async fn nobody_there_and_forbidden_addresses_are_no_effect() {
    let world = World::start().await;
    let place = |url: &str| McpPlace::Url { url: url.into(), headers: Default::default() };
    world.put(1, "gone", place("http://127.0.0.1:9/mcp"), 5000, "1");
    let attempt = world.run(&world.prepared(1, "gone", "pay", json!({}))).await.attempt;
    assert!(matches!(attempt, Attempt::NotDone(ErrorCode::Unavailable, _, None)), "{attempt:?}");
    for url in
        ["http://169.254.169.254/mcp", "http://10.0.0.1/", "http://u:p@127.0.0.1:9/", "file:///etc/passwd"]
    {
        world.put(1, "bad", place(url), 5000, url);
        let attempt = world.run(&world.prepared(1, "bad", "pay", json!({}))).await.attempt;
        let Attempt::Refused(ErrorCode::PermissionDenied, message) = attempt else {
            panic!("{url}: {attempt:?}")
        };
        assert!(!message.contains("169.254") && !message.contains("10.0"), "{message}");
    }
    let header =
        McpPlace::Url { url: world.far.url("files"), headers: [("x".into(), "sk-a\nb".into())].into() };
    world.put(1, "bad", header, 5000, "header");
    let attempt = world.run(&world.prepared(1, "bad", "pay", json!({}))).await.attempt;
    assert!(matches!(&attempt, Attempt::Refused(_, why) if !why.contains("sk-a")), "{attempt:?}");
    for (server, code) in
        [("away", ErrorCode::Unavailable), ("broken", ErrorCode::Internal), ("none", ErrorCode::NotFound)]
    {
        let attempt = world.run(&world.prepared(1, server, "pay", json!({}))).await.attempt;
        let (Attempt::NotDone(got, why, _) | Attempt::Refused(got, why)) = attempt else {
            panic!("{attempt:?}")
        };
        assert_eq!((got, why.contains("the database")), (code, false));
    }
}

#[tokio::test]
async fn a_timeout_is_unclear_once_the_call_has_left_and_no_effect_before() {
    let world = World::start().await;
    let files = world.files();
    files.script("slow", [McpAnswer::text("late").held()]);
    files.script(
        "slower",
        [McpAnswer::text("late").after(json!({"method": "notifications/progress"})).held()],
    );
    for tool in ["slow", "slower"] {
        let mut call = world.prepared(1, "files", tool, json!({}));
        call.tool.timeout_ms = Some(200);
        let attempt = world.run(&call).await.attempt;
        assert!(matches!(attempt, Attempt::Unclear(ErrorCode::Timeout, _)), "{attempt:?}");
    }
    world.set(1, "greets", &world.far.url("greets"));
    let greets = world.far.server("greets");
    greets.script("initialize", [McpAnswer::usual().delayed(Duration::from_secs(5))]);
    let mut call = world.prepared(1, "greets", "pay", json!({}));
    call.tool.timeout_ms = Some(200);
    let attempt = world.run(&call).await.attempt;
    assert!(matches!(attempt, Attempt::NotDone(ErrorCode::Timeout, _, None)), "{attempt:?}");
    assert!(greets.requests("tools/call").is_empty());
}

#[tokio::test]
async fn an_error_within_a_success_stays_a_success() {
    let world = World::start().await;
    let text = r#"{"status": "error", "why": "session expired"}"#;
    assert_eq!(output(answered(&world, McpAnswer::text(text)).await).content, text);
    let flags = McpAnswer::result(&json!({"content": [{"type": "text", "text": "fine"}], "isError": "true"}));
    assert_eq!(output(answered(&world, flags).await).content, "fine");
}

#[tokio::test]
async fn keys_that_come_back_are_masked() {
    let world = World::start().await;
    for answer in [
        McpAnswer::text("your key is sk-tenant-1-canary"),
        McpAnswer::error(-32000, "sk-tenant-1-canary"),
        McpAnswer::is_error("Bearer sk-tenant-1-canary is wrong"),
        McpAnswer::error(-32602, "sk-tenant-1-canary"),
        McpAnswer::status(403, "sk-tenant-1-canary"),
        McpAnswer::result(&json!({"structuredContent": {"key": "sk-tenant-1-canary"}})),
        McpAnswer::raw(
            "application/json",
            r#"{"id":1,"result":{"content":[{"type":"text","text":"\u0073k-tenant-1-canary"}]}}"#,
        )
        .for_id(json!(1)),
    ] {
        let said = format!("{:?}", answered(&world, answer).await);
        assert!(!said.contains("canary"), "{said}");
    }
}

#[tokio::test]
async fn secrets_within_a_header_are_masked_by_themselves() {
    let world = World::start().await;
    let headers = [
        ("authorization", "Token token=\"canary-one/1\", realm=\"x\""),
        ("x-pair", "canary-two2:canary-three3"),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.into())).into();
    world.store(McpTarget {
        place: McpPlace::Url { url: world.far.url("files"), headers },
        secrets: ["canary-one/1", "canary-two2", "canary-three3"].map(Into::into).into(),
        ..world.target(1, "files")
    });
    for echo in ["canary-one/1", "canary-one\\/1", "canary-two2", "x canary-three3 y", "canary-one%2F1"] {
        let said = format!("{:?}", answered(&world, McpAnswer::text(echo)).await);
        assert!(!said.contains("canary") && said.contains("***"), "{echo}: {said}");
    }
}

#[tokio::test]
async fn nothing_is_sent_without_a_secret_that_a_header_names() {
    let world = World::start().await;
    assert_eq!(output(world.call("pay", json!({})).await).content, "ok");
    world.store(McpTarget { missing: Some("FILES_KEY".into()), ..world.target(1, "files") });
    let attempt = world.call("pay", json!({})).await;
    let Attempt::Refused(ErrorCode::PermissionDenied, why) = attempt else { panic!("{attempt:?}") };
    assert_eq!(why, "secret FILES_KEY is not there; nothing was sent");
    assert!(matches!(world.list().await, Err(McpFault::Refused(told)) if told == why));
    assert_eq!(world.files().requests("tools/call").len(), 1);
    assert!(world.files().requests("tools/list").is_empty());
}
