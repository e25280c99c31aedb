//! Settings, keys and ground rules, asked over HTTP's own types.

use crate::world::{OPERATOR, World};
use serde_json::{Value, json};

fn agent(instructions: &str) -> Value {
    json!({"name": "desk", "instructions": instructions, "model": {"provider": "main", "model": "m"},
        "tools": [{"name": "look", "http": {"url": "https://shop.example/{{input.id}}"}}]})
}

fn provider() -> Value {
    json!({"kind": "openai_chat", "base_url": "https://models.example/v1", "api_key": "canary-key",
        "headers": {"X-Team": "canary-header"}, "prices": {"m": {"input_microusd_per_mtok": 3}}})
}

#[tokio::test]
async fn what_is_asked_without_the_right_key() {
    let world = World::start().await;
    let list = async |headers: &[(&str, &str)]| world.send("GET", "/v1/threads", headers, "").await;
    let long = format!("Bearer {}", "k".repeat(5000));
    for value in
        ["Basic YTpi", "Bearer ", "Bearer", long.as_str(), "Bearer ans_00000000000000000000000000000000_x"]
    {
        let reply = list(&[("authorization", value)]).await;
        assert_eq!((reply.status, reply.header("www-authenticate")), (401, Some("Bearer")), "{value}");
    }
    assert_eq!(list(&[]).await.status, 401);
    // A key whose secret is another's.
    let mut wrong = world.key.clone();
    wrong.replace_range(wrong.len() - 5..wrong.len() - 1, "AAAA");
    assert_eq!(world.ask(&wrong, "GET", "/v1/threads", Value::Null).await.status, 401);
    assert_eq!(world.ask(OPERATOR, "GET", "/v1/threads", Value::Null).await.status, 401);
    assert_eq!(world.tell("GET", "/v1/tenants", Value::Null).await.status, 403);
    let reader = world.new_key(&world.tenant, &["runs:read"]).await;
    assert_eq!(world.ask(&reader, "GET", "/v1/threads", Value::Null).await.status, 200);
    for (method, path, body) in [
        ("POST", "/v1/threads", json!({})),
        ("POST", "/v1/agents", agent("x")),
        ("PUT", "/v1/secrets/shop", json!({"value": "x"})),
        ("GET", "/v1/webhooks", Value::Null),
        // What the key may not do goes before what is wrong with the body.
        ("PUT", "/v1/policy", json!([])),
    ] {
        assert_eq!(world.ask(&reader, method, path, body).await.status, 403, "{method} {path}");
    }
}

#[tokio::test]
async fn keys_end() {
    let world = World::start().await;
    let keys = format!("/v1/tenants/{}/keys", world.tenant);
    let past = json!({"name": "old", "scopes": ["runs:read"], "expires_at": "2020-01-02T03:04:05+01:00"});
    let made = world.ask(OPERATOR, "POST", &keys, past).await;
    assert_eq!(made.body["expires_at"], "2020-01-02T02:04:05.000Z");
    let secret = made.body["secret"].as_str().expect("a secret");
    assert_eq!(world.ask(secret, "GET", "/v1/threads", Value::Null).await.status, 401);

    let made = world.ask(OPERATOR, "POST", &keys, json!({"name": "lost", "scopes": ["admin"]})).await;
    let (secret, id) =
        (made.body["secret"].as_str().expect("a secret"), made.body["id"].as_str().expect("an id"));
    assert_eq!(world.ask(secret, "GET", "/v1/threads", Value::Null).await.status, 200);
    let listed = world.ask(OPERATOR, "GET", &keys, Value::Null).await;
    assert!(listed.text.contains(id) && !listed.text.contains(secret));
    assert_eq!(world.ask(OPERATOR, "DELETE", &format!("{keys}/{id}"), Value::Null).await.status, 204);
    assert_eq!(world.ask(secret, "GET", "/v1/threads", Value::Null).await.status, 401);
    assert!(!world.ask(OPERATOR, "GET", &keys, Value::Null).await.text.contains(id));

    let tenant = format!("/v1/tenants/{}", world.tenant);
    assert_eq!(world.ask(OPERATOR, "DELETE", &tenant, Value::Null).await.status, 204);
    assert_eq!(world.tell("GET", "/v1/threads", Value::Null).await.status, 401);
    assert_eq!(world.ask(OPERATOR, "GET", &tenant, Value::Null).await.status, 404);
    assert_eq!(
        world.ask(OPERATOR, "POST", &keys, json!({"name": "n", "scopes": ["admin"]})).await.status,
        404
    );
}

