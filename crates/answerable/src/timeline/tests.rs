use serde_json::json;

use super::words::LONGEST_TEXT;
use super::*;

fn event(ms: u32, kind: &str, data: Value) -> Value {
    json!({"type": kind, "run_id": "run_1", "step": 1, "at": format!("2026-01-02T03:04:{:02}.{:03}Z", ms / 1000, ms % 1000), "data": data})
}

fn lines(events: &[Value]) -> Vec<String> {
    let mut timeline = Timeline::new(false);
    events.iter().filter_map(|event| timeline.line(event)).collect()
}

#[test]
fn a_run_is_told_line_by_line() {
    let call = json!({"tool_call_id": "tc_1", "tool_name": "refund"});
    let with = |more: Value| {
        let mut data = call.clone();
        data.as_object_mut().expect("object").extend(more.as_object().expect("object").clone());
        data
    };
    let told = lines(&[
        event(0, "run.queued", json!({})),
        event(
            1,
            "tools.listed",
            json!({"tools": ["a__b", "a__c"], "left_out": [{"tool": "a__d"}], "missing": [{"server": "x"}]}),
        ),
        event(1, "context.summarizing", json!({"covered": 12})),
        event(1, "context.summary_failed", json!({"error": "slow down", "retry_in_ms": 20})),
        event(1, "context.summarized", json!({"input_tokens": 90, "output_tokens": 9})),
        event(1, "context.summary_failed", json!({"error": "empty_reply"})),
        event(1, "step.started", json!({})),
        event(2, "context.built", json!({"tokens": 120, "omitted": [{"message_id": "m"}]})),
        event(3, "model.started", json!({"provider": "main", "model": "m"})),
        event(4, "model.delta", json!({"text": "he"})),
        event(
            5,
            "model.failed",
            json!({"attempt": 1, "status": 429, "error": "slow down", "retry_in_ms": 20}),
        ),
        event(90, "model.completed", json!({"input_tokens": 120, "output_tokens": 8, "cost_microusd": 1234})),
        event(91, "tool.rejected", with(json!({"validation": "schema_violation"}))),
        event(
            92,
            "permission.decided",
            with(json!({"decision": {"effect": "ask", "by": "policy", "reason": "over 50"}})),
        ),
        event(93, "approval.requested", with(json!({"approval_id": "apr_1"}))),
        event(94, "run.waiting", json!({"for": "approval"})),
        event(
            2094,
            "approval.decided",
            with(json!({"approval_id": "apr_1", "status": "approved", "decided_by": "user:ann"})),
        ),
        event(2095, "tool.started", call.clone()),
        event(
            2195,
            "tool.completed",
            with(json!({"status": "uncertain", "error_code": "SIDE_EFFECT_UNCERTAIN"})),
        ),
        event(2196, "tool.reconciled", with(json!({"state": "applied"}))),
        event(2197, "checkpoint.saved", json!({})),
        event(2198, "run.failed", json!({"status": "failed", "stop_reason": "max_steps"})),
    ]);
    assert_eq!(
        told,
        [
            "   0.000s  run        queued",
            "   0.001s  tools      2 listed · 1 left out · without x",
            "   0.001s  context    too long: 12 messages are summed up",
            "   0.001s  context    no summary: slow down · again in 20 ms",
            "   0.001s  context    summed up · 90 + 9 tokens",
            "   0.001s  context    no summary: empty_reply · done without",
            "   0.001s  step       1",
            "   0.002s  context    about 120 tokens · 1 messages left out",
            "   0.003s  model      asks main/m",
            "   0.005s  model      failed, attempt 1 · status 429 · slow down · again in 20 ms",
            "   0.090s  model      replied in 87 ms · 120 + 8 tokens · $0.001234",
            "   0.091s  tool       refund rejected, not run: schema_violation",
            "   0.092s  policy     refund needs a person: over 50",
            "   0.093s  approval   refund waits for a decision, apr_1",
            "   0.094s  run        waits for approval",
            "   2.094s  approval   refund approved by user:ann",
            "   2.095s  tool       refund is called",
            "   2.195s  tool       refund uncertain in 100 ms · SIDE_EFFECT_UNCERTAIN",
            "   2.196s  tool       refund was asked: it happened",
            "   2.197s  checkpoint saved",
            "   2.198s  run        failed: max_steps",
        ]
    );
}

#[test]
fn durations_said_by_the_event_go_before_measured_ones() {
    let told = lines(&[
        event(0, "tool.started", json!({"tool_call_id": "a", "tool_name": "t"})),
        event(
            50,
            "tool.completed",
            json!({"tool_call_id": "a", "tool_name": "t", "attempt": 2, "result": {"status": "succeeded", "duration_ms": 1500}}),
        ),
        event(60, "tool.completed", json!({"tool_call_id": "b", "tool_name": "t", "status": "denied"})),
    ]);
    assert_eq!(told[1], "   0.050s  tool       t succeeded in 1.5 s · 2 attempts");
    assert_eq!(told[2], "   0.060s  tool       t denied");
}

#[test]
fn strange_events_are_shown_and_control_characters_are_not() {
    let told = lines(&[
        json!({"type": "budget.changed"}),
        json!({"type": "model.failed", "data": {"error": "\u{1b}[2Jgone\nsecond line"}}),
        json!({"no": "type"}),
        json!("no object"),
    ]);
    assert_eq!(
        told,
        [
            "   0.000s             budget.changed",
            "   0.000s  model      failed · \u{fffd}[2Jgone second line"
        ]
    );
    assert_eq!(shown(&"é".repeat(500)).chars().count(), LONGEST_TEXT);
}

#[test]
fn the_summary_says_how_it_ended_and_what_it_used() {
    let run = json!({
        "status": "failed", "stop_reason": "permission_denied", "final_answer": "Stopped at step 2.\u{7}",
        "budgets": {"used": {"steps": 2, "tool_calls": 1, "input_tokens": 800, "output_tokens": 113, "elapsed_ms": 65_000, "cost_microusd": 2_000_001}},
        "denied": [{"tool_name": "refund", "reason": "too much"}],
    });
    assert_eq!(
        Timeline::new(false).summary(&run),
        "failed: permission_denied · 2 steps · 1 tool call · 800 + 113 tokens · 1 min 5 s · $2.000001\n\
         Stopped at step 2.\u{fffd}\nrefused: refund: too much"
    );
    let run =
        json!({"status": "finished", "stop_reason": "final_answer", "final_answer": "ok", "budgets": {}});
    assert!(Timeline::new(true).summary(&run).starts_with("\u{1b}[32mfinished"));
}
