//! Journals as they are downloaded, and replays that are compared with what they replay.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Answer, Fits, Run};

/// A run's journal: its first line, and the others.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) head: Value,
    pub(crate) lines: Vec<Value>,
}

impl Journal {
    /// What happened, in order.
    pub(crate) fn events(&self) -> Vec<&Value> {
        self.lines.iter().map(|line| &line["event"]).collect()
    }

    /// The same as text, with ids numbered in the order of their first coming.
    pub(crate) fn without_ids(&self) -> String {
        without_ids(&json!(self.events()))
    }
}

/// Downloads the journal of a run.
pub(crate) async fn journal(run: &Run<'_>) -> Journal {
    let answer = run.client().get(&run.path("/journal")).await;
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"), "{answer}");
    let name = format!("attachment; filename=\"{}.journal.ndjson\"", run.id);
    assert_eq!(answer.header("content-disposition"), Some(name.as_str()));
    assert!(answer.text.ends_with('\n'), "the last line is whole");
    let mut lines = answer.text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let head = lines.next().expect("a first line");
    assert_eq!(head["run_id"], run.id.as_str());
    Journal { head, lines: lines.collect() }
}

/// As text, with ids numbered in the order of their first coming.
pub(crate) fn without_ids(value: &Value) -> String {
    let text = value.to_string();
    let (mut out, mut known, mut at) = (String::new(), HashMap::new(), 0);
    while at < text.len() {
        let id = text.get(at..at + 36).filter(|id| id.contains('-')).and_then(|id| Uuid::try_parse(id).ok());
        if let Some(id) = id {
            let next = known.len();
            out.push_str(&format!("#{}", known.entry(id).or_insert(next)));
            at += 36;
        } else {
            let end = at + text[at..].chars().next().map_or(1, char::len_utf8);
            out.push_str(&text[at..end]);
            at = end;
        }
    }
    out
}

/// Asks for a replay.
pub(crate) async fn ask_replay(run: &Run<'_>, body: Value) -> Answer {
    let mut body = body;
    body["tools"] = json!("recorded");
    run.client().post(&run.path("/replay"), &body).await
}

/// Replays a run. The replay has ended by then, lawfully.
pub(crate) async fn replay<'w>(run: &Run<'w>, body: Value) -> Run<'w> {
    let answer = ask_replay(run, body).await;
    let location = answer.header("location").map(str::to_owned);
    let shown = answer.is(201);
    let replay = run.world().run(&shown);
    assert_eq!(location, Some(replay.path("")));
    shown.fits(&json!({
        "origin": {"kind": "replay", "run_id": run.id}, "replay": {"of": run.id}, "thread_id": null, "priority": 0,
        "pending_approvals": [], "pending_tool_calls": [],
    }));
    assert_eq!(replay.ended().await, shown, "it has ended when it is shown first");
    replay.list("ledger").await.fits(&json!([]));
    replay
}

/// What a run shows of itself, without ids, times, and what a replay doesn't have.
pub(crate) async fn shown(run: &Run<'_>) -> Value {
    let now = run.now().await;
    let mut run_itself = json!({});
    for name in [
        "status",
        "stop_reason",
        "final_answer",
        "error",
        "agent_id",
        "agent_version",
        "attempt",
        "budgets",
        "metadata",
    ] {
        run_itself[name] = now[name].clone();
    }
    let mut all = json!({"run": run_itself, "denied": now["denied"]});
    for what in ["messages", "steps", "events", "approvals"] {
        all[what] = run.list(what).await;
    }
    strip(&mut all);
    all
}

fn strip(value: &mut Value) {
    const NAMES: [&str; 9] = [
        "created_at",
        "started_at",
        "finished_at",
        "at",
        "ledger_id",
        "run_id",
        "child_run_id",
        "decision_url",
        "elapsed_ms",
    ];
    match value {
        Value::Object(map) => {
            // Who decided, and when, stands beside the call as it was.
            map.retain(|name, _| !NAMES.contains(&name.as_str()) && name != "decided_at");
            map.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Replays a run unchanged, and that replay, and the run once more: all of them tell the same. So does one under a policy
/// that adds nothing, for which contexts and verdicts are made again. Gives the first replay.
pub(crate) async fn same_again<'w>(run: &Run<'w>) -> Run<'w> {
    let asked = asked(run).await;
    let once = replay(run, json!({})).await;
    let (expected, told) = (shown(run).await, journal(run).await);
    for replay in [&once, &replay(&once, json!({})).await, &replay(run, json!({})).await] {
        let now = replay.now().await;
        assert_eq!(now["replay"]["first_difference"], Value::Null, "{now:#}");
        let again = journal(replay).await;
        assert_eq!(again.without_ids(), told.without_ids());
        assert_eq!(again.head["agent"], told.head["agent"]);
        let got = shown(replay).await;
        let (expected, got): (Value, Value) = (
            serde_json::from_str(&without_ids(&expected)).expect("JSON"),
            serde_json::from_str(&without_ids(&got)).expect("JSON"),
        );
        assert_eq!(got, expected, "{} shows itself otherwise", replay.id);
    }
    let judged = replay(run, json!({"policy": {"rules": []}})).await.now().await;
    assert_eq!(judged["replay"]["first_difference"], Value::Null, "{judged:#}");
    assert_eq!(self::asked(run).await, asked, "somebody was asked");
    once
}

/// How often the model was asked, and the tools that the run called.
pub(crate) async fn asked(run: &Run<'_>) -> (usize, usize) {
    let world = run.world();
    let calls = run.calls().await;
    let names = calls.as_array().into_iter().flatten().filter_map(|call| call["tool_name"].as_str());
    let names: HashSet<&str> = names.chain(["find"]).collect();
    let requests = names.into_iter().map(|name| world.tools.requests(name).len());
    (world.model.requests().len(), requests.sum())
}
