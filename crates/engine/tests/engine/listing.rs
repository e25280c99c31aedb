//! Tools of MCP servers: what a run makes of lists that are as they were, are others, or don't come.

use std::sync::Arc;
use std::time::Duration;

use answerable_core::agent::{AgentSpec, ToolSpec};
use answerable_core::catalog::{self, Listed, Missing};
use answerable_core::run::{Event, Phase, Record, RunState, RunTools, Status, StopReason};
use answerable_core::tool::{Attempt, Output};
use answerable_ports::{ListedTool, McpFault};
use serde_json::{Value, json};

use crate::desk::{Desk, Heard};

const LEASE: Duration = Duration::from_secs(5);

fn agent(extra: bool) -> AgentSpec {
    let agent = json!({"name": "a", "model": {"provider": "main", "model": "m"},
        "policy": {"rules": [{"tool": "*", "effect": "allow"}]},
        "mcp": [{"server": "shop", "allow": ["*"]}, {"server": "extra", "allow": ["*"], "required": extra}]});
    serde_json::from_value(agent).expect("an agent")
}

fn offered(name: &str, input_schema: Value) -> ListedTool {
    let description = format!("does {name}");
    ListedTool { name: name.into(), title: None, description, input_schema, annotations: None }
}

fn offers(names: &[&str]) -> Result<Vec<ListedTool>, McpFault> {
    Ok(names.iter().map(|name| offered(name, json!({"type": "object"}))).collect())
}

fn refused() -> Result<Vec<ListedTool>, McpFault> {
    Err(McpFault::Refused("it answers 401".into()))
}

fn away() -> Result<Vec<ListedTool>, McpFault> {
    Err(McpFault::Away("it can't be reached".into()))
}

/// A run that has just been accepted.
fn new(extra_required: bool) -> Arc<Desk> {
    let desk = Desk::new();
    desk.run.lock().expect("no panic").agent = agent(extra_required);
    desk.now(|ways| {
        ways.tool = "shop__pay";
        ways.answer = Some(Attempt::Succeeded(Output::plain("paid")));
    });
    desk
}

/// A run before its next step, taken up by a process that knows nothing of its servers. It has these tools of the shop.
fn taken_up(names: &[&str]) -> Arc<Desk> {
    let desk = new(false);
    let listed = offers(names).expect("tools").into_iter().map(|tool| Listed {
        name: tool.name,
        title: None,
        description: tool.description,
        input_schema: tool.input_schema,
        annotations: None,
    });
    let tools = catalog::catalog(&agent(false), &[("shop".into(), listed.collect())]).tools;
    let mut run = desk.run.lock().expect("no panic");
    let missing = vec![Missing { server: "extra".into(), reason: "it is away".into() }];
    let hash = Some(catalog::hash(&tools));
    let known = RunTools { listings: 1, hash, missing, ..RunTools::default() };
    run.state = RunState { tools: Some(known), ..before_a_step(&run.state) };
    run.tools = tools;
    drop(run);
    desk.now(|ways| drop(ways.offers.insert("extra", away())));
    desk
}

fn before_a_step(state: &RunState) -> RunState {
    RunState { status: Status::Running, phase: Phase::Boundary, ..state.clone() }
}

/// What became of the list, in short.
fn told(desk: &Desk) -> Vec<String> {
    let names = |tools: &[ToolSpec]| tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>().join(" ");
    let told = |event: Event| match event {
        Event::ToolsListed { list, .. } => Some(format!("listed {}", names(&list.tools))),
        Event::ToolsKept { .. } => Some("kept".into()),
        Event::ToolsChanged { .. } => Some("changed".into()),
        Event::ToolsUnavailable { server, .. } => Some(format!("unavailable {server}")),
        _ => None,
    };
    desk.commits().into_iter().flat_map(|commit| commit.events).filter_map(told).collect()
}

/// Names of the tools that the model was offered first.
fn shown(desk: &Desk) -> Vec<String> {
    let first = desk.all().into_iter().find_map(|heard| match heard {
        Heard::Asked(request) => Some(request.tools),
        _ => None,
    });
    first.into_iter().flatten().map(|tool| tool.name).collect()
}

async fn lives(desk: &Arc<Desk>) -> RunState {
    let engine = desk.start(LEASE);
    let end = desk.ended().await;
    engine.drain().await;
    end
}

#[tokio::test]
async fn a_list_that_is_as_it_was_is_not_written_again() {
    let desk = taken_up(&["pay", "refund"]);
    desk.now(|ways| drop(ways.offers.insert("shop", offers(&["pay", "refund"]))));
    let end = lives(&desk).await;
    assert_eq!((end.status, told(&desk)), (Status::Finished, vec!["changed".into(), "kept".into()]));
    assert_eq!(shown(&desk), ["shop__pay", "shop__refund"]);
    let writes = |record: &Record| matches!(record, Record::ToolsListed { .. });
    assert!(!desk.commits().iter().any(|commit| commit.records.iter().any(writes)));
    let missing = &end.tools.expect("tools").missing[0];
    assert_eq!((missing.server.as_str(), missing.reason.as_str()), ("extra", "it is away"));
    assert_eq!(desk.sent_count(), 1, "what it has can be called");
}

