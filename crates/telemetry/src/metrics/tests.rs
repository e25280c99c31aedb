use std::time::Duration;

use answerable_core::run::{ApprovalKind, EventType, Record};
use answerable_core::trace::Span;
use answerable_ports::{Committed, Gauges, Observer as _, Started, Waiting};
use serde_json::{Value, json};

use super::{Metrics, Process};

fn metrics() -> Metrics {
    Metrics::new(None).expect("instruments")
}

fn has(metrics: &Metrics, lines: &[&str]) {
    let text = metrics.text().expect("text");
    for line in lines {
        assert!(text.lines().any(|known| known == *line), "{line} is missing in\n{text}");
    }
}

fn event(kind: EventType, data: Value) -> Record {
    Record::Event { kind, step: None, data }
}

fn span(kind: &str, error: Option<&str>, attributes: Value) -> Span {
    let span = json!({"kind": kind, "id": "00000000000000aa", "began": 1000, "ended": 1500, "error": error,
        "attributes": attributes});
    serde_json::from_value(span).expect("a span")
}

#[test]
fn what_is_committed_is_counted() {
    let metrics = metrics();
    let records = [
        event(EventType::StepStarted, json!({})),
        event(EventType::RunFailed, json!({"status": "failed", "stop_reason": "max_steps"})),
        event(
            EventType::ToolCompleted,
            json!({"status": "failed", "error_code": "TIMEOUT", "duration_ms": 30}),
        ),
        event(EventType::PermissionDecided, json!({"effect": "deny"})),
        event(EventType::ContextSummarized, json!({"version": 1})),
        event(EventType::ContextSummaryFailed, json!({"error": "no", "retry_in_ms": 0})),
        event(EventType::ContextSummaryFailed, json!({"error": "no"})),
    ];
    let started =
        Started { after_accepted: Duration::from_millis(40), after_claimed: Duration::from_millis(4) };
    metrics.committed(&Committed {
        records: &records,
        took: Duration::from_millis(3),
        started: Some(started),
        step_took: Some(Duration::from_millis(700)),
        ..Committed::default()
    });
    metrics.taken_over();
    has(
        &metrics,
        &[
            "answerable_steps_total 1",
            r#"answerable_runs_total{status="failed",stop_reason="max_steps"} 1"#,
            r#"answerable_budget_stops_total{limit="max_steps"} 1"#,
            r#"answerable_budget_stops_total{limit="timeout"} 0"#,
            r#"answerable_context_summaries_total{status="made"} 1"#,
            r#"answerable_context_summaries_total{status="given_up"} 1"#,
            "answerable_model_failures_total 2",
            "answerable_commit_duration_seconds_count 1",
            "answerable_run_accepted_to_start_seconds_sum 0.04",
            "answerable_run_claim_to_start_seconds_sum 0.004",
            "answerable_step_duration_seconds_sum 0.7",
            r#"answerable_tool_duration_seconds_count{error_code="TIMEOUT",status="failed"} 1"#,
            r#"answerable_permission_decisions_total{effect="deny"} 1"#,
            "answerable_lease_takeovers_total 1",
            "answerable_lease_lost_total 0",
        ],
    );
}

