//! The commands that speak HTTP only, against a server that says what the contract says.

use std::net::SocketAddr;
use std::process::Output;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::process::Command;

/// What the server was asked, in order.
type Seen = Arc<Mutex<Vec<String>>>;

async fn server() -> (SocketAddr, Seen) {
    let seen = Seen::default();
    let routes = Router::new()
        .route("/v1/runs", post(start))
        .route("/v1/runs/{id}", get(show))
        .route("/v1/runs/{id}/events", get(events))
        .route("/v1/approvals", get(approvals))
        .route("/v1/approvals/{id}", get(approval))
        .route("/v1/approvals/{id}/decision", post(decision))
        .with_state(Arc::clone(&seen));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (address, seen)
}

fn note(seen: &Seen, what: String) -> usize {
    let mut seen = seen.lock().expect("not poisoned");
    seen.push(what);
    seen.len()
}

async fn start(State(seen): State<Seen>, headers: HeaderMap, body: Bytes) -> Response {
    let key = headers.get("idempotency-key").map_or("", |key| key.to_str().expect("text"));
    assert_eq!(headers["authorization"], "Bearer secret");
    note(&seen, format!("start {key} {}", String::from_utf8_lossy(&body)));
    (StatusCode::CREATED, Json(json!({"id": "run_1", "status": "queued"}))).into_response()
}

fn event(seq: u64, kind: &str, data: &Value) -> String {
    let event = json!({"id": format!("evt_{seq}"), "seq": seq, "type": kind, "run_id": "run_1", "at": format!("2026-01-02T03:04:05.00{seq}Z"), "data": data});
    format!("id: {seq}\nevent: {kind}\ndata: {event}\n\n")
}

/// Refuses at first, is cut after two events, goes on after the last one seen.
async fn events(State(seen): State<Seen>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    let after = headers["last-event-id"].to_str().expect("text").to_owned();
    let times = note(&seen, format!("events {after}"));
    if id == "run_unknown" {
        let problem = json!({"code": "not_found", "detail": "No such run."});
        return (StatusCode::NOT_FOUND, Json(problem)).into_response();
    }
    match after.as_str() {
        "0" if times < 3 => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        "0" => ["retry: 2000\n\n", &event(1, "run.queued", &json!({})), &event(2, "run.started", &json!({}))]
            .concat()
            .into_response(),
        "2" => [
            event(2, "run.started", &json!({})),
            event(3, "tool.completed", &json!({"tool_call_id": "t", "tool_name": "refund", "status": "succeeded", "duration_ms": 31})),
            event(4, "run.finished", &json!({"status": "finished", "stop_reason": "final_answer"})),
        ]
        .concat()
        .into_response(),
        _ => StatusCode::NO_CONTENT.into_response(),
    }
}

async fn show(Path(id): Path<String>) -> Json<Value> {
    let used = json!({"steps": 1, "tool_calls": 1, "input_tokens": 10, "output_tokens": 2, "elapsed_ms": 40, "cost_microusd": 0});
    let failed = json!({"id": id, "status": "finished", "stop_reason": "final_answer", "final_answer": "Refunded.", "budgets": {"used": used}});
    Json(failed)
}

async fn approvals(uri: Uri) -> Json<Value> {
    let is_of_another = uri.query().is_some_and(|query| query.contains("tool_name=pay"));
    let wanted = "status=pending&run_id=run_1&tool_name=pay&risk=high&order=expires";
    assert!(!is_of_another || uri.query() == Some(wanted), "{uri}");
    let data = if is_of_another { json!([]) } else { json!([example()]) };
    Json(json!({"data": data, "next_cursor": null}))
}

async fn approval() -> Json<Value> {
    Json(example())
}

fn example() -> Value {
    json!({"id": "apr_1", "run_id": "run_1", "kind": "tool_call", "tool_name": "refund", "risk": "high",
        "input": {"order": 12345678901234567890_u64}, "input_hash": "sha256:ab", "status": "pending", "required": 1, "votes": []})
}

async fn decision(State(seen): State<Seen>, headers: HeaderMap, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let by = headers.get("x-acting-user").map_or("", |name| name.to_str().expect("text"));
    note(&seen, format!("{} {} by {by}", body["decision"], body["input_hash"]));
    if body["decision"] == "deny" {
        let problem = json!({"code": "already_decided", "detail": "It was approved."});
        return (StatusCode::CONFLICT, Json(problem)).into_response();
    }
    Json(json!({"id": "apr_1", "status": "approved"})).into_response()
}

async fn answerable(server: SocketAddr, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_answerable"));
    command.args(arguments).env_clear().env("ANSWERABLE_URL", format!("http://{server}"));
    command.env("ANSWERABLE_API_KEY", "secret").output().await.expect("answerable runs")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn run_follows_over_cut_streams_without_gap_or_repeat() {
    let (server, seen) = server().await;
    let arguments = ["run", "--agent", "agt_1", "--metadata", "a=b", "--idempotency-key", "k", "hello"];
    let output = answerable(server, &arguments).await;
    let expected = [
        "   0.000s  run        queued",
        "   0.001s  run        started",
        "   0.002s  tool       refund succeeded in 31 ms",
        "   0.003s  run        finished",
        "finished · 1 step · 1 tool call · 10 + 2 tokens · 40 ms",
        "Refunded.",
    ];
    assert_eq!(stdout(&output).lines().collect::<Vec<_>>(), expected);
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(complaints.lines().count(), 2, "the id, and one word about the absence: {complaints}");
    let seen = seen.lock().expect("not poisoned").clone();
    assert!(seen[0].starts_with("start k {") && seen[0].contains(r#""metadata":{"a":"b"}"#), "{}", seen[0]);
    assert_eq!(seen[1..], ["events 0", "events 0", "events 2"]);
}

#[tokio::test]
async fn json_is_one_object_a_line() {
    let (server, seen) = server().await;
    note(&seen, "up already".to_owned());
    note(&seen, "up already".to_owned());
    let output = answerable(server, &["tail", "run_1", "--json"]).await;
    let lines: Vec<Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 5);
    assert_eq!((&lines[0]["type"], &lines[4]["status"]), (&json!("run.queued"), &json!("finished")));
    let output = answerable(server, &["run", "--agent", "a", "--detach", "x"]).await;
    assert_eq!(stdout(&output), "run_1\n");
}

#[tokio::test]
async fn refusals_are_told_in_one_line() {
    let (server, _seen) = server().await;
    let output = answerable(server, &["tail", "run_unknown"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "answerable: 404 not_found: No such run.\n");
}

#[tokio::test]
async fn approvals_are_listed_and_decided_as_shown() {
    let (server, seen) = server().await;
    let listed = stdout(&answerable(server, &["approve"]).await);
    assert!(listed.starts_with("apr_1  refund: may this call run?\n"), "{listed}");
    assert!(listed.contains(r#"{"order":12345678901234567890}"#), "digits are kept: {listed}");
    let filters = ["deny", "--run", "run_1", "--tool", "pay", "--risk", "high", "--order", "expires"];
    assert_eq!(stdout(&answerable(server, &filters).await), "Nothing waits for a decision.\n");
    let decided =
        stdout(&answerable(server, &["approve", "apr_1", "--as", "ann", "--reason", "checked"]).await);
    assert!(decided.ends_with("    → approved\n"), "{decided}");
    let output = answerable(server, &["deny", "apr_1"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "answerable: 409 already_decided: It was approved.\n"
    );
    let expected = ["\"approve\" \"sha256:ab\" by ann", "\"deny\" \"sha256:ab\" by "];
    assert_eq!(*seen.lock().expect("not poisoned"), expected);
}
