//! Each expectation, with something that it holds for and something that it doesn't.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::{Shown, Traffic};

/// A run that looked, was denied a deletion, and answered.
fn observed() -> Observed {
    let look = json!({"tool_name": "look", "input": {"at": "door"}, "ledger_id": "led_1",
        "result": {"status": "succeeded", "content": "a red door", "error_code": null}});
    let find = json!({"tool_name": "find", "input": {"id": 7}, "ledger_id": "led_2",
        "result": {"status": "failed", "content": "no order 7", "error_code": "NOT_FOUND"}});
    let delete = json!({"tool_name": "delete", "input": {"id": 7}, "ledger_id": null,
        "result": {"status": "denied", "content": "", "error_code": "PERMISSION_DENIED"}});
    let fax = json!({"tool_name": "fax", "input": {}, "ledger_id": null,
        "result": {"status": "rejected", "content": "", "error_code": "NOT_FOUND"}});
    let used = json!({"steps": 3, "tool_calls": 2, "tokens": 150, "cost_microusd": 900});
    let traffic = |requests, effects| Traffic { requests, effects };
    let said = [json!({"role": "system", "content": "You look."}), json!({"role": "user", "content": "go"})];
    Observed {
        run: json!({"status": "finished", "stop_reason": "final_answer", "final_answer": "{\"door\": \"red\"}",
            "error": {"code": "e"}, "uncertain": ["led_2"], "budgets": {"used": used}}),
        steps: vec![json!({"tool_calls": [look]}), json!({"tool_calls": [find, delete, fax]})],
        ledger: vec![
            json!({"tool_name": "look", "status": "succeeded", "side_effect": "none", "attempts": 1, "error_code": null, "resolution": null}),
            json!({"tool_name": "find", "status": "uncertain", "side_effect": "possible", "attempts": 2,
                "error_code": "SIDE_EFFECT_UNCERTAIN", "resolution": {"state": "applied"}}),
        ],
        approvals: vec![json!({})],
        artifacts: vec![json!({}), json!({})],
        shown: vec![Shown::of(&said[..1]), Shown::of(&said)],
        model_requests: Some(3),
        tools: Some(BTreeMap::from([("look".to_owned(), traffic(1, 1)), ("find".to_owned(), traffic(2, 0))])),
        took: Duration::from_millis(120),
        troubles: Vec::new(),
    }
}

fn findings(expect: Value) -> Vec<String> {
    let expect: Expect = serde_json::from_value(expect.clone()).unwrap_or_else(|e| panic!("{expect}: {e}"));
    check(&expect, &observed()).iter().map(ToString::to_string).collect()
}

