//! The judge against good and bad exchanges.

use answerable_testkit::Document;
use serde_json::{Value, json};

const JSON: Option<&str> = Some("application/json");
const PROBLEM: Option<&str> = Some("application/problem+json");

fn faults_of_request(method: &str, path: &str, body: &Value) -> Vec<String> {
    Document::load().judge_request(method, path, body).err().unwrap_or_default()
}

fn faults_of_response(
    method: &str,
    path: &str,
    status: u16,
    kind: Option<&str>,
    body: &Value,
) -> Vec<String> {
    Document::load().judge_response(method, path, status, kind, body).err().unwrap_or_default()
}

fn agent() -> Value {
    json!({
        "name": "desk", "instructions": "Help.", "model": {"provider": "main", "model": "m"},
        "tools": [
            {"name": "pay", "kind": "http", "http": {"url": "http://127.0.0.1:9/pay"}, "side_effect": "write",
             "input_schema": {"type": "object", "properties": {"id": {"const": 1_234_567_890_123_456_789_u64}}}},
            {"name": "ask_user", "kind": "client", "description": "asks"}
        ],
        "policy": {"rules": [{"tool": "p*", "effect": "ask", "input": {"required": ["id"]}}], "default": {"high": "deny"}},
        "budgets": {"max_steps": 3, "max_cost_microusd": null}, "output_schema": null
    })
}

fn run() -> Value {
    json!({
        "id": "run_0197c0de-0000-7000-8000-000000000000", "object": "run", "status": "failed",
        "stop_reason": "max_steps", "final_answer": "Stopped.", "agent_id": null, "agent_version": null,
        "error": {"code": "max_steps", "message": "3 of 3 steps", "step": 3}, "thread_id": null, "attempt": 1,
        "trace_id": "0123456789abcdef0123456789abcdef",
        "budgets": {
            "max_steps": 3, "max_tokens": 1, "max_tool_calls": 0, "timeout_ms": 1, "max_cost_microusd": null,
            "on_exhausted": "stop",
            "used": {"steps": 3, "tokens": 0, "input_tokens": 0, "output_tokens": 0, "tool_calls": 0,
                     "elapsed_ms": 0, "cost_microusd": 0}
        },
        "pending_approvals": [], "pending_tool_calls": [], "denied": [], "uncertain": [],
        "workspace_root": "workspace://wsp_1", "run_dir": "run://run_1", "metadata": {"order": "7"}, "policy": null,
        "created_at": "2026-01-02T03:04:05.678Z", "started_at": "2026-01-02T03:04:05.678Z",
        "finished_at": "2026-01-02T03:04:06.000Z", "something_new": true
    })
}

fn problem(status: u16, code: &str) -> Value {
    json!({"type": format!("/problems/{code}"), "title": "T", "status": status, "code": code, "request_id": "r"})
}

#[test]
fn good_requests_pass() {
    let stored = json!({"agent_id": "agt_1", "agent_version": 2, "input": "go", "metadata": {"order": "7"}});
    let inline = json!({"agent": agent(), "input": [{"role": "user", "content": "hi"}], "deadline": "2026-01-02T03:04:05+01:00"});
    for body in [stored, inline] {
        assert_eq!(faults_of_request("POST", "/v1/runs", &body), Vec::<String>::new());
    }
    assert_eq!(faults_of_request("POST", "/v1/agents", &agent()), Vec::<String>::new());
    assert_eq!(faults_of_request("POST", "/v1/runs/run_1/cancel", &Value::Null), Vec::<String>::new());
    let listing = "/v1/runs?status=queued&limit=200&metadata.order=77&cursor=abc";
    assert_eq!(faults_of_request("GET", listing, &Value::Null), Vec::<String>::new());
    let link = "/v1/approvals/apr_1/decision?token=t";
    assert_eq!(faults_of_request("POST", link, &json!({"decision": "approve"})), Vec::<String>::new());
    let provider = json!({"kind": "scripted", "script": [{"final": "ok"}, {"tool_calls": [{"name": "a", "arguments": {}}]}]});
    assert_eq!(faults_of_request("PUT", "/v1/providers/demo", &provider), Vec::<String>::new());
}

#[test]
fn bad_requests_are_told_where() {
    let told = |method: &str, path: &str, body: Value, at: &str| {
        let faults = faults_of_request(method, path, &body);
        assert!(faults.iter().any(|fault| fault.contains(at)), "{method} {path} {body}: {faults:?}");
    };
    told("POST", "/v1/runs", json!({"agent_id": "a", "input": "go", "colour": "red"}), "colour");
    told("POST", "/v1/runs", json!({"agent_id": "a", "agent": agent(), "input": "go"}), "oneOf");
    told("POST", "/v1/runs", json!({"agent_id": "a", "input": 5}), "/input");
    told("POST", "/v1/runs", json!({"agent_id": "a", "input": "go", "priority": 11}), "/priority");
    told("POST", "/v1/runs", json!({"agent_id": "a", "input": "go", "deadline": "tomorrow"}), "/deadline");
    told("POST", "/v1/runs", json!({"agent_id": "a", "input": "go", "metadata": {"n": 5}}), "/metadata");
    told("POST", "/v1/runs", Value::Null, "/");
    told("POST", "/v1/approvals/apr_1/decision", json!({"decision": "perhaps"}), "/decision");
    told("PUT", "/v1/providers/main", json!({"kind": "openai_chat"}), "base_url");
    told("GET", "/v1/runs?limit=0", Value::Null, "/query/limit");
    told("GET", "/v1/runs?limit=many", Value::Null, "/query/limit");
    told("GET", "/v1/runs?satus=queued", Value::Null, "/query/satus");
    told("GET", "/v1/nothing", Value::Null, "not in the document");
    let mut odd = agent();
    odd["tools"][0]["name"] = "look around!".into();
    told("POST", "/v1/agents", odd, "/tools/0");
}

