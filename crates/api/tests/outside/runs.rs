//! Runs as far as they go without an engine: accepted, listed, changed, watched.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use futures::StreamExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::world::{Reply, World};

fn agent() -> Value {
    json!({"name": "desk", "instructions": "Help.", "model": {"provider": "main", "model": "m"},
        "budgets": {"max_steps": 5}, "tools": [{"name": "ask_user", "kind": "client",
            "description": "", "input_schema": {"type": "object"}}]})
}

/// A tenant with a provider.
async fn world() -> World {
    let world = World::start().await;
    let provider = json!({"kind": "scripted", "script": [{"final": "Done."}]});
    assert_eq!(world.tell("PUT", "/v1/providers/main", provider).await.status, 200);
    world
}

fn wanted(more: Value) -> Value {
    let mut body = json!({"agent": agent(), "input": "go"});
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    body
}

async fn start(world: &World, more: Value) -> Reply {
    world.tell("POST", "/v1/runs", wanted(more)).await
}

/// A run that no engine is going to take up, as its path.
async fn queued(world: &World) -> String {
    let made = start(world, json!({})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.header("location").expect("a location").to_owned()
}

#[tokio::test]
async fn an_accepted_run_is_shown_as_it_was_asked_for() {
    let world = world().await;
    let made = start(
        &world,
        json!({"metadata": {"order": "77"}, "budgets": {"max_steps": 2}, "priority": -3, "concurrency_key": "shop",
            "not_before": "2099-01-01T02:00:00+02:00", "input": [{"role": "user", "content": "a\u{0}b"}]}),
    )
    .await;
    assert_eq!(made.status, 201, "{}", made.text);
    let run = &made.body;
    assert_eq!(
        made.header("location"),
        Some(format!("/v1/runs/{}", run["id"].as_str().expect("an id")).as_str())
    );
    assert_eq!(
        (&run["status"], &run["attempt"], &run["agent_id"]),
        (&json!("queued"), &json!(1), &Value::Null)
    );
    assert_eq!((&run["budgets"]["max_steps"], &run["budgets"]["used"]["steps"]), (&json!(2), &json!(0)));
    assert_eq!((&run["not_before"], &run["priority"]), (&json!("2099-01-01T00:00:00.000Z"), &json!(-3)));
    let path = format!("/v1/runs/{}", run["id"].as_str().expect("an id"));
    let messages = world.tell("GET", &format!("{path}/messages"), Value::Null).await;
    assert_eq!(messages.body["data"][0]["content"], "a\u{fffd}b");
    let events = world.tell("GET", &format!("{path}/events"), Value::Null).await;
    assert_eq!(events.body["data"][0]["type"], "run.queued");
    for list in ["steps", "ledger", "approvals", "artifacts", "checkpoints"] {
        let reply = world.tell("GET", &format!("{path}/{list}"), Value::Null).await;
        assert_eq!((reply.status, &reply.body["data"]), (200, &json!([])), "{list}");
    }
    assert_eq!(world.tell("GET", &format!("{path}/steps/1"), Value::Null).await.status, 404);
    for (query, found) in
        [("metadata.order=77&status=queued", 1), ("metadata.order=78", 0), ("agent_id=nonsense", 0)]
    {
        let reply = world.tell("GET", &format!("/v1/runs?{query}"), Value::Null).await;
        assert_eq!(reply.body["data"].as_array().map(Vec::len), Some(found), "{query}");
    }
}

#[tokio::test]
async fn what_can_not_be_a_run_is_refused_at_its_place() {
    let world = world().await;
    let unknown = "00000000-0000-7000-8000-000000000000";
    for (more, pointer) in [
        (json!({"thread_id": format!("thr_{unknown}")}), "/thread_id"),
        (json!({"thread_id": "nonsense"}), "/thread_id"),
        (json!({"agent": null, "agent_id": format!("agt_{unknown}")}), "/agent"),
        (json!({"context": {"name": "a\u{0}"}}), "/context/name"),
        (json!({"context": {"long": "x".repeat(50_000)}}), ""),
        (json!({"budgets": {"max_steps": 0}}), "/budgets/max_steps"),
        (json!({"input": ""}), "/input"),
        (json!({"input": []}), "/input"),
    ] {
        let reply = start(&world, more.clone()).await;
        if pointer.is_empty() {
            assert_eq!(reply.status, 201, "just within the limits");
            continue;
        }
        assert_eq!(reply.status, 422, "{more}: {}", reply.text);
        assert!(reply.pointers().iter().any(|at| at.starts_with(pointer)), "{more}: {:?}", reply.pointers());
    }
    let unknown_provider =
        json!({"agent": {"name": "a", "instructions": "", "model": {"provider": "none", "model": "m"}}});
    assert_eq!(start(&world, unknown_provider).await.pointers(), ["/agent/model/provider"]);
}

#[tokio::test]
async fn a_version_is_pinned_and_an_archived_agent_takes_no_runs() {
    let world = world().await;
    let made = world.tell("POST", "/v1/agents", agent()).await;
    let id = made.body["id"].as_str().expect("an id").to_owned();
    let mut changed = agent();
    changed["instructions"] = json!("Help more.");
    assert_eq!(world.tell("PUT", &format!("/v1/agents/{id}"), changed).await.body["version"], 2);
    let by_id = |version: Value| {
        let mut body = json!({"agent_id": id, "input": "go"});
        if !version.is_null() {
            body["agent_version"] = version;
        }
        body
    };
    for (version, wanted) in [(Value::Null, 2), (json!(1), 1), (json!(2), 2)] {
        let run = world.tell("POST", "/v1/runs", by_id(version)).await;
        assert_eq!((run.status, &run.body["agent_version"]), (201, &json!(wanted)), "{}", run.text);
    }
    assert_eq!(world.tell("POST", "/v1/runs", by_id(json!(9))).await.pointers(), ["/agent_version"]);
    assert_eq!(
        world.tell("GET", &format!("/v1/runs?agent_id={id}"), Value::Null).await.body["data"][2]["agent_id"],
        json!(id)
    );
    assert_eq!(world.tell("DELETE", &format!("/v1/agents/{id}"), Value::Null).await.status, 204);
    assert_eq!(world.tell("POST", "/v1/runs", by_id(Value::Null)).await.pointers(), ["/agent_id"]);
}

#[tokio::test]
async fn the_same_request_again_shows_the_run_as_it_is_now() {
    let world = world().await;
    let key = ("idempotency-key", "order-7");
    let first = world.tell_with(key, "POST", "/v1/runs", wanted(json!({}))).await;
    let path = format!("/v1/runs/{}", first.body["id"].as_str().expect("an id"));
    let words = json!({"metadata": {"seen": "yes"}});
    assert_eq!(world.tell("PATCH", &path, words).await.status, 200);
    let again = world.tell_with(key, "POST", "/v1/runs", wanted(json!({}))).await;
    assert_eq!(
        (again.status, again.header("idempotent-replayed"), again.header("location")),
        (201, Some("true"), Some(&*path))
    );
    assert_eq!((&again.body["id"], &again.body["metadata"]["seen"]), (&first.body["id"], &json!("yes")));
    assert_eq!(
        world.tell_with(key, "POST", "/v1/runs", wanted(json!({"priority": 1}))).await.body["code"],
        "idempotency_conflict"
    );
    assert_eq!(
        world.tell("GET", "/v1/runs", Value::Null).await.body["data"].as_array().map(Vec::len),
        Some(1)
    );
}

#[tokio::test]
async fn limits_are_raised_by_an_admin_alone() {
    let world = world().await;
    let writer = world.new_key(&world.tenant, &["runs:write", "runs:read"]).await;
    let ask = |key: String, steps: i64| {
        let world = &world;
        async move {
            world.ask(&key, "POST", "/v1/runs", wanted(json!({"budgets": {"max_steps": steps}}))).await.status
        }
    };
    assert_eq!(ask(writer.clone(), 6).await, 403);
    assert_eq!(ask(writer.clone(), 4).await, 201);
    assert_eq!(ask(world.key.clone(), 6).await, 201);
    let path = queued(&world).await;
    let patch = json!({"budgets": {"max_steps": 6}});
    assert_eq!(world.ask(&writer, "PATCH", &path, patch.clone()).await.status, 403);
    let changed = world.tell("PATCH", &path, patch).await;
    assert_eq!(changed.body["budgets"]["max_steps"], 6, "it shows at once");
    assert_eq!(world.tell("PATCH", &path, json!({})).await.status, 422);
    assert_eq!(world.tell("PATCH", &path, json!({"status": "finished"})).await.pointers(), ["/status"]);
}

#[tokio::test]
async fn a_live_run_is_told_things() {
    let world = world().await;
    let path = queued(&world).await;
    let said = world.tell("POST", &format!("{path}/messages"), json!({"content": "be \u{0}brief"})).await;
    assert_eq!((said.status, &said.body["seq"], &said.body["step"]), (201, &Value::Null, &Value::Null));
    assert_eq!(said.body["content"], "be \u{fffd}brief");
    let unknown = json!({"tool_call_id": "tc_00000000-0000-7000-8000-000000000000", "status": "succeeded"});
    let refused = world.tell("POST", &format!("{path}/tool_results"), unknown).await;
    assert_eq!((refused.status, refused.pointers()), (422, vec!["/tool_call_id"]));
    for _ in 0..2 {
        assert_eq!(
            world.tell("POST", &format!("{path}/cancel"), json!({"reason": "no more"})).await.status,
            200
        );
    }
    assert_eq!(
        world.tell("POST", &format!("{path}/cancel"), Value::Null).await.status,
        200,
        "a command may say nothing"
    );
    let late = world.tell("POST", &format!("{path}/messages"), json!({"content": "still there?"})).await;
    assert_eq!(late.body["code"], "conflict");
}

#[tokio::test]
async fn a_wait_ends_in_time() {
    let world = world().await;
    let path = queued(&world).await;
    let begun = std::time::Instant::now();
    let waited = world.tell("GET", &format!("{path}/wait?timeout=1"), Value::Null).await;
    assert_eq!((waited.status, &waited.body["status"]), (200, &json!("queued")));
    let made = world.tell_with(("prefer", "wait=1"), "POST", "/v1/runs", wanted(json!({}))).await;
    assert_eq!((made.status, &made.body["status"]), (201, &json!("queued")));
    assert!(begun.elapsed() >= Duration::from_secs(2));
    for odd in ["timeout=61", "timeout=-1", "timeout=soon", "time=1"] {
        assert_eq!(world.tell("GET", &format!("{path}/wait?{odd}"), Value::Null).await.status, 422, "{odd}");
    }
}

#[tokio::test]
async fn new_work_is_refused_while_the_server_goes_down() {
    let world = world().await;
    let path = queued(&world).await;
    world.draining.send_replace(true);
    let refused = start(&world, json!({})).await;
    assert_eq!((refused.status, &refused.body["code"]), (503, &json!("unavailable")));
    assert!(refused.header("retry-after").is_some());
    assert_eq!(world.tell("GET", &path, Value::Null).await.status, 200, "reading goes on");
    let waited = world.tell("GET", &format!("{path}/wait?timeout=30"), Value::Null).await;
    assert_eq!(waited.status, 200, "whoever waits hears at once");
}

/// Opens the stream of a run and reads its frames as they come.
async fn stream(world: &World, path: &str, more: &[(&str, &str)]) -> axum::response::Response {
    let mut request = Request::builder().uri(format!("{path}/events"));
    let bearer = format!("Bearer {}", world.key);
    for (name, value) in
        [("authorization", bearer.as_str()), ("accept", "text/event-stream")].iter().chain(more)
    {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::empty()).expect("a request");
    world.router.clone().oneshot(request).await.expect("an answer")
}

#[tokio::test]
async fn a_stream_says_what_is_stored_and_ends_when_the_server_does() {
    let world = world().await;
    let path = queued(&world).await;
    let response = stream(&world, &path, &[]).await;
    let header =
        |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    assert_eq!(header("content-type").as_deref(), Some("text/event-stream"));
    assert_eq!(header("cache-control").as_deref(), Some("no-cache, no-transform"));
    assert_eq!(header("x-accel-buffering").as_deref(), Some("no"));
    let mut chunks = response.into_body().into_data_stream();
    let mut next = async || {
        chunks.next().await.map(|chunk| String::from_utf8(chunk.expect("a chunk").to_vec()).expect("text"))
    };
    assert_eq!(next().await.as_deref(), Some("retry: 2000\n\n"));
    let frame = next().await.expect("the first event");
    assert!(frame.starts_with("id: 1\nevent: run.queued\ndata: {") && frame.ends_with("}\n\n"), "{frame}");
    world.draining.send_replace(true);
    assert_eq!(next().await, None, "its reader resumes at another server");
}

#[tokio::test]
async fn a_stream_begins_where_its_reader_stopped() {
    let world = world().await;
    let path = queued(&world).await;
    for odd in ["nonsense", "-1", "1.5"] {
        assert_eq!(stream(&world, &path, &[("last-event-id", odd)]).await.status(), 422, "{odd}");
    }
    let response = stream(&world, &path, &[("last-event-id", "1")]).await;
    assert_eq!(response.status(), 200, "the run goes on, so there will be more");
    let mut chunks = response.into_body().into_data_stream();
    chunks.next().await.expect("a chunk").expect("retry");
    let nothing = tokio::time::timeout(Duration::from_millis(300), chunks.next()).await;
    assert!(nothing.is_err(), "what was seen is not said again: {nothing:?}");
    let nowhere = "/v1/runs/run_00000000-0000-7000-8000-000000000000";
    assert_eq!(stream(&world, nowhere, &[]).await.status(), 404);
}

#[tokio::test]
async fn a_link_without_its_token_is_a_strangers() {
    let world = world().await;
    let path = "/v1/approvals/apr_00000000-0000-7000-8000-000000000000/decision";
    let json = [("content-type", "application/json")];
    let form = [("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(world.send("GET", path, &[], "").await.status, 401);
    assert_eq!(world.send("POST", path, &json, r#"{"decision":"approve"}"#).await.status, 401);
    assert_eq!(world.send("POST", &format!("{path}?token=1.x"), &form, "decision=approve").await.status, 404);
    assert_eq!(world.send("GET", &format!("{path}?token=1.x&decision=approve"), &[], "").await.status, 404);
    assert_eq!(world.tell("POST", path, json!({"decision": "approve"})).await.status, 404);
    assert_eq!(world.tell("POST", path, json!({"decision": "perhaps"})).await.pointers(), ["/decision"]);
    assert_eq!(world.tell("POST", path, json!({"decision": "answer"})).await.pointers(), ["/content"]);
}

#[tokio::test]
async fn many_decisions_each_have_a_result() {
    let world = world().await;
    let unknown = "apr_00000000-0000-7000-8000-000000000000";
    let decisions = json!({"decisions": [{"approval_id": unknown, "decision": "approve"},
        {"approval_id": "nonsense", "decision": "deny", "reason": "no"}]});
    let reply = world.tell("POST", "/v1/approvals/decisions", decisions).await;
    let results = reply.body["results"].as_array().expect("results");
    assert_eq!(results.iter().map(|result| &result["status"]).collect::<Vec<_>>(), [404, 404]);
    assert_eq!(results[1]["problem"]["code"], "not_found");
    assert_eq!(
        world.tell("POST", "/v1/approvals/decisions", json!({"decisions": []})).await.pointers(),
        ["/decisions"]
    );
}