#[test]
fn what_holds_is_not_told_and_what_does_not_is() {
    let table = [
        (
            json!({"status": "finished"}),
            json!({"status": "failed"}),
            "expect.status: expected failed, got finished",
        ),
        (
            json!({"stop_reason": "final_answer"}),
            json!({"stop_reason": "max_steps"}),
            "expect.stop_reason: expected max_steps, got final_answer",
        ),
        (json!({"error_code": "e"}), json!({"error_code": "f"}), "expect.error_code: expected f, got e"),
        (
            json!({"answer": {"equals": "{\"door\": \"red\"}"}}),
            json!({"answer": {"equals": "red"}}),
            "expect.answer.equals: expected \"red\", got ",
        ),
        (
            json!({"answer": {"contains": ["red", "door"]}}),
            json!({"answer": {"contains": ["red", "blue"]}}),
            "expect.answer.contains: expected \"blue\" in it, got ",
        ),
        (
            json!({"answer": {"lacks": "blue"}}),
            json!({"answer": {"lacks": ["blue", "red"]}}),
            "expect.answer.lacks: expected \"red\" nowhere in it, got ",
        ),
        (
            json!({"answer": {"matches": "(?i)RED"}}),
            json!({"answer": {"matches": "^red"}}),
            "expect.answer.matches: expected /^red/, got ",
        ),
        (
            json!({"answer": {"schema": {"required": ["door"]}}}),
            json!({"answer": {"schema": {"required": ["window"]}}}),
            "expect.answer.schema: expected JSON that fits the schema, got ",
        ),
        (
            json!({"tools": {"called": ["look", "find"]}}),
            json!({"tools": {"called": ["look", "delete"]}}),
            "expect.tools.called[1]: expected at least 1 of delete, got 0: none (called: look, find)",
        ),
        (
            json!({"tools": {"called": [{"name": "look", "times": 1}]}}),
            json!({"tools": {"called": [{"name": "look", "times": 2}]}}),
            "expect.tools.called[0]: expected 2 of look, got 1: look {\"at\":\"door\"} succeeded",
        ),
        (
            json!({"tools": {"called": [{"name": "look", "input": {"properties": {"at": {"const": "door"}}}}]}}),
            json!({"tools": {"called": [{"name": "look", "input": {"properties": {"at": {"const": "roof"}}}}]}}),
            "expect.tools.called[0]: expected at least 1 of look with input that fits the schema, got 0: look {\"at\":\"door\"} (/at: \"roof\" was expected) succeeded",
        ),
        (
            json!({"tools": {"called": [{"name": "look", "result": "red"}]}}),
            json!({"tools": {"called": [{"name": "look", "result": "blue"}]}}),
            "expect.tools.called[0]: expected at least 1 of look with blue in the result, got 0",
        ),
        (
            json!({"tools": {"called": [{"name": "find", "error_code": "NOT_FOUND"}]}}),
            json!({"tools": {"called": [{"name": "find", "error_code": "CONFLICT"}]}}),
            "expect.tools.called[0]: expected at least 1 of find with error code CONFLICT, got 0",
        ),
        (
            json!({"tools": {"called": [{"name": "delete", "times": 0}]}}),
            json!({"tools": {"called": [{"name": "look", "times": {"max": 0}}]}}),
            "expect.tools.called[0]: expected 0 of look, got 1",
        ),
        (
            json!({"tools": {"not_called": ["delete", "fax"]}}),
            json!({"tools": {"not_called": ["delete", "look"]}}),
            "expect.tools.not_called: expected no call of look, got look ",
        ),
        (
            json!({"tools": {"order": ["look", "find"]}}),
            json!({"tools": {"order": ["find", "look"]}}),
            "expect.tools.order: expected find, look, got look, find",
        ),
        (
            json!({"tools": {"rejected": "fax"}}),
            json!({"tools": {"rejected": "delete"}}),
            "expect.tools.rejected: expected a call of delete, got fax",
        ),
        (json!({"denied": ["delete"]}), json!({"denied": []}), "expect.denied: expected none, got delete"),
        (
            json!({"no_denied_action": false}),
            json!({"no_denied_action": true}),
            "expect.no_denied_action: expected no denied call, got delete",
        ),
        (
            json!({"ledger": [{"tool_name": "find", "attempts": 2, "resolution": "applied"}, {"status": "succeeded"}]}),
            json!({"ledger": [{"status": "succeeded"}, {"status": "succeeded"}]}),
            "expect.ledger[1]: expected {\"status\":\"succeeded\"}, got {",
        ),
        (
            json!({"ledger": [{"side_effect": "possible", "error_code": "SIDE_EFFECT_UNCERTAIN"}]}),
            json!({"ledger": []}),
            "expect.ledger: expected no entry, got {",
        ),
        (
            json!({"effects": {"look": 1, "find": 0, "delete": 0}}),
            json!({"effects": {"look": 0}}),
            "expect.effects.look: expected 0, got 1",
        ),
        (
            json!({"requests": {"find": {"min": 2}}}),
            json!({"requests": {"find": {"max": 1}}}),
            "expect.requests.find: expected at most 1, got 2",
        ),
        (json!({"uncertain": 1}), json!({"uncertain": 0}), "expect.uncertain: expected 0, got 1"),
        (json!({"artifacts": 2}), json!({"artifacts": 1}), "expect.artifacts: expected 1, got 2"),
        (json!({"approvals": {"max": 1}}), json!({"approvals": 0}), "expect.approvals: expected 0, got 1"),
        (
            json!({"steps": {"min": 1, "max": 3}}),
            json!({"steps": {"min": 1, "max": 2}}),
            "expect.steps: expected 1 to 2, got 3",
        ),
        (json!({"tool_calls": 2}), json!({"tool_calls": 3}), "expect.tool_calls: expected 3, got 2"),
        (
            json!({"tokens": {"max": 150}}),
            json!({"tokens": {"max": 149}}),
            "expect.tokens: expected at most 149, got 150",
        ),
        (
            json!({"cost_microusd": {"max": 900}}),
            json!({"cost_microusd": {"max": 899}}),
            "expect.cost_microusd: expected at most 899, got 900",
        ),
        (
            json!({"model_requests": 3}),
            json!({"model_requests": 2}),
            "expect.model_requests: expected 2, got 3",
        ),
        (
            json!({"duration_ms": {"max": 200}}),
            json!({"duration_ms": {"max": 100}}),
            "expect.duration_ms: expected at most 100, got 120",
        ),
        (
            json!({"model_saw": {"contains": ["You look.", "go"]}}),
            json!({"model_saw": {"contains": "stop"}}),
            "expect.model_saw.contains: expected \"stop\" in a request, got 2 requests without it",
        ),
        (
            json!({"model_saw": {"lacks": "stop"}}),
            json!({"model_saw": {"lacks": "go"}}),
            "expect.model_saw.lacks (request 2): expected \"go\" nowhere in it, got ",
        ),
        (
            json!({"model_saw": {"roles": ["system", "user"]}}),
            json!({"model_saw": {"roles": ["user"]}}),
            "expect.model_saw.roles: expected user, got system, user",
        ),
        (
            json!({"model_saw": {"chars": {"max": 12}}}),
            json!({"model_saw": {"chars": {"max": 11}}}),
            "expect.model_saw.chars: expected at most 11, got 12",
        ),
    ];
    for (holds, fails, told) in table {
        assert_eq!(findings(holds.clone()), Vec::<String>::new(), "{holds}");
        let found = findings(fails.clone());
        assert_eq!(found.len(), 1, "{fails}: {found:?}");
        assert!(found[0].starts_with(told), "{fails}: {}", found[0]);
    }
}