#[tokio::test]
async fn tenants_and_quotas() {
    let world = World::start().await;
    let odd = world.ask(OPERATOR, "POST", "/v1/tenants", json!({"name": "odd", "color": "red"})).await;
    assert_eq!((odd.status, odd.pointers()), (422, vec!["/color"]));
    let two = json!({"name": "odd", "quotas": {"max_concurrent_runs": "two"}});
    assert_eq!(
        world.ask(OPERATOR, "POST", "/v1/tenants", two).await.pointers(),
        ["/quotas/max_concurrent_runs"]
    );
    let (tenant, key) =
        world.new_tenant(json!({"max_requests_per_minute": 2, "max_queued_runs": null})).await;
    let path = format!("/v1/tenants/{tenant}");
    let shown = world.ask(OPERATOR, "GET", &path, Value::Null).await;
    assert_eq!(shown.body["quotas"], json!({"max_requests_per_minute": 2}));
    for wanted in [200, 200, 429] {
        assert_eq!(world.ask(&key, "GET", "/v1/threads", Value::Null).await.status, wanted);
    }
    assert_eq!(world.tell("GET", "/v1/threads", Value::Null).await.status, 200);
    let lifted =
        world.ask(OPERATOR, "PATCH", &path, json!({"quotas": {"max_requests_per_minute": null}})).await;
    assert_eq!(lifted.body["quotas"], json!({}));
    assert_eq!(world.ask(&key, "GET", "/v1/threads", Value::Null).await.status, 200);
    assert_eq!(world.ask(OPERATOR, "PATCH", &path, json!({})).await.status, 422);
}

#[tokio::test]
async fn what_is_the_operators_counts_for_the_tenant_that_asks() {
    let world = World::start().await;
    let (tenant, key) = world.new_tenant(json!({"max_requests_per_minute": 2})).await;
    let path = format!("/v1/tenants/{tenant}");
    for (wanted, left) in [(403, "1"), (403, "0"), (429, "0")] {
        let reply = world.ask(&key, "GET", &path, Value::Null).await;
        assert_eq!((reply.status, reply.header("ratelimit-remaining")), (wanted, Some(left)));
    }
    assert_eq!(world.ask(&key, "GET", "/v1/threads", Value::Null).await.status, 429);
    assert_eq!(world.ask(OPERATOR, "GET", &path, Value::Null).await.header("ratelimit-remaining"), None);
}

#[tokio::test]
async fn bodies_that_are_none() {
    let world = World::start().await;
    let bearer = format!("Bearer {}", world.key);
    let post = async |kind: &str, body: String| {
        world.send("POST", "/v1/agents", &[("authorization", &bearer), ("content-type", kind)], body).await
    };
    let nested = "{\"a\":".repeat(100_000);
    for (kind, body, wanted) in [
        ("application/json", "{\"name\": \"go\"".to_owned(), 400),
        ("application/json", String::new(), 400),
        ("application/json", "{\"name\": NaN}".to_owned(), 400),
        ("application/json", "[]".to_owned(), 422),
        ("application/json", "null".to_owned(), 422),
        ("text/plain", "{}".to_owned(), 415),
        ("application/json", nested, 413),
        ("application/json", "[".repeat(20_000), 400),
        ("application/json", "{\"tools\":[".repeat(2_000), 400),
        ("application/json", "x".repeat(70_000), 413),
    ] {
        let reply = post(kind, body.clone()).await;
        assert_eq!(reply.status, wanted, "{:.40}", body);
    }
    let unfit = post("application/json", "{\"name\": \"a\\u0000\"}".into()).await;
    assert_eq!((unfit.status, unfit.pointers()), (422, vec!["/name"]));
    let optional = world.send("POST", "/v1/threads", &[("authorization", &bearer)], "").await;
    assert_eq!(optional.status, 201);
}

