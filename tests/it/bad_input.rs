//! Whatever comes in: a clear answer, and the server lives on.

use answerable_testkit::ModelReply;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Fits, With, World, seconds_from_now};

const JSON: &str = "application/json";

#[tokio::test]
async fn what_is_wrong_with_a_run_is_named() {
    let world = World::shared().await;
    let good = json!({"agent": world.agent(&[world.read("look")]), "input": "go"});
    let nobody = "00000000-0000-7000-8000-000000000000";
    let table = [
        ("/colour", json!({"colour": "red"})),
        ("/agent/model/colour", json!({"agent": {"model": {"colour": "red"}}})),
        ("/agent/budgets/max_stepps", json!({"agent": {"budgets": {"max_stepps": 3}}})),
        (
            "/agent/policy/rules/0/effekt",
            json!({"agent": {"policy": {"rules": [{"tool": "look", "effekt": "deny"}]}}}),
        ),
        (
            "/agent/tools/0/input_schema/type",
            json!({"agent": {"tools": [world.read("look").with(json!({"input_schema": {"type": 7}}))]}}),
        ),
        ("/agent/tools/1/name", json!({"agent": {"tools": [world.read("look"), world.read("look")]}})),
        (
            "/agent/tools/0/reconcile/tool",
            json!({"agent": {"tools": [world.write("look").with(json!({"reconcile": {"tool": "none"}}))]}}),
        ),
        ("/agent/name", json!({"agent": {"name": ""}})),
        ("/input", json!({"input": 5})),
        ("/input", json!({"input": ""})),
        ("/input", json!({"input": []})),
        ("/input/0/role", json!({"input": [{"role": "wizard", "content": "hi"}]})),
        ("/metadata/n", json!({"metadata": {"n": 5}})),
        ("/context", json!({"context": "u-7"})),
        ("/priority", json!({"priority": 11})),
        ("/priority", json!({"priority": 1.5})),
        ("/deadline", json!({"deadline": "tomorrow"})),
        ("/not_before", json!({"not_before": 7})),
        ("/budgets/max_steps", json!({"budgets": {"max_steps": -1}})),
        ("/concurrency_key", json!({"concurrency_key": ""})),
        ("/thread_id", json!({"thread_id": format!("thr_{nobody}")})),
        ("/thread_id", json!({"thread_id": "nonsense"})),
        ("/on_busy", json!({"on_busy": "sometimes"})),
    ];
    for (pointer, change) in table {
        world.client.post("/v1/runs", &good.clone().with(change)).await.refused_at(pointer);
    }
    let wrong = [
        json!({"input": "go"}),
        json!({"agent": good["agent"]}),
        good.clone().with(json!({"agent_id": format!("agt_{nobody}")})),
        json!({"agent_id": format!("agt_{nobody}"), "input": "go"}),
        good.clone().with(json!({"agent_version": 1})),
        json!([]),
        json!(null),
        json!("go"),
        json!(7),
    ];
    for body in wrong {
        world.client.post("/v1/runs", &body).await.refused(422, "invalid_request");
    }
    world.client.get("/v1/runs").await.fits(&json!({"data": []}));
}

#[tokio::test]
async fn several_faults_are_named_at_once() {
    let world = World::shared().await;
    let body = json!({"agent": world.agent(&[]), "input": 5, "colour": "red", "priority": 99});
    let problem = world.client.post("/v1/runs", &body).await.refused(422, "invalid_request");
    assert!(problem["errors"].as_array().is_some_and(|errors| errors.len() >= 2), "{problem}");
}

#[tokio::test]
async fn what_is_no_json_is_told_so() {
    let world = World::shared().await;
    let table: [(&[u8], u16); 8] = [
        (b"{\"input\": \"go\"", 400),
        (b"{\"input\": NaN}", 400),
        (b"{'input': 'go'}", 400),
        (b"{\"input\": \"go\"} trailing", 400),
        (b"\xff\xfe{\x00}\x00", 400),
        (b"{\"input\": \"\xc3\x28\"}", 400),
        (b"", 400),
        (b"\xef\xbb\xbf{}", 400),
    ];
    for (body, status) in table {
        let answer = world.client.ask(Method::POST, "/v1/runs").raw(JSON, body.to_vec()).await;
        let is_right =
            answer.status == status || (answer.status == 422 && (body.is_empty() || body[0] == 0xef));
        assert!(is_right && answer.body["code"] == "invalid_request", "{answer}");
    }
}