#[tokio::test]
async fn one_that_changed_is_taken() {
    let desk = taken_up(&["refund"]);
    desk.now(|ways| drop(ways.offers.insert("shop", offers(&["pay"]))));
    let end = lives(&desk).await;
    assert_eq!(
        (end.status, told(&desk)),
        (Status::Finished, vec!["changed".into(), "listed shop__pay".into()])
    );
    assert_eq!((shown(&desk), desk.sent_count()), (vec!["shop__pay".to_owned()], 1));
}

#[tokio::test]
async fn a_run_goes_on_with_its_tools_when_their_server_gives_no_list() {
    for fault in [refused, away] {
        let desk = taken_up(&["pay"]);
        desk.now(|ways| drop(ways.offers.insert("shop", fault())));
        let end = lives(&desk).await;
        assert_eq!((end.status, told(&desk)), (Status::Finished, vec!["changed".into(), "kept".into()]));
        assert_eq!((shown(&desk), desk.sent_count()), (vec!["shop__pay".to_owned()], 1));
        // Another server may have news all the same.
        let desk = taken_up(&["pay"]);
        desk.now(|ways| {
            ways.offers.insert("shop", fault());
            ways.offers.insert("extra", offers(&["more"]));
        });
        assert_eq!(lives(&desk).await.status, Status::Finished);
        assert_eq!(told(&desk), ["changed", "listed shop__pay extra__more"]);
    }
    // One that had no tools has none.
    let desk = taken_up(&[]);
    desk.now(|ways| drop(ways.offers.insert("shop", away())));
    let end = lives(&desk).await;
    assert_eq!((end.end.map(|end| end.reason), shown(&desk).len()), (Some(StopReason::FinalAnswer), 0));
}

#[tokio::test]
async fn a_run_does_not_begin_without_a_server_that_it_needs() {
    for fault in [refused, away] {
        let desk = new(true);
        desk.now(|ways| {
            ways.offers.insert("shop", offers(&["pay"]));
            ways.offers.insert("extra", fault());
        });
        let end = lives(&desk).await;
        assert_eq!(end.end.map(|end| end.reason), Some(StopReason::ToolsUnavailable));
        assert_eq!(told(&desk), ["unavailable extra"]);
        let desk = new(false);
        desk.now(|ways| {
            ways.offers.insert("shop", offers(&["pay"]));
            ways.offers.insert("extra", fault());
        });
        let end = lives(&desk).await;
        assert_eq!((end.status, end.tools.expect("tools").missing.len()), (Status::Finished, 1));
    }
}

#[tokio::test]
async fn a_run_that_an_older_server_began_asks_before_its_next_step() {
    let desk = new(false);
    {
        let mut run = desk.run.lock().expect("no panic");
        run.state = before_a_step(&run.state);
    }
    desk.now(|ways| drop(ways.offers.insert("shop", offers(&["pay"]))));
    let end = lives(&desk).await;
    assert_eq!(end.status, Status::Finished);
    assert_eq!(told(&desk), ["changed", "listed shop__pay"]);
    assert_eq!((shown(&desk), desk.sent_count()), (vec!["shop__pay".to_owned()], 1));
    let listings = desk.all().iter().filter(|heard| matches!(heard, Heard::Listed)).count();
    assert_eq!(listings, 2, "each server once");
}

/// The runtime of this test has one thread: were the list looked at there, no lease could be renewed.
#[tokio::test]
async fn looking_at_a_list_keeps_nothing_else_waiting() {
    let desk = new(false);
    let slow = |n: u32| {
        let pattern = |i: u32| json!({"pattern": format!("^({n}|{i}|[^\\p{{L}}]{{1,20}})$")});
        let patterns: Value = (0..8).map(|i| (format!("p{i}"), pattern(i))).collect();
        offered(&format!("t{n}"), json!({"type": "object", "properties": patterns}))
    };
    let mut tools: Vec<ListedTool> = (0..2).map(slow).collect();
    tools.push(offered("pay", json!({"type": "object"})));
    desk.now(|ways| drop(ways.offers.insert("shop", Ok(tools))));
    let engine = desk.start(Duration::from_millis(400));
    let end = desk.ended().await;
    engine.drain().await;
    assert_eq!((end.status, desk.sent_count()), (Status::Finished, 1));
    let heard = desk.all();
    let listed = heard.iter().position(|heard| matches!(heard, Heard::Listed)).expect("it is asked");
    let is_known = |heard: &Heard| matches!(heard, Heard::Commit(commit) if commit.events.iter().any(|event| matches!(event, Event::ToolsListed { .. })));
    let known = heard.iter().position(is_known).expect("it is committed");
    let renewed = heard[listed..known].iter().filter(|heard| matches!(heard, Heard::Renewed(_))).count();
    assert!(renewed >= 5, "{renewed} renewals");
}