#[tokio::test]
async fn paths_methods_names_and_queries() {
    let world = World::start().await;
    assert_eq!(world.tell("GET", "/v1/nothing", Value::Null).await.body["code"], "not_found");
    assert_eq!(world.tell("PUT", "/v1/threads", json!({})).await.status, 405);
    for path in
        ["/v1/threads/nonsense", "/v1/threads/%00", "/v1/threads/%ff", "/v1/secrets/%00", "/v1/secrets/none"]
    {
        assert_eq!(world.tell("GET", path, Value::Null).await.status, 404, "{path}");
    }
    assert_eq!(
        world.tell("PUT", "/v1/secrets/a%20b", json!({"value": "x"})).await.pointers(),
        ["/path/name"]
    );
    for (query, pointer) in [
        ("limit=0", "/query/limit"),
        ("limit=201", "/query/limit"),
        ("limit=many", "/query/limit"),
        ("cursor=none-of-yours", "/query/cursor"),
        ("colour=red", "/query/colour"),
        ("limit=1&limit=1", "/query/limit"),
    ] {
        let reply = world.tell("GET", &format!("/v1/threads?{query}"), Value::Null).await;
        assert_eq!((reply.status, reply.pointers()), (422, vec![pointer]), "{query}");
    }
    let named = world.tell_with(("x-request-id", "order-78"), "GET", "/v1/threads/x", Value::Null).await;
    assert_eq!(
        (named.header("x-request-id"), named.body["request_id"].as_str()),
        (Some("order-78"), Some("order-78"))
    );
    let long = "x".repeat(3000);
    let unnamed = world.tell_with(("x-request-id", &long), "GET", "/v1/threads/x", Value::Null).await;
    assert_ne!(unnamed.header("x-request-id"), Some(long.as_str()));
}

#[tokio::test]
async fn the_same_request_twice_is_one_thing() {
    let world = World::start().await;
    world.tell("PUT", "/v1/providers/main", provider()).await;
    let key = ("idempotency-key", "one");
    for (path, body) in [
        ("/v1/threads", json!({"metadata": {"a": "1"}})),
        ("/v1/agents", agent("x")),
        ("/v1/webhooks", json!({"url": "https://a.example/", "events": ["run.failed"]})),
    ] {
        let first = world.tell_with(key, "POST", path, body.clone()).await;
        assert_eq!(
            (first.status, first.header("idempotent-replayed")),
            (201, None),
            "{path}: {}",
            first.text
        );
        let again = world.tell_with(key, "POST", path, body).await;
        assert_eq!((again.status, again.header("idempotent-replayed")), (201, Some("true")));
        assert_eq!((&again.body, again.header("location")), (&first.body, first.header("location")));
        assert_eq!(world.tell("GET", path, Value::Null).await.body["data"].as_array().map(Vec::len), Some(1));
    }
    let other = world.tell_with(key, "POST", "/v1/threads", json!({"metadata": {"a": "2"}})).await;
    assert_eq!((other.status, other.body["code"].as_str()), (422, Some("idempotency_conflict")));
    for odd in ["k".repeat(256), String::new()] {
        let reply = world.tell_with(("idempotency-key", &odd), "POST", "/v1/threads", json!({})).await;
        assert_eq!(reply.pointers(), ["/header/idempotency-key"]);
    }
    // A refused request uses no key up.
    let refused =
        world.tell_with(("idempotency-key", "two"), "POST", "/v1/agents", json!({"name": ""})).await;
    assert_eq!(refused.status, 422);
    let mended = world.tell_with(("idempotency-key", "two"), "POST", "/v1/agents", agent("y")).await;
    assert_eq!((mended.status, mended.header("idempotent-replayed")), (201, None));
}

