//! A round in which everything is as it should be.

use serde_json::{Value, json};

use super::super::facts::joined;
use super::super::{Facts, RunFacts, weigh};
use super::charges;
use crate::clients::lines::{Accepted, End, Seen, Told, end_of};
use crate::world::lines::{Effect, ModelLine, RequestLine};

/// A run that ships, pays (found by lookup), has a refund approved with other arguments, and steers; one that was
/// cancelled; one of poison.
pub(super) fn facts() -> Facts {
    let mut facts = Facts {
        accepted: [("run_1", "t1", "mix"), ("run_2", "t2", "mail"), ("run_3", "t3", "poison")]
            .map(accepted)
            .into(),
        requests: joined(requests()),
        effects: vec![
            effect("ship", "t1/0.0", "k1", "tc_1", json!({"token": "t1/0.0"})),
            effect("pay", "t1/1.0", "k2", "tc_2", json!({"token": "t1/1.0"})),
            effect("refund", "t1/2.0", "k3", "tc_3", json!({"token": "t1/2.0", "amount": 7})),
        ],
        model: (0..4).map(|turn| asked("t1", turn)).chain([asked("t2", 0), asked("t3", 0)]).collect(),
        told: told(),
        ..Facts::default()
    };
    let first = RunFacts {
        run: ended("finished", "final_answer"),
        events: events(&["run.queued", "tool.reconciled", "run.finished"], "finished", "final_answer"),
        ledger: vec![
            entry("led_1", "tc_1", "ship", "k1", "succeeded", "committed"),
            entry("led_2", "tc_2", "pay", "k2", "succeeded", "committed"),
            entry("led_3", "tc_3", "refund", "k3", "succeeded", "committed"),
        ],
        approvals: vec![
            json!({"id": "apr_1", "kind": "tool_call", "tool_call_id": "tc_3", "status": "approved"}),
            json!({"id": "apr_2", "kind": "tool_call", "tool_call_id": "tc_4", "status": "denied"}),
        ],
        calls: vec![json!({"id": "tc_5", "result": {"content": "yes"}})],
        messages: vec![json!({"id": "msg_1", "seq": 4, "content": "and mind"})],
    };
    let second = RunFacts {
        run: ended("cancelled", "cancelled"),
        events: events(&["run.queued", "run.cancelled"], "cancelled", "cancelled"),
        ledger: vec![entry("led_4", "tc_6", "mail", "k4", "failed", "none")],
        ..RunFacts::default()
    };
    let third = RunFacts {
        run: ended("failed", "crash_loop"),
        events: events(&["run.queued", "run.failed"], "failed", "crash_loop"),
        ..RunFacts::default()
    };
    facts.seen = first.events.iter().map(|event| seen("run_1", event)).collect();
    facts.ends = vec![End { at_ms: 4000, run_id: "run_1".into(), end: end_of(&first.run).expect("an end") }];
    facts.runs =
        [("run_1", first), ("run_2", second), ("run_3", third)].map(|(id, run)| (id.to_owned(), run)).into();
    facts
}

#[test]
fn is_green() {
    let report = weigh(&facts());
    assert_eq!(report.offences, []);
    assert_eq!((report.runs, report.effects, report.uncertain()), (3, 3, 1));
    assert_eq!(report.ended["final_answer"], 1);
    assert_eq!(charges(&Facts::default()), []);
}

fn accepted((run_id, tag, kind): (&str, &str, &str)) -> Accepted {
    Accepted {
        at_ms: 1000,
        asked_ms: 990,
        tag: tag.into(),
        kind: kind.into(),
        key: format!("job-{tag}"),
        run_id: run_id.into(),
    }
}

