//! Cases out of exported runs.

use serde_json::json;

use super::*;
use crate::Form;
use crate::case::{Body, Said, What};

/// A run that went through most of what can happen to one.
fn export() -> Value {
    json!({
        "object": "eval_case", "version": 1, "name": "run_1", "run_id": "run_1", "agent_id": "agt_1", "agent_version": 2,
        "input": [{"role": "user", "content": "Refund order 7."}],
        "context": {"user": "u-1"},
        "budgets": {"max_steps": 9, "max_tokens": 200000, "max_tool_calls": 50, "timeout_ms": 600000, "max_cost_microusd": null, "on_exhausted": "stop"},
        "agent": {
            "name": "desk", "instructions": "Help.", "mcp": [], "output_schema": null,
            "model": {"provider": "main", "model": "m", "temperature": null, "max_output_tokens": 1024, "timeout_ms": 60000,
                "retry": {"max_attempts": 4, "backoff_ms": 500}, "fallbacks": [{"provider": "spare", "model": "n"}], "params": {}},
            "tools": [
                {"name": "find", "description": "", "input_schema": {"type": "object"}, "kind": "http", "risk": "low", "side_effect": "none",
                    "http": {"url": "https://shop.example/find", "method": "POST", "headers": {}}, "idempotent": false, "parallel_safe": false,
                    "retry": {"max_attempts": 3, "backoff_ms": 200}, "output": {"max_chars": 16000, "on_overflow": "truncate"},
                    "repeat": "guard", "on_uncertain": "stop"},
                {"name": "refund", "description": "", "input_schema": {"type": "object", "required": ["cents"]}, "kind": "http", "risk": "high",
                    "side_effect": "write", "http": {"url": "https://shop.example/refund", "method": "PUT", "headers": {"a": "b"}},
                    "reconcile": {"tool": "find", "input": {"key": "{{idempotency_key}}"}}, "retry": {"max_attempts": 1, "backoff_ms": 200}},
            ],
            "policy": {"rules": [{"tool": "refund", "effect": "ask", "approvals": 2, "expires_ms": 86400000, "on_expiry": "deny"}],
                "default": {"low": "allow", "medium": "allow", "high": "ask", "critical": "deny"}, "on_deny": "observe", "max_denials": 3},
            "budgets": {"max_steps": 20, "max_tokens": 200000, "max_tool_calls": 50, "timeout_ms": 600000, "max_cost_microusd": null, "on_exhausted": "stop"},
            "loop_guard": {"max_repeated_calls": 3, "max_repeated_errors": 3}, "context": {"max_tokens": 32000, "overflow": "drop_oldest"},
        },
        "model": [
            {"error": {"kind": "passing", "status": 503, "message": "HTTP 503: busy"}, "step": 1, "attempt": 1, "provider": "main", "model": "m"},
            {"kind": "calls", "text": "", "tool_calls": [
                {"name": "find", "arguments": {"id": 7}, "id": "tc_1"}, {"name": "find", "arguments": {}, "id": "tc_2", "validation": "malformed_arguments"}],
                "finish_reason": "tool_calls", "usage": {"input_tokens": 10, "output_tokens": 5, "cached_input_tokens": 0, "estimated": false},
                "duration_ms": 9, "step": 1, "attempt": 2, "provider": "spare", "model": "n"},
            {"kind": "calls", "text": "Now.", "tool_calls": [{"name": "refund", "arguments": {"cents": 900}, "id": "tc_3"}], "finish_reason": "tool_calls",
                "usage": {"input_tokens": 30, "output_tokens": 6, "cached_input_tokens": 20, "estimated": false}, "duration_ms": 9,
                "step": 2, "attempt": 1, "provider": "main", "model": "m"},
            {"kind": "final", "text": "Done.", "tool_calls": [], "finish_reason": "stop",
                "usage": {"input_tokens": 3, "output_tokens": 1, "cached_input_tokens": 0, "estimated": true}, "duration_ms": 9,
                "step": 3, "attempt": 1, "provider": "main", "model": "m"},
        ],
        "tools": [
            {"step": 1, "tool_name": "find", "tool_call_id": "tc_1", "input": {"id": 7}, "input_hash": "sha256:a", "attempt": 1, "outcome": "succeeded",
                "content": "{\"state\": \"shipped\"}", "error_code": null, "at_ms": 5},
            {"step": 2, "tool_name": "refund", "tool_call_id": "tc_3", "input": {"cents": 700}, "input_hash": "sha256:b", "attempt": 1, "outcome": "unclear",
                "content": "answered 500", "error_code": "UNAVAILABLE", "at_ms": 6},
            {"step": 2, "tool_name": "find", "tool_call_id": "tc_3", "input": {"key": "tc_3"}, "input_hash": "sha256:c", "attempt": 1, "outcome": "succeeded",
                "content": "{\"state\": \"applied\"}", "error_code": null, "at_ms": 7},
        ],
        "decisions": [
            {"step": 1, "tool_name": "find", "tool_call_id": "tc_1", "input_hash": "sha256:a", "effect": "allow", "rule": null, "by": "policy", "reason": "", "decision": null},
            {"step": 2, "tool_name": "refund", "tool_call_id": "tc_3", "input_hash": "sha256:d", "effect": "ask", "rule": 0, "by": "user:ann", "reason": "ok",
                "decision": "approve", "input": {"cents": 700}},
        ],
        "steers": [{"step": 2, "content": "be quick", "at_ms": 6}],
        "outcome": {"status": "finished", "stop_reason": "final_answer", "final_answer": "Done.", "error": null,
            "used": {"steps": 3, "tool_calls": 2, "tokens": 55}, "denied": [],
            "ledger": [{"tool_name": "find", "input_hash": "sha256:a", "status": "succeeded", "side_effect": "none", "attempts": 1},
                {"tool_name": "refund", "input_hash": "sha256:b", "status": "succeeded", "side_effect": "committed", "attempts": 1}]},
    })
}

