//! Bounds: on sessions, on a tenant's part of them, on what is remembered, and on waiting for a server that is gone.

use std::collections::BTreeMap;
use std::time::Duration;

use answerable_core::tool::{Attempt, ErrorCode};
use answerable_testkit::McpAnswer;
use answerable_tools::McpLimits;
use serde_json::json;

use super::world::{World, output};

#[tokio::test]
async fn there_are_only_so_many_sessions_and_servers() {
    let limits = McpLimits { sessions: 2, servers: 2, ..McpLimits::default() };
    let world = World::with(BTreeMap::new(), limits).await;
    for name in ["a", "b", "c"] {
        world.set(1, name, &world.far.url(name));
        let attempt = world.run(&world.prepared(1, name, "read", json!({}))).await.attempt;
        assert_eq!(output(attempt).content, "ok", "{name}");
    }
    // The one that was idle for longest made room, and nobody hears of its changes any more.
    world.far.server("a").reached("DELETE", 1).await;
    assert!(world.far.server("b").requests("DELETE").is_empty());
    assert!(answerable_ports::ToolSource::changes(&world.tools, super::world::tenant(1), "a") > 0);
    let busy: Vec<_> = ["b", "c"]
        .map(|name| {
            world.far.server(name).script("slow", [McpAnswer::text("late").held()]);
            let (tools, call) = (world.tools.clone(), world.prepared(1, name, "slow", json!({})));
            tokio::spawn(async move { answerable_ports::ToolExecutor::run(&tools, &call).await.attempt })
        })
        .into_iter()
        .collect();
    for name in ["b", "c"] {
        world.far.server(name).reached("tools/call", 2).await;
    }
    let mut call = world.prepared(1, "a", "read", json!({}));
    call.tool.timeout_ms = Some(300);
    let attempt = world.run(&call).await.attempt;
    assert!(matches!(attempt, Attempt::NotDone(ErrorCode::Unavailable, _, None)), "{attempt:?}");
    for (name, task) in ["b", "c"].into_iter().zip(busy) {
        world.far.server(name).release();
        assert_eq!(output(task.await.expect("no panic")).content, "late");
    }
}

#[tokio::test]
async fn a_count_of_changes_never_falls() {
    let limits = McpLimits { sessions: 1, servers: 1, ..McpLimits::default() };
    let world = World::with(BTreeMap::new(), limits).await;
    let mut before = 0;
    // Its session makes room for the second one's, and it is forgotten for the third.
    for name in ["a", "b", "c", "a", "b"] {
        world.set(1, name, &world.far.url(name));
        assert_eq!(
            output(world.run(&world.prepared(1, name, "read", json!({}))).await.attempt).content,
            "ok"
        );
        let now = answerable_ports::ToolSource::changes(&world.tools, super::world::tenant(1), "a");
        assert!(now >= before, "{name}: {now} after {before}");
        before = now;
    }
    assert!(before > 0);
}

#[tokio::test]
async fn a_tenant_has_its_part_of_the_sessions_and_no_more() {
    let limits = McpLimits { sessions: 8, tenant_sessions: 2, ..McpLimits::default() };
    let world = World::with(BTreeMap::new(), limits).await;
    let read = async |number: u128, name: &str| {
        let mut call = world.prepared(number, name, "read", json!({}));
        call.tool.timeout_ms = Some(400);
        world.run(&call).await.attempt
    };
    for (number, name) in [(1, "a"), (1, "b"), (1, "c"), (2, "d")] {
        world.set(number, name, &world.far.url(name));
    }
    assert_eq!(output(read(2, "d").await).content, "ok");
    for name in ["a", "b", "c"] {
        assert_eq!(output(read(1, name).await).content, "ok");
    }
    // One of its own made room, though another tenant's was idle for longer.
    world.far.server("a").reached("DELETE", 1).await;
    assert!(world.far.server("d").requests("DELETE").is_empty());
    let mut busy = Vec::new();
    for name in ["b", "c"] {
        world.far.server(name).script("slow", [McpAnswer::text("late").held()]);
        let (tools, call) = (world.tools.clone(), world.prepared(1, name, "slow", json!({})));
        busy.push(tokio::spawn(
            async move { answerable_ports::ToolExecutor::run(&tools, &call).await.attempt },
        ));
        world.far.server(name).reached("tools/call", 2).await;
    }
    let attempt = read(1, "a").await;
    assert!(matches!(attempt, Attempt::NotDone(ErrorCode::Unavailable, _, None)), "{attempt:?}");
    world.set(2, "a", &world.far.url("a"));
    assert_eq!(output(read(2, "a").await).content, "ok", "another tenant has places");
    for (name, task) in ["b", "c"].into_iter().zip(busy) {
        world.far.server(name).release();
        assert_eq!(output(task.await.expect("no panic")).content, "late");
    }
}

#[tokio::test]
async fn those_who_wait_for_a_server_that_is_gone_do_not_try_it_in_turn() {
    let world = World::start().await;
    let files = world.files();
    let gone = McpAnswer::status(500, "").delayed(Duration::from_millis(500));
    files.script("initialize", [gone, McpAnswer::usual()]);
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let (tools, call) = (world.tools.clone(), world.prepared(1, "files", "read", json!({"n": n})));
            tokio::spawn(async move { answerable_ports::ToolExecutor::run(&tools, &call).await.attempt })
        })
        .collect();
    for task in tasks {
        let attempt = task.await.expect("no panic");
        assert!(matches!(attempt, Attempt::NotDone(ErrorCode::Unavailable, _, None)), "{attempt:?}");
    }
    assert_eq!(files.requests("initialize").len(), 1);
    // Whoever comes later tries it anew, and so does whoever has more time than the one that tried.
    assert_eq!(output(world.call("read", json!({})).await).content, "ok");
    let slow = world.far.server("slow");
    slow.script("initialize", [McpAnswer::usual().held(), McpAnswer::usual()]);
    world.set(1, "slow", &world.far.url("slow"));
    let mut hasty = world.prepared(1, "slow", "read", json!({}));
    hasty.tool.timeout_ms = Some(400);
    let patient = world.prepared(1, "slow", "read", json!({}));
    let after = async {
        slow.reached("initialize", 1).await;
        world.run(&patient).await.attempt
    };
    let (hasty, patient) = tokio::join!(world.run(&hasty), after);
    assert!(matches!(hasty.attempt, Attempt::NotDone(ErrorCode::Timeout, _, None)), "{hasty:?}");
    assert_eq!(output(patient).content, "ok");
}