fn requests() -> Vec<RequestLine> {
    let rows = [
        ("ship", "t1/0.0", "k1", "tc_1", "run_1", 1100, 1200, "gone", 1),
        ("ship", "t1/0.0", "k1", "tc_1", "run_1", 3000, 3100, "answered 200", 2),
        ("pay", "t1/1.0", "k2", "tc_2", "run_1", 3200, 3300, "cut", 1),
        ("find_payment", "k2", "r2", "tc_2", "run_1", 3400, 3410, "said not_applied", 1),
        ("pay", "t1/1.0", "k2", "tc_2", "run_1", 3500, 3600, "answered 200", 2),
        ("refund", "t1/2.0", "k3", "tc_3", "run_1", 3700, 3800, "answered 200", 1),
        ("mail", "t2/0.0", "k4", "tc_6", "run_2", 1100, 1200, "answered 503", 1),
        ("poison", "t3/0.0", "k5", "tc_7", "run_3", 1100, 1200, "gone", 1),
    ];
    let lines =
        (1..).zip(rows).flat_map(|(n, (tool, token, key, call_id, run_id, from, to, how, attempt))| {
            let began = RequestLine {
                at_ms: from,
                n,
                how: None,
                tool: tool.into(),
                token: token.into(),
                key: key.into(),
                call_id: call_id.into(),
                run_id: run_id.into(),
                attempt,
                peer: "127.0.0.1:1".into(),
            };
            [began, RequestLine { at_ms: to, n, how: Some(how.into()), ..RequestLine::default() }]
        });
    lines.collect()
}

fn told() -> Vec<Told> {
    let told = |what: &str, run_id: &str, id: &str, word: &str| Told {
        at_ms: 2000,
        what: what.into(),
        run_id: run_id.into(),
        id: id.into(),
        word: word.into(),
        ..Told::default()
    };
    vec![
        Told {
            input: json!({"token": "t1/2.0", "amount": 7}),
            ..told("decision", "run_1", "apr_1", "approve")
        },
        told("decision", "run_1", "apr_2", "deny"),
        told("tool_result", "run_1", "tc_5", "yes"),
        told("steer", "run_1", "msg_1", "and mind"),
        Told { input: json!({"max_steps": 50}), ..told("budget", "run_1", "", "") },
        Told { shown: "running".into(), ..told("cancel", "run_2", "", "") },
    ]
}

fn effect(tool: &str, token: &str, key: &str, call_id: &str, input: Value) -> Effect {
    let (tool, token, key, call_id) = (tool.into(), token.into(), key.into(), call_id.into());
    Effect { at_ms: 1150, tool, token, key, call_id, run_id: "run_1".into(), attempt: 1, input }
}

fn asked(tag: &str, turn: usize) -> ModelLine {
    ModelLine { at_ms: 1050, tag: tag.into(), turn, ..ModelLine::default() }
}

fn ended(status: &str, stop_reason: &str) -> Value {
    json!({"status": status, "stop_reason": stop_reason, "final_answer": null, "error": null, "attempt": 1,
        "finished_at": "2026-01-01T00:00:00.000Z", "budgets": {"max_steps": 50}})
}

fn events(types: &[&str], status: &str, stop_reason: &str) -> Vec<Value> {
    let event = |(seq, kind): (usize, &&str)| {
        let data = json!({"status": status, "stop_reason": stop_reason, "tool_call_id": "tc_2"});
        json!({"seq": seq, "id": format!("evt_{seq}"), "type": kind, "data": data})
    };
    (1..).zip(types).map(event).collect()
}

fn entry(id: &str, call: &str, tool: &str, key: &str, status: &str, effect: &str) -> Value {
    json!({"id": id, "tool_call_id": call, "tool_name": tool, "idempotency_key": key, "status": status,
        "side_effect": effect, "resolution": null})
}

fn seen(run_id: &str, event: &Value) -> Seen {
    let text = |name: &str| event[name].as_str().expect("text").to_owned();
    Seen {
        run_id: run_id.into(),
        seq: event["seq"].as_u64().expect("a number"),
        id: text("id"),
        kind: text("type"),
    }
}