#[test]
fn good_answers_pass() {
    let good = [
        ("GET", "/v1/runs/run_1", 200, JSON, run()),
        ("POST", "/v1/runs", 201, Some("application/json; charset=utf-8"), run()),
        ("GET", "/v1/runs?limit=1", 200, JSON, json!({"data": [run()], "next_cursor": "abc"})),
        ("DELETE", "/v1/threads/thr_1", 204, None, Value::Null),
        ("GET", "/v1/runs/run_1", 404, PROBLEM, problem(404, "not_found")),
        ("GET", "/v1/nothing", 404, PROBLEM, problem(404, "not_found")),
        ("PUT", "/v1/runs", 405, PROBLEM, problem(405, "method_not_allowed")),
        ("GET", "/v1/runs/run_1/events", 200, Some("text/event-stream"), Value::Null),
        ("GET", "/v1/artifacts/art_1/content", 200, Some("image/png"), Value::Null),
        ("GET", "/metrics", 200, Some("text/plain; version=0.0.4"), Value::Null),
    ];
    for (method, path, status, kind, body) in good {
        assert_eq!(
            faults_of_response(method, path, status, kind, &body),
            Vec::<String>::new(),
            "{method} {path}"
        );
    }
}

#[test]
fn bad_answers_are_told_where() {
    let told = |method: &str, path: &str, status: u16, kind: Option<&str>, body: Value, at: &str| {
        let faults = faults_of_response(method, path, status, kind, &body);
        assert!(faults.iter().any(|fault| fault.contains(at)), "{method} {path} {status}: {faults:?}");
    };
    let with = |name: &str, value: Value| {
        let mut run = run();
        run[name] = value;
        run
    };
    told("GET", "/v1/runs/run_1", 200, JSON, with("status", "done".into()), "/status");
    told("GET", "/v1/runs/run_1", 200, JSON, with("stop_reason", "tired".into()), "/stop_reason");
    told("GET", "/v1/runs/run_1", 200, JSON, with("id", "apr_1".into()), "/id");
    told(
        "GET",
        "/v1/runs/run_1",
        200,
        JSON,
        with("created_at", "2026-01-02T03:04:05+01:00".into()),
        "/created_at",
    );
    told("GET", "/v1/runs/run_1", 200, JSON, with("created_at", "yesterday Z".into()), "/created_at");
    told("GET", "/v1/runs/run_1", 200, JSON, json!({"id": "run_1"}), "trace_id");
    told("GET", "/v1/runs/run_1", 200, Some("text/html"), run(), "text/html");
    told("GET", "/v1/runs/run_1", 418, PROBLEM, problem(418, "conflict"), "does not answer 418");
    told("GET", "/v1/runs/run_1", 404, PROBLEM, problem(404, "conflict"), "/code");
    told("GET", "/v1/runs/run_1", 404, PROBLEM, problem(410, "not_found"), "status");
    told("GET", "/v1/runs/run_1", 404, JSON, problem(404, "not_found"), "application/json");
    told("DELETE", "/v1/threads/thr_1", 204, JSON, json!({}), "no body");
    told("GET", "/v1/nothing", 200, JSON, json!({}), "not in the document");
}

#[test]
fn headers_are_judged() {
    let document = Document::load();
    let some = |names: &'static [&'static str]| move |name: &str| names.contains(&name).then_some("x");
    let made = ("POST", "/v1/runs", 201);
    let judge = |names| document.judge_headers(made.0, made.1, made.2, some(names));
    assert_eq!(judge(&["X-Request-Id", "Location"]), Ok(()));
    assert_eq!(judge(&["X-Request-Id"]), Err(vec!["POST /v1/runs answered 201 without Location".to_owned()]));
    let late = document.judge_headers("GET", "/v1/runs", 503, some(&["X-Request-Id"]));
    assert_eq!(late, Err(vec!["GET /v1/runs answered 503 without Retry-After".to_owned()]));
}

#[test]
fn literal_segments_go_before_parameters() {
    let bulk = json!({"decisions": [{"approval_id": "apr_1", "decision": "approve"}]});
    assert_eq!(faults_of_request("POST", "/v1/approvals/decisions", &bulk), Vec::<String>::new());
}

#[test]
fn every_schema_of_the_document_can_be_built() {
    let document = Document::load();
    for name in document.root()["components"]["schemas"].as_object().expect("schemas").keys() {
        assert_eq!(document.can_judge(name), Ok(()), "{name}");
    }
}

#[test]
fn the_examples_of_the_document_are_good() {
    let document = Document::load();
    let mut examples = 0;
    for (name, schema) in document.root()["components"]["schemas"].as_object().expect("schemas") {
        if let Some(example) = schema.get("example") {
            assert_eq!(document.judge_value(name, example), Ok(()), "{name}");
            examples += 1;
        }
    }
    assert!(examples > 3);
}