#[tokio::test]
async fn many_at_once_with_one_key() {
    let world = World::start().await;
    let key = ("idempotency-key", "burst");
    let ask = || world.tell_with(key, "POST", "/v1/threads", json!({}));
    let replies = futures::future::join_all((0..24).map(|_| ask())).await;
    let first = replies.iter().filter(|reply| reply.header("idempotent-replayed").is_none()).count();
    assert!(replies.iter().all(|reply| reply.status == 201 && reply.body["id"] == replies[0].body["id"]));
    assert_eq!(first, 1);
}

#[tokio::test]
async fn agents_and_their_versions() {
    let world = World::start().await;
    let unknown = world.tell("POST", "/v1/agents", agent("first")).await;
    assert_eq!((unknown.status, unknown.pointers()), (422, vec!["/model/provider"]));
    world.tell("PUT", "/v1/providers/main", provider()).await;
    let made = world.tell("POST", "/v1/agents", agent("first")).await;
    assert_eq!((made.status, made.body["version"].as_i64()), (201, Some(1)), "{}", made.text);
    let path = made.header("location").expect("a location").to_owned();
    assert_eq!(world.tell("PUT", &path, agent("second")).await.body["version"], 2);
    assert_eq!(world.tell("GET", &path, Value::Null).await.body["instructions"], "second");
    let first = world.tell("GET", &format!("{path}?version=1"), Value::Null).await;
    assert_eq!(first.body["instructions"], "first");
    assert_eq!(world.tell("GET", &format!("{path}?version=9"), Value::Null).await.status, 404);
    assert_eq!(world.tell("GET", &format!("{path}?version=0"), Value::Null).await.status, 422);
    let page = world.tell("GET", &format!("{path}/versions?limit=1"), Value::Null).await;
    let cursor = page.body["next_cursor"].as_str().expect("a cursor");
    let rest = world.tell("GET", &format!("{path}/versions?cursor={cursor}"), Value::Null).await;
    assert_eq!((&rest.body["data"][0]["version"], &rest.body["next_cursor"]), (&json!(2), &Value::Null));
    assert_eq!(world.tell("DELETE", &path, Value::Null).await.status, 204);
    assert_eq!(world.tell("DELETE", &path, Value::Null).await.status, 204);
    assert_eq!(world.tell("PUT", &path, agent("third")).await.status, 409);
    assert!(world.tell("GET", &path, Value::Null).await.body["archived_at"].is_string());
    let inside = json!([{"name": "look", "http": {"url": "http://10.0.0.1/"}}]);
    let mut refused = agent("x");
    refused["tools"] = inside;
    assert_eq!(world.tell("POST", "/v1/agents", refused).await.pointers(), ["/tools/0/http/url"]);
    let (_, stranger) = world.new_tenant(json!({})).await;
    assert_eq!(world.ask(&stranger, "GET", &path, Value::Null).await.status, 404);
    assert_eq!(world.ask(&stranger, "PUT", &path, agent("x")).await.status, 404);
}