#[tokio::test]
async fn bodies_nested_without_end_are_refused() {
    let world = World::shared().await;
    for opening in ["[", "{\"a\":", "{\"tools\":[", "{\"agent\":{\"context\":["] {
        for path in ["/v1/runs", "/v1/agents"] {
            let answer = world.client.ask(Method::POST, path).raw(JSON, opening.repeat(100_000)).await;
            assert!(matches!(answer.status, 400 | 413 | 422), "{answer}");
        }
    }
    // Whole, but deeper than the document allows.
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let body =
        format!("{{\"agent\": {}, \"input\": \"go\", \"context\": {{\"a\": {deep}}}}}", world.agent(&[]));
    let answer = world.client.ask(Method::POST, "/v1/runs").raw(JSON, body).await;
    assert!(matches!(answer.status, 400 | 422), "{answer}");
    world.model.script("m", [ModelReply::text("It lives.")]);
    world.start(&world.agent(&[])).await.ended().await.fits(&json!({"status": "finished"}));
}

#[tokio::test]
async fn bodies_too_large_are_refused() {
    let world = World::shared().await;
    let body = json!({"agent": world.agent(&[]), "input": "x".repeat(5 << 20)});
    // The server may stop reading and answer before all is sent.
    if let Ok(answer) = world.client.post("/v1/runs", &body).try_send().await {
        answer.refused(413, "payload_too_large");
    }
    let long = json!({"agent": world.agent(&[]), "input": "x".repeat((1 << 20) + 1)});
    world.client.post("/v1/runs", &long).await.refused_at("/input");
    world.client.get("/v1/runs").await.fits(&json!({"data": []}));
}

#[tokio::test]
async fn other_content_types_are_refused() {
    let world = World::shared().await;
    let body = json!({"agent": world.agent(&[]), "input": "go"}).to_string();
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/xml",
        "multipart/form-data",
        "nonsense",
    ] {
        let answer = world.client.ask(Method::POST, "/v1/runs").raw(kind, body.clone()).await;
        answer.refused(415, "unsupported_media_type");
    }
    world.model.script("m", [ModelReply::text("Done.")]);
    let fine = world.client.ask(Method::POST, "/v1/runs").raw("application/json; charset=utf-8", body).await;
    world.run(&fine.is(201)).ended().await;
}