const WRITTEN: &str = include_str!("written.yaml");

#[test]
fn a_run_is_written_as_people_write_cases() {
    let written = case_of(export(), Some("quick-refund"), Form::Yaml).expect("a case");
    assert_eq!(written, WRITTEN);
}

#[test]
fn what_was_written_plays_the_same() {
    let exported = from_value(export(), "x").expect("a case");
    for form in [Form::Yaml, Form::Json] {
        let written = case_of(export(), None, form).expect("a case");
        let again = crate::read(&written, form, "x").unwrap_or_else(|fault| panic!("{written}: {fault}"));
        let (Model::Replies(then), Model::Replies(now)) = (&exported.model, &again.model) else {
            panic!("replies")
        };
        for (then, now) in then.iter().zip(now) {
            let said = |what: &What| match what {
                // Ids are the runtime's own business.
                What::Said(said) => {
                    let calls =
                        said.tool_calls.iter().map(|call| (call.name.clone(), call.arguments.clone()));
                    json!([said.text, calls.collect::<Vec<_>>(), said.usage.map(|usage| usage.cached)])
                        .to_string()
                }
                other => format!("{other:?}"),
            };
            assert_eq!((said(&then.what), then.delay), (said(&now.what), now.delay));
        }
        assert_eq!(
            again.expect.map(|expect| json!(expect)),
            exported.expect.clone().map(|expect| json!(expect))
        );
        assert_eq!(json!(again.input), json!("Refund order 7."));
    }
}

fn replies(rows: Value) -> Vec<What> {
    let mut export = export();
    export["model"] = rows;
    let Model::Replies(replies) = from_value(export, "x").expect("a case").model else { panic!("replies") };
    replies.into_iter().map(|reply| reply.what).collect()
}

#[test]
fn what_a_model_did_it_does_again() {
    let said = |kind: &str, text: &str| json!({"kind": kind, "text": text, "tool_calls": [], "finish_reason": "odd", "usage": null});
    let failed = |kind: &str, status: Value, message: &str| json!({"error": {"kind": kind, "status": status, "message": message}});
    let ends = |what: &What| match what {
        What::Said(Said { finish_reason, usage, .. }) => {
            assert_eq!(*usage, None);
            finish_reason.clone().unwrap_or_default()
        }
        What::Http { status, body, .. } => {
            format!("{status} {} {}", body["error"]["message"], body["error"]["code"])
        }
        What::Drop => "cut".to_owned(),
    };
    let rows = [
        (said("final", "x"), ""),
        (said("truncated", "x"), "length"),
        (said("refusal", ""), "content_filter"),
        (said("empty", ""), ""),
        (failed("passing", json!(503), "HTTP 503: busy"), "503 \"busy\" null"),
        (failed("passing", json!(null), "no whole reply within 9 ms"), "cut"),
        (failed("passing", json!(200), "the stream was cut"), "cut"),
        (failed("unusable", json!(401), "HTTP 401"), "401 \"\" null"),
        (
            failed("unusable", json!(null), "an address that may not be called"),
            "404 \"an address that may not be called\" null",
        ),
        (failed("refused", json!(422), "HTTP 422: no"), "422 \"no\" null"),
        (failed("filtered", json!(200), "no"), "400 \"no\" \"content_filter\""),
        (
            failed("context_overflow", json!(413), "HTTP 413: too long"),
            "400 \"HTTP 413: too long\" \"context_length_exceeded\"",
        ),
        (
            failed("cap_over_window", json!(400), "HTTP 400: x"),
            "400 \"max_tokens is too large: it exceeds the maximum\" null",
        ),
    ];
    let again = replies(rows.iter().map(|(row, _)| row.clone()).collect());
    for (what, (row, wanted)) in again.iter().zip(&rows) {
        assert_eq!(ends(what), *wanted, "{row}");
    }
}

