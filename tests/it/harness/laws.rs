//! What holds for every run that has ended, whatever the test is about.

use std::collections::HashSet;

use serde_json::Value;

use super::legal;
use super::run::{Run, TERMINAL};
use super::traces;

pub(crate) async fn hold(run: &Run<'_>, shown: &Value) {
    says_why_it_ended(shown);
    has_one_end_in_its_events(&run.list("events").await, shown);
    let approvals = run.list("approvals").await;
    let is_pending = |approval: &&Value| approval["status"] == "pending";
    assert_eq!(list(&approvals).iter().find(is_pending), None, "an ended run waits for nobody");
    let calls = run.calls().await;
    every_call_has_its_result(&calls, shown);
    let is_open = |ledger: &Value| list(ledger).iter().any(|entry| entry["status"] == "started");
    let ledger = run.ledger_where(|ledger| !is_open(ledger)).await;
    ledger_and_calls_agree(&ledger, &calls);
    traces::hold(run, shown, &calls, &ledger).await;
    adds_up(shown, &run.list("steps").await);
    for request in run.world().model.requests() {
        legal::history(&request.json());
    }
}

fn says_why_it_ended(run: &Value) {
    let (status, reason) = (run["status"].as_str(), run["stop_reason"].as_str());
    match (status, reason) {
        (Some("finished"), Some("final_answer")) => {
            assert!(run["final_answer"].is_string() && run["error"].is_null(), "{run:#}");
        }
        (Some("cancelled"), Some("cancelled")) => {
            assert!(run["final_answer"].is_null() && run["error"].is_null(), "{run:#}");
        }
        (Some("failed"), Some(reason)) if reason != "final_answer" && reason != "cancelled" => {
            assert!(run["final_answer"].is_string() && run["error"]["code"].is_string(), "{run:#}");
        }
        _ => panic!("status and stop reason do not agree: {run:#}"),
    }
    assert!(run["finished_at"].is_string(), "{run:#}");
    assert_eq!(list(&run["pending_approvals"]).len() + list(&run["pending_tool_calls"]).len(), 0, "{run:#}");
}

fn has_one_end_in_its_events(events: &Value, run: &Value) {
    let events = list(events);
    for (event, seq) in events.iter().zip(1_u64..) {
        assert_eq!(event["seq"], seq, "the events have a gap: {events:#?}");
    }
    let ids: HashSet<&str> = events.iter().filter_map(|event| event["id"].as_str()).collect();
    assert_eq!(ids.len(), events.len(), "two events have one id");
    let is_end = |event: &&Value| TERMINAL.iter().any(|status| event["type"] == format!("run.{status}"));
    assert_eq!(events.iter().filter(is_end).count(), 1, "{events:#?}");
    let last = events.last().expect("events");
    assert_eq!(last["type"], format!("run.{}", run["status"].as_str().expect("a status")));
    assert_eq!(
        (&last["data"]["status"], &last["data"]["stop_reason"]),
        (&run["status"], &run["stop_reason"])
    );
}

fn every_call_has_its_result(calls: &Value, run: &Value) {
    let mut denied = 0;
    for call in list(calls) {
        assert!(call["result"].is_object(), "a call without a result: {call:#}");
        assert!(call["validation"] == "ok" || call["result"]["status"] == "rejected", "{call:#}");
        denied += usize::from(call["result"]["status"] == "denied");
    }
    assert_eq!(list(&run["denied"]).len(), denied, "the run names its denied calls: {run:#}");
}

fn ledger_and_calls_agree(ledger: &Value, calls: &Value) {
    for entry in list(ledger) {
        let call = list(calls).iter().find(|call| call["id"] == entry["tool_call_id"]);
        let call = call.unwrap_or_else(|| panic!("an entry without a call: {entry:#}"));
        assert_eq!(call["ledger_id"], entry["id"]);
        assert_eq!((&call["input_hash"], &call["tool_name"]), (&entry["input_hash"], &entry["tool_name"]));
        let is_uncertain = entry["status"] == "uncertain";
        assert_eq!(is_uncertain, entry["error_code"] == "SIDE_EFFECT_UNCERTAIN", "{entry:#}");
    }
}

fn adds_up(run: &Value, steps: &Value) {
    let used = &run["budgets"]["used"];
    let number = |name: &str| used[name].as_u64().expect("a number");
    assert_eq!(number("tokens"), number("input_tokens") + number("output_tokens"));
    assert_eq!(number("steps"), list(steps).len() as u64, "{run:#}\n{steps:#}");
    assert!(number("steps") <= run["budgets"]["max_steps"].as_u64().expect("a limit"), "{run:#}");
    assert!(number("tool_calls") <= run["budgets"]["max_tool_calls"].as_u64().expect("a limit"), "{run:#}");
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