#[tokio::test]
async fn what_an_author_writes_out_of_a_secret_is_hidden_and_never_stored_as_that() {
    let world = World::start().await;
    world.tell("PUT", "/v1/providers/main", provider()).await;
    let mut spec = agent("x");
    let headers = json!({"authorization": "Bearer canary-1", "x-shop": "s1", "x-api-key": "{{secret.shop}}"});
    spec["tools"] = json!([{"name": "look", "http": {"url": "https://shop.example/?token=canary-2", "headers": headers}}]);
    let made = world.tell("POST", "/v1/agents", spec).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let path = made.header("location").expect("a location").to_owned();
    let shown = world.tell("GET", &path, Value::Null).await;
    for answer in [&made, &shown, &world.tell("GET", &format!("{path}/versions"), Value::Null).await] {
        assert!(!answer.text.contains("canary"), "{}", answer.text);
    }
    let http = &shown.body["tools"][0]["http"];
    assert_eq!(
        http["headers"],
        json!({"authorization": "[redacted]", "x-shop": "s1", "x-api-key": "{{secret.shop}}"})
    );
    let mut again = agent("x");
    again["tools"] = shown.body["tools"].clone();
    let refused = world.tell("PUT", &path, again).await;
    assert_eq!(refused.pointers(), ["/tools/0/http/headers/authorization", "/tools/0/http/url"]);
}

#[tokio::test]
async fn what_is_secret_is_never_shown() {
    let world = World::start().await;
    let secret = json!({"value": "canary-value"});
    let noted = json!({"value": "canary-value", "note": "canary-value"});
    let replies = [
        world.tell("PUT", "/v1/secrets/shop", secret).await,
        world.tell("GET", "/v1/secrets/shop", Value::Null).await,
        world.tell("GET", "/v1/secrets", Value::Null).await,
        world.tell("PUT", "/v1/secrets/shop", noted).await,
        world.tell("PUT", "/v1/secrets/shop", json!({"value": ["canary-value"]})).await,
        world.tell("PUT", "/v1/providers/main", provider()).await,
        world.tell("GET", "/v1/providers/main", Value::Null).await,
        world.tell("GET", "/v1/providers", Value::Null).await,
    ];
    for reply in &replies {
        assert!(!reply.text.contains("canary"), "{}", reply.text);
    }
    assert_eq!(replies.map(|reply| reply.status), [200, 200, 200, 422, 422, 200, 200, 200]);
    let shown = world.tell("GET", "/v1/providers/main", Value::Null).await;
    assert_eq!((&shown.body["api_key"], &shown.body["headers"]), (&json!("***"), &json!({"x-team": "***"})));
    assert_eq!(world.tell("DELETE", "/v1/secrets/shop", Value::Null).await.status, 204);
    assert_eq!(world.tell("GET", "/v1/secrets/shop", Value::Null).await.status, 404);
    for (body, pointer) in [
        (json!({"kind": "telepathy", "base_url": "https://a.example"}), "/kind"),
        (json!({"kind": "openai_chat", "base_url": "http://10.0.0.1/v1"}), "/base_url"),
        (json!({"kind": "openai_chat"}), "/base_url"),
        (json!({"kind": "scripted"}), "/script"),
    ] {
        assert_eq!(world.tell("PUT", "/v1/providers/odd", body).await.pointers(), [pointer]);
    }
    let script = json!({"kind": "scripted", "script": [{"final": "x"}]});
    assert_eq!(world.tell("PUT", "/v1/providers/demo", script).await.body["base_url"], Value::Null);
}

#[tokio::test]
async fn policy_and_signing_secret() {
    let world = World::start().await;
    let none = world.tell("GET", "/v1/policy", Value::Null).await;
    assert_eq!(none.body, json!({"rules": [], "version": null, "updated_at": null, "updated_by": null}));
    let put = world.tell("PUT", "/v1/policy", json!({"rules": [{"tool": "x*", "effect": "deny"}]})).await;
    assert_eq!((put.status, put.body["rules"].as_array().map(Vec::len)), (200, Some(1)));
    let open = json!({"rules": [{"effect": "allow", "input": {"properties": {"amount": {"maximum": 5}}}}]});
    assert_eq!(world.tell("PUT", "/v1/policy", open).await.pointers(), ["/rules/0/input/properties/amount"]);
    let first = world.tell("GET", "/v1/signing_secret", Value::Null).await;
    assert_eq!(first.body["previous"], Value::Null);
    assert_eq!(world.tell("GET", "/v1/signing_secret", Value::Null).await.body, first.body);
    let rotated = world.tell("POST", "/v1/signing_secret/rotate", Value::Null).await;
    assert_eq!(rotated.body["previous"]["signing_secret"], first.body["signing_secret"]);
    assert_ne!(rotated.body["signing_secret"], first.body["signing_secret"]);
}

