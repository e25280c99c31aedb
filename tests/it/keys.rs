//! Who may do what.

use answerable_testkit::{Document, ModelReply};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Fits, With, World, seconds_from_now, until};

#[tokio::test]
async fn without_a_key_nothing_but_the_servers_own_pages_answers() {
    let world = World::shared().await;
    let stranger = world.server.stranger();
    for (method, template) in Document::load().operations() {
        if !template.starts_with("/v1/") {
            continue;
        }
        let path = template.replace("{number}", "1").replace(['{', '}'], "");
        let method: Method = method.parse().expect("a method");
        for client in
            [&stranger, &world.client.with_key("not-a-key"), &world.client.with_key(&"x".repeat(5000))]
        {
            let answer = client.ask(method.clone(), &path).await;
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{answer}");
            answer.refused(401, "unauthorized");
        }
    }
}

#[tokio::test]
async fn a_key_does_what_its_scopes_say() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("Paid.")]);
    let agent = world.agent(&[world.write("pay").with(json!({"risk": "high"}))]);
    let run = world.start(&agent).await;
    let approval = run.pending().await;
    let requests: [(&str, Method, String, Value); 6] = [
        ("runs:read", Method::GET, run.path(""), Value::Null),
        ("runs:write", Method::POST, run.path("/messages"), json!({"content": "be brief"})),
        ("agents:write", Method::POST, "/v1/agents".to_owned(), agent.clone()),
        ("admin", Method::PUT, "/v1/secrets/shop".to_owned(), json!({"value": "s-1"})),
        ("admin", Method::GET, "/v1/webhooks".to_owned(), Value::Null),
        (
            "approvals:decide",
            Method::POST,
            format!("/v1/approvals/{approval}/decision"),
            json!({"decision": "approve"}),
        ),
    ];
    for scope in ["runs:read", "runs:write", "agents:write", "approvals:decide"] {
        let client = world.key(&[scope]).await;
        for (needed, method, path, body) in &requests {
            let ask = client.ask(method.clone(), path);
            let ask = if body.is_null() { ask } else { ask.json(body) };
            if scope == *needed {
                ask.await.ok();
            } else {
                ask.await.refused(403, "forbidden");
            }
        }
    }
    run.ended().await.fits(&json!({"status": "finished"}));
}

#[tokio::test]
async fn the_operators_key_and_tenants_keys_do_not_mix() {
    let world = World::shared().await;
    for (client, path) in [(world.server.operator(), "/v1/runs"), (world.client.clone(), "/v1/tenants")] {
        let answer = client.get(path).await;
        assert!(matches!(answer.status, 401 | 403), "{answer}");
    }
    let path = format!("/v1/tenants/{}", world.tenant);
    let operator = world.server.operator();
    operator.get(&path).await.fits(&json!({"id": world.tenant, "object": "tenant"}));
    operator.patch(&path, &json!({"quotas": {"weight": 3}})).await.fits(&json!({"quotas": {"weight": 3}}));
    operator.get("/v1/tenants/ten_00000000-0000-7000-8000-000000000000").await.refused(404, "not_found");
}

#[tokio::test]
async fn keys_are_revoked_and_expire() {
    let world = World::shared().await;
    let operator = world.server.operator();
    let keys = format!("/v1/tenants/{}/keys", world.tenant);
    let body =
        |expires_at: Value| json!({"name": "short", "scopes": ["runs:read"], "expires_at": expires_at});
    let made = operator.post(&keys, &body(Value::Null)).await.is(201);
    let client = world.client.with_key(made["secret"].as_str().expect("a secret"));
    client.get("/v1/runs").await.ok();
    let list =
        operator.get(&keys).await.fits(&json!({"data": {"$any": [{"id": made["id"], "name": "short"}]}}));
    assert!(!list.to_string().contains(made["secret"].as_str().expect("a secret")), "a secret is shown once");
    operator.delete(&format!("{keys}/{}", made["id"].as_str().expect("an id"))).await.is(204);
    client.get("/v1/runs").await.refused(401, "unauthorized");
    let made = operator.post(&keys, &body(seconds_from_now(3600.0).into())).await.is(201);
    let client = world.client.with_key(made["secret"].as_str().expect("a secret"));
    client.get("/v1/runs").await.ok();
    // The hour is over. No server is told of that, so it shows when they look again.
    let over = "UPDATE api_keys SET expires_at = now() WHERE key_id = $1 RETURNING true";
    let key = made["id"].as_str().expect("an id").trim_start_matches("key_");
    assert_eq!(world.sql::<bool>(over, key).await, Some(true));
    until("the key is over", async || client.get("/v1/runs").await.status != 200).await;
    client.get("/v1/runs").await.refused(401, "unauthorized");
}

#[tokio::test]
async fn a_removed_tenant_is_gone_with_its_keys() {
    let world = World::shared().await;
    let (tenant, client) = world.neighbour(&json!({})).await;
    world.model.script("m", [ModelReply::text("Done.")]);
    let run = client.post("/v1/runs", &json!({"agent": world.agent(&[]), "input": "go"})).await.is(201);
    world.run(&run).through(&client).when("the end", |run| run["status"] == "finished").await;
    let operator = world.server.operator();
    operator.delete(&format!("/v1/tenants/{tenant}")).await.is(204);
    client.get("/v1/runs").await.refused(401, "unauthorized");
    operator.get(&format!("/v1/tenants/{tenant}")).await.refused(404, "not_found");
    let left = "SELECT count(*) FROM events WHERE run_id = $1";
    assert_eq!(world.sql::<i64>(left, run["id"].as_str().expect("an id")).await, Some(0));
}