#[tokio::test]
async fn nul_and_lone_surrogates_are_replaced_in_content_and_refused_elsewhere() {
    let world = World::shared().await;
    let agent = world.agent(&[]).to_string();
    let post = |rest: &str| {
        let body = format!("{{\"agent\": {agent}, {rest}}}");
        world.client.ask(Method::POST, "/v1/runs").raw(JSON, body).send()
    };
    for bad in ["\\u0000", "\\ud800", "\\udc00x"] {
        let elsewhere = [
            (format!(r#""input": "go", "metadata": {{"a": "{bad}"}}"#), "/metadata/a"),
            (format!(r#""input": "go", "context": {{"a": ["{bad}"]}}"#), "/context/a/0"),
            (format!(r#""input": "go", "concurrency_key": "a{bad}""#), "/concurrency_key"),
        ];
        for (rest, pointer) in elsewhere {
            post(&rest).await.refused_at(pointer);
        }
        let name = format!(r#"{{"name": "a{bad}"}}"#);
        let answer = world.server.operator().ask(Method::POST, "/v1/tenants").raw(JSON, name).await;
        answer.refused_at("/name");
    }
    world.model.script("m", [ModelReply::text("Read.")]);
    let run = post(r#""input": "a\u0000b\ud800c""#).await.is(201);
    let run = world.run(&run);
    run.ended().await.fits(&json!({"status": "finished"}));
    run.list("messages").await.fits(&json!([{"role": "user", "content": "a\u{fffd}b\u{fffd}c"}, {}]));
}

#[tokio::test]
async fn odd_text_of_the_model_harms_nobody() {
    let world = World::shared().await;
    let call = ModelReply::raw_calls([("look", r#"{"a": "x\u0000y\ud800"}"#.to_owned())]).and_text("a\0b");
    world.model.script("m", [call, ModelReply::text("fine\0")]);
    let run = world.start(&world.agent(&[world.read("look")])).await;
    run.ended().await.fits(&json!({"status": "finished", "final_answer": "fine\u{fffd}"}));
}

#[tokio::test]
async fn paths_methods_and_queries_that_are_not_there() {
    let world = World::shared().await;
    world.client.get("/v1/nothing").await.refused(404, "not_found");
    world.client.get("/").await.refused(404, "not_found");
    world.client.get("/v1/runs/").await.refused(404, "not_found");
    for (method, path) in
        [(Method::PUT, "/v1/runs"), (Method::DELETE, "/v1/approvals"), (Method::PATCH, "/healthz")]
    {
        world.client.ask(method, path).await.refused(405, "method_not_allowed");
    }
    world.client.get("/v1/runs?colour=red").await.refused_at("/query/colour");
    world.client.get("/v1/runs?limit=1&limit=2").await.refused_at("/query/limit");
    world.client.get("/v1/runs?status=happy").await.refused_at("/query/status");
    for path in [
        "/v1/runs/%00",
        "/v1/runs/%ff",
        "/v1/runs/nonsense",
        "/v1/runs/apr_00000000-0000-7000-8000-000000000000",
    ] {
        let answer = world.client.get(path).await;
        assert!(matches!(answer.status, 400 | 404 | 422), "{answer}");
    }
}

#[tokio::test]
async fn a_request_keeps_its_name() {
    let world = World::shared().await;
    let ask = |id: &str| world.client.get("/v1/runs/nonsense").header("x-request-id", id).send();
    let named = ask("order-77.a").await;
    assert_eq!(named.header("x-request-id"), Some("order-77.a"));
    named.refused(404, "not_found").fits(&json!({"request_id": "order-77.a"}));
    let long = "x".repeat(3000);
    for odd in [long.as_str(), "a b", ""] {
        let answer = ask(odd).await;
        assert!(answer.header("x-request-id").is_some_and(|id| id != odd && !id.is_empty()), "{odd}");
    }
}

#[tokio::test]
async fn settings_of_a_tenant_are_checked_too() {
    let world = World::shared().await;
    let chat = json!({"kind": "openai_chat", "base_url": world.model.base_url()});
    let table = [
        ("/v1/providers/other", chat.clone().with(json!({"kind": "magic"})), "/kind"),
        ("/v1/providers/other", chat.clone().with(json!({"base_url": "ftp://models.example"})), "/base_url"),
        (
            "/v1/providers/other",
            chat.clone().with(json!({"base_url": "http://user:secret@models.example/v1"})),
            "/base_url",
        ),
        ("/v1/providers/other", chat.clone().with(json!({"colour": "red"})), "/colour"),
        ("/v1/providers/other", json!({"kind": "openai_chat"}), "/base_url"),
        ("/v1/secrets/shop", json!({"value": 5}), "/value"),
        ("/v1/secrets/shop", json!({}), "/value"),
        ("/v1/policy", json!({"rules": [{"tool": "x", "effect": "maybe"}]}), "/rules/0/effect"),
        ("/v1/policy", json!({"rules": [{"input": {"type": 5}, "effect": "deny"}]}), "/rules/0/input/type"),
    ];
    for (path, body, pointer) in table {
        world.client.put(path, &body).await.refused_at(pointer);
    }
    let operator = world.server.operator();
    let keys = format!("/v1/tenants/{}/keys", world.tenant);
    let bad: [(Value, &str); 3] = [
        (json!({"name": "k", "scopes": ["everything"]}), "/scopes/0"),
        (json!({"name": "k", "scopes": []}), "/scopes"),
        (json!({"name": "k", "scopes": ["admin"], "expires_at": "soon"}), "/expires_at"),
    ];
    for (body, pointer) in bad {
        operator.post(&keys, &body).await.refused_at(pointer);
    }
    let past = json!({"name": "k", "scopes": ["admin"], "expires_at": seconds_from_now(-5.0)});
    let answer = operator.post(&keys, &past).await;
    assert!(matches!(answer.status, 201 | 422), "{answer}");
}