#[test]
fn a_run_must_end_unless_another_status_is_expected() {
    let waiting = Observed { run: json!({"status": "waiting_approval"}), ..observed() };
    let told = check(&Expect::default(), &waiting);
    assert_eq!(told[0].to_string(), "expect.status: expected a run that ends, got waiting_approval");
    let expect = Expect { status: Some("waiting_approval".to_owned()), ..Expect::default() };
    assert_eq!(check(&expect, &waiting), []);
}

#[test]
fn what_went_wrong_in_the_playing_is_a_finding() {
    let expect = Expect { status: Some("finished".to_owned()), ..Expect::default() };
    let observed = Observed { troubles: vec!["no reply left".to_owned()], ..observed() };
    let told: Vec<String> = check(&expect, &observed).iter().map(ToString::to_string).collect();
    assert_eq!(told, ["play: no reply left"]);
}

#[test]
fn what_nobody_counted_can_not_be_expected() {
    let observed = Observed { tools: None, model_requests: None, ..observed() };
    let expect = json!({"effects": {"look": 1}, "requests": {"look": 1}, "model_requests": 3});
    let expect: Expect = serde_json::from_value(expect).expect("an expectation");
    let places: Vec<String> = check(&expect, &observed).into_iter().map(|finding| finding.place).collect();
    assert_eq!(places, ["expect.effects", "expect.requests", "expect.model_requests"]);
}

#[test]
fn an_answer_that_is_no_json_fits_no_schema() {
    let observed = Observed { run: json!({"status": "finished", "final_answer": "red"}), ..observed() };
    let expect: Expect = serde_json::from_value(json!({"answer": {"schema": true}})).expect("an expectation");
    assert_eq!(check(&expect, &observed)[0].to_string(), "expect.answer.schema: expected JSON, got \"red\"");
    let none = Observed { run: json!({"status": "cancelled", "final_answer": null}), ..observed };
    assert_eq!(check(&expect, &none)[0].to_string(), "expect.answer: expected an answer, got none");
}