#[test]
fn operations_are_told_of_as_the_conventions_say() {
    let metrics = metrics();
    let asked = json!({"gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-x"});
    let mut answered = asked.clone();
    answered["gen_ai.usage.input_tokens"] = json!(100);
    answered["gen_ai.usage.output_tokens"] = json!(5);
    answered["answerable.cost_microusd"] = json!(7);
    let spans = [vec![
        span("model", None, answered),
        span("model", Some("429"), asked),
        span("tool", Some("TIMEOUT"), json!({})),
        span("tool", None, json!({"answerable.tool.executed": false})),
        span("agent", None, json!({})),
        span("checkpoint", None, json!({})),
    ]];
    metrics.committed(&Committed { spans: &spans, ..Committed::default() });
    let name = "gen_ai_client_operation_duration_seconds";
    let chat = r#"gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="gpt-x""#;
    let ours =
        |operation| format!(r#"gen_ai_operation_name="{operation}",gen_ai_provider_name="answerable""#);
    has(
        &metrics,
        &[
            &format!("{name}_sum{{{chat}}} 0.5"),
            &format!(r#"{name}_count{{error_type="429",{chat}}} 1"#),
            &format!(r#"{name}_bucket{{{chat},le="0.32"}} 0"#),
            &format!(r#"{name}_bucket{{{chat},le="0.64"}} 1"#),
            &format!(r#"{name}_count{{error_type="TIMEOUT",{}}} 1"#, ours("execute_tool")),
            &format!("{name}_count{{{}}} 1", ours("invoke_agent")),
            &format!(r#"gen_ai_client_token_usage_sum{{{chat},gen_ai_token_type="input"}} 100"#),
            &format!(r#"gen_ai_client_token_usage_bucket{{{chat},gen_ai_token_type="output",le="16"}} 1"#),
            r#"answerable_model_cost_microusd_total{gen_ai_request_model="gpt-x"} 7"#,
        ],
    );
    let text = metrics.text().expect("text");
    assert!(!text.contains(&format!("{name}_count{{{}}} 1", ours("execute_tool"))), "{text}");
}

#[test]
fn models_without_end_are_no_labels_without_end() {
    let metrics = metrics();
    for number in 0..500 {
        let model = json!({"gen_ai.provider.name": "openai", "gen_ai.request.model": format!("m{number}")});
        let spans = [vec![span("model", None, model)]];
        metrics.committed(&Committed { spans: &spans, ..Committed::default() });
    }
    let text = metrics.text().expect("text");
    let series =
        text.lines().filter(|line| line.starts_with("gen_ai_client_operation_duration_seconds_count"));
    assert_eq!(series.count(), super::operations::MODELS + 1);
    has(
        &metrics,
        &[
            r#"gen_ai_client_operation_duration_seconds_count{gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="other"} 400"#,
        ],
    );
}

#[test]
fn gauges_keep_their_last_value_and_tell_its_age() {
    let metrics = metrics();
    metrics.watch(|| Process { running: 3, connections_in_use: 2, connections: 5 });
    let text = metrics.text().expect("text");
    assert!(!text.contains("answerable_queue_depth"), "nothing was counted yet:\n{text}");
    let waiting = |count, seconds| Waiting { count, longest: Duration::from_secs(seconds) };
    metrics.counted(Gauges {
        queue: waiting(4, 9),
        approvals: [
            (ApprovalKind::ToolCall, waiting(2, 60)),
            (ApprovalKind::UncertainEffect, Waiting::default()),
            (ApprovalKind::Budget, Waiting::default()),
        ],
        uncertain: waiting(1, 30),
        deliveries: waiting(7, 0),
    });
    for _ in 0..2 {
        has(
            &metrics,
            &[
                "answerable_runs_running 3",
                r#"answerable_db_connections{state="idle"} 3"#,
                "answerable_queue_depth 4",
                "answerable_queue_oldest_age_seconds 9",
                r#"answerable_approvals_pending{kind="tool_call"} 2"#,
                r#"answerable_approvals_pending{kind="budget"} 0"#,
                r#"answerable_approvals_oldest_age_seconds{kind="tool_call"} 60"#,
                "answerable_ledger_uncertain 1",
                "answerable_ledger_uncertain_oldest_age_seconds 30",
                "answerable_webhooks_pending 7",
            ],
        );
    }
    let age = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("answerable_gauges_age_seconds "));
        line.and_then(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).expect("an age")
    };
    let before = age(&metrics.text().expect("text"));
    std::thread::sleep(Duration::from_millis(20));
    assert!(age(&metrics.text().expect("text")) >= before + 0.02);
}

#[test]
fn strange_requests_make_no_labels() {
    let metrics = metrics();
    metrics.answered("BREW", "", 404, Duration::from_millis(2));
    metrics.answered("GET", "/v1/runs/{run_id}", 200, Duration::from_millis(2));
    has(
        &metrics,
        &[
            r#"http_server_request_duration_seconds_count{http_request_method="_OTHER",http_response_status_code="404"} 1"#,
            r#"http_server_request_duration_seconds_bucket{http_request_method="GET",http_response_status_code="200",http_route="/v1/runs/{run_id}",le="0.005"} 1"#,
        ],
    );
}