#[tokio::test]
async fn webhooks_and_their_deliveries() {
    let world = World::start().await;
    let body = json!({"url": "https://a.example/", "events": ["run.finished"], "description": "orders"});
    let made = world.tell("POST", "/v1/webhooks", body).await;
    let secret = made.body["signing_secret"].as_str().expect("a secret").to_owned();
    let path = made.header("location").expect("a location").to_owned();
    for shown in [&path, "/v1/webhooks"] {
        assert!(!world.tell("GET", shown, Value::Null).await.text.contains(&secret));
    }
    let changed = world.tell("PATCH", &path, json!({"events": ["run.cancelled"], "description": null})).await;
    assert_eq!(
        (&changed.body["events"], &changed.body["description"]),
        (&json!(["run.cancelled"]), &Value::Null)
    );
    let test = world.tell("POST", &format!("{path}/test"), json!({})).await;
    assert_eq!((test.status, test.body["status"].as_str()), (202, Some("pending")));
    let delivery = test.body["id"].as_str().expect("an id");
    let again = world.tell("POST", &format!("{path}/deliveries/{delivery}/redeliver"), Value::Null).await;
    assert_eq!((again.status, &again.body["id"]), (202, &test.body["id"]));
    let listed = world.tell("GET", &format!("{path}/deliveries"), Value::Null).await;
    assert_eq!(listed.body["data"].as_array().map(Vec::len), Some(1));
    for (body, pointer) in [
        (json!({"url": "ftp://a.example/", "events": ["run.finished"]}), "/url"),
        (json!({"url": "http://10.0.0.1/", "events": ["run.finished"]}), "/url"),
        (json!({"url": "https://a.example/", "events": "run.finished"}), "/events"),
        (json!({"url": "https://a.example/", "events": ["run.flew"]}), "/events/0"),
        (json!({"events": ["run.finished"]}), "/url"),
    ] {
        assert_eq!(world.tell("POST", "/v1/webhooks", body).await.pointers(), [pointer]);
    }
    assert_eq!(world.tell("DELETE", &path, Value::Null).await.status, 204);
    assert_eq!(world.tell("GET", &path, Value::Null).await.status, 404);
    assert_eq!(world.tell("POST", &format!("{path}/test"), json!({})).await.status, 404);
}

#[tokio::test]
async fn the_servers_own_pages() {
    let world = World::start().await;
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.yaml"] {
        assert_eq!(world.send("GET", path, &[], "").await.status, 200, "{path}");
    }
    assert!(world.send("GET", "/openapi.yaml", &[], "").await.text.contains("openapi: "));
    for by in ["day", "agent", "model"] {
        let usage = world.tell("GET", &format!("/v1/usage?group_by={by}"), Value::Null).await;
        assert_eq!(usage.body, json!({"data": [], "next_cursor": null}));
    }
    assert_eq!(world.tell("GET", "/v1/usage?from=yesterday", Value::Null).await.pointers(), ["/query/from"]);
    world.draining.send_replace(true);
    assert_eq!(world.send("GET", "/readyz", &[], "").await.status, 503);
    assert_eq!(world.tell("GET", "/v1/threads", Value::Null).await.status, 200);
}

#[tokio::test]
async fn a_database_that_is_away() {
    let world = World::without_database();
    let reply = world.tell("GET", "/v1/threads", Value::Null).await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("2")));
    assert!(reply.body.get("detail").is_none(), "{}", reply.text);
    assert_eq!(world.send("GET", "/readyz", &[], "").await.status, 503);
    assert_eq!(world.send("GET", "/healthz", &[], "").await.status, 200);
}