#[test]
fn what_a_tool_did_it_does_again() {
    let answer = |outcome: &str, content: &str, code: Value| {
        let row = json!({"tool_name": "t", "input": {}, "outcome": outcome, "content": content, "error_code": code});
        let call: crate::case::RecordedCall = serde_json::from_value(row).expect("a recorded call");
        let answer = call.answer();
        let body = if matches!(answer.body, Body::Repeated(..)) {
            "long".to_owned()
        } else {
            answer.body.render().1
        };
        format!("{}{} {body}", answer.status, if answer.drop { " cut" } else { "" }).trim_end().to_owned()
    };
    for (outcome, content, code, wanted) in [
        ("succeeded", "a red door", json!(null), "200 a red door"),
        ("succeeded", "", json!("OUTPUT_TOO_LARGE"), "200 long"),
        ("refused", "answered 404: no order 7", json!("NOT_FOUND"), "404 no order 7"),
        ("refused", "answered 410", json!("NOT_FOUND"), "410"),
        (
            "refused",
            "answered 302, a redirect, which is not followed",
            json!("UNAVAILABLE"),
            "503 answered 302, a redirect, which is not followed",
        ),
        (
            "refused",
            "the address may not be called",
            json!("PERMISSION_DENIED"),
            "403 the address may not be called",
        ),
        ("not_done", "answered 429: later", json!("RATE_LIMITED"), "429 later"),
        ("not_done", "no connection could be made", json!("UNAVAILABLE"), "503 no connection could be made"),
        ("unclear", "answered 500", json!("UNAVAILABLE"), "500"),
        ("unclear", "no whole answer within 9 ms", json!("TIMEOUT"), "408"),
        ("unclear", "the connection was cut", json!("UNAVAILABLE"), "200 cut"),
        ("submitted", "size M", json!(null), "200 size M"),
        ("submitted", "no such street", json!("NOT_FOUND"), "404 no such street"),
    ] {
        assert_eq!(answer(outcome, content, code), wanted, "{outcome} {content}");
    }
}

#[test]
fn what_can_not_be_repeated_is_told_to_the_reader() {
    let written = |changes: &[(&str, Value)]| {
        let mut export = export();
        for (pointer, value) in changes {
            *export.pointer_mut(pointer).expect(pointer) = value.clone();
        }
        case_of(export, None, Form::Yaml)
    };
    let noted = |changes: &[(&str, Value)]| {
        let text = written(changes).expect("a case");
        text.lines().take_while(|line| line.starts_with('#')).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(noted(&[]), "");
    assert!(noted(&[("/outcome/status", json!("cancelled"))]).contains("was cancelled"));
    assert!(noted(&[("/model/0/step", json!(4))]).contains("stands on another one"));
    assert!(noted(&[("/outcome/stop_reason", json!("max_cost"))]).contains("`prices`"));
    let without =
        written(&[("/model/0/step", json!(4)), ("/input", json!([]))]).expect_err("no input").to_string();
    assert!(without.contains("make a case of that one"), "{without}");
    assert!(noted(&[("/outcome/stop_reason", json!("timeout"))]).contains("ended by time"));
    let expired = [("/decisions/1/by", json!("expiry")), ("/decisions/1/decision", json!(null))];
    assert!(noted(&expired).contains("had expired"));
    let running = written(&[("/outcome/status", json!("running"))]).expect_err("it runs").to_string();
    assert_eq!(running, "outcome: the run had not ended when it was exported");
    let digits: Value = serde_json::from_str("{\"id\": 123456789012345678901}").expect("JSON");
    let fault = written(&[("/tools/0/input", digits)]).expect_err("too long").to_string();
    assert!(fault.contains("write JSON"), "{fault}");
}

#[test]
fn what_came_of_a_run_is_what_is_expected() {
    let expected = |outcome: Value| {
        let mut export = export();
        export["outcome"] = outcome;
        json!(from_value(export, "x").expect("a case").expect)
    };
    let failed = json!({"status": "failed", "stop_reason": "side_effect_uncertain", "final_answer": "Stopped.",
        "error": {"code": "side_effect_uncertain"}, "used": {"steps": 1, "tool_calls": 1}, "denied": [{"tool_name": "drop"}],
        "ledger": [{"tool_name": "pay", "status": "uncertain", "side_effect": "possible"}]});
    assert_eq!(
        expected(failed),
        json!({
            "status": "failed", "stop_reason": "side_effect_uncertain", "error_code": "side_effect_uncertain", "denied": ["drop"],
            "ledger": [{"tool_name": "pay", "status": "uncertain", "side_effect": "possible"}], "uncertain": 1,
            "tools": {"called": ["pay"]}, "steps": 1, "tool_calls": 1,
        })
    );
    let waiting = json!({"status": "waiting_approval", "stop_reason": null, "final_answer": null, "error": null,
        "used": {"steps": 1, "tool_calls": 0}, "denied": [], "ledger": []});
    assert_eq!(
        expected(waiting),
        json!({"status": "waiting_approval", "no_denied_action": true, "steps": 1, "tool_calls": 0})
    );
}
