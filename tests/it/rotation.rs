//! A key that gets another secret stays the key that it was.

use answerable_testkit::ModelReply;
use serde_json::{Value, json};

use crate::harness::{Client, Fits, World, rules};

/// The path of a new key of the world's tenant, and its first secret.
async fn key(world: &World, scopes: &[&str]) -> (String, String) {
    let keys = format!("/v1/tenants/{}/keys", world.tenant);
    let made = world.server.operator().post(&keys, &json!({"name": "desk", "scopes": scopes})).await.is(201);
    (format!("{keys}/{}", made["id"].as_str().expect("an id")), secret(&made))
}

fn secret(key: &Value) -> String {
    key["secret"].as_str().expect("a secret").to_owned()
}

async fn rotate(world: &World, key: &str, overlap_ms: u64) -> Value {
    world.server.operator().post(&format!("{key}/rotate"), &json!({"overlap_ms": overlap_ms})).await.is(200)
}

async fn is_let_in(client: &Client, secret: &str) -> bool {
    let status = client.with_key(secret).get("/v1/runs").await.status;
    assert!(matches!(status, 200 | 401), "{status}");
    status == 200
}

/// The key as it is shown, as soon as `holds` is true of it: that a secret was used is noted beside the answer.
async fn shown(world: &World, key: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let mut shown = Value::Null;
    for _ in 0..400 {
        shown = world.server.operator().get(key).await.ok();
        if holds(&shown) {
            return shown;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    panic!("the key stayed {shown:#}")
}

#[tokio::test]
async fn both_secrets_are_good_for_a_time_and_each_is_seen_in_use() {
    let world = World::shared().await;
    let (key, first) = key(&world, &["runs:read"]).await;
    let made = world.server.operator().get(&key).await.fits(&json!({
        "name": "desk", "scopes": ["runs:read"], "last_used_at": null, "rotated_at": null, "previous": null,
        "revoked_at": null,
    }));
    assert!(first.starts_with(made["prefix"].as_str().expect("a prefix")) && made.get("secret").is_none());
    assert!(is_let_in(&world.client, &first).await);
    let used = shown(&world, &key, |key| key["last_used_at"].is_string()).await;
    let second = rotate(&world, &key, 600_000).await;
    second.fits(&json!({"id": made["id"], "scopes": ["runs:read"], "created_at": made["created_at"], "rotated_at": "*",
        "prefix": made["prefix"], "previous": {"valid_until": "*", "last_used_at": used["last_used_at"]}}));
    let second = secret(&second);
    assert_ne!(first, second);
    assert!(is_let_in(&world.client, &first).await && is_let_in(&world.client, &second).await);
    let shown = shown(&world, &key, |key| key["last_used_at"] != used["last_used_at"]).await;
    assert!(!shown.to_string().contains(&second), "a secret is shown once");
    // The next one ends the one before the last.
    let third = secret(&rotate(&world, &key, 600_000).await);
    let let_in = [&first, &second, &third].map(|secret| is_let_in(&world.client, secret));
    assert_eq!(futures::future::join_all(let_in).await, [false, true, true]);
    // Without an overlap there is one secret.
    let fourth = rotate(&world, &key, 0).await;
    fourth.fits(&json!({"previous": null}));
    let fourth = secret(&fourth);
    let let_in = [&second, &third, &fourth].map(|secret| is_let_in(&world.client, secret));
    assert_eq!(futures::future::join_all(let_in).await, [false, false, true]);
}

#[tokio::test]
async fn a_rotation_is_done_once_and_only_to_a_key_that_is_good() {
    let world = World::shared().await;
    let operator = world.server.operator();
    let (key, first) = key(&world, &["runs:read"]).await;
    let path = format!("{key}/rotate");
    let ask = || operator.ask(reqwest::Method::POST, &path).once("rotation-1");
    let (one, two) = (ask().await, ask().await);
    assert!(!one.is_replayed() && two.is_replayed());
    let (one, two) = (one.is(200), two.is(200));
    assert_eq!(one, two, "the secret is in the kept answer");
    // A day is what is meant where nothing is said.
    assert!(is_let_in(&world.client, &first).await && is_let_in(&world.client, &secret(&one)).await);
    operator.post(&path, &json!({"overlap_ms": 2_592_000_001_u64})).await.refused_at("/overlap_ms");
    operator.post(&path, &json!({"overlap_ms": -1})).await.refused_at("/overlap_ms");
    let (other, _) = world.neighbour(&json!({})).await;
    let elsewhere = path.replace(&world.tenant, &other);
    operator.post(&elsewhere, &json!({})).await.refused(404, "not_found");
    operator.get(elsewhere.trim_end_matches("/rotate")).await.refused(404, "not_found");
    operator.delete(&key).await.is(204);
    operator.post(&path, &json!({})).await.refused(409, "conflict");
    assert!(!is_let_in(&world.client, &first).await && !is_let_in(&world.client, &secret(&one)).await);
    operator.get(&key).await.fits(&json!({"revoked_at": "*"}));
    let keys = key.rsplit_once('/').expect("a path").0;
    let id = &one["id"];
    let listed = |list: Value| list["data"].as_array().expect("a list").iter().any(|key| key["id"] == *id);
    assert!(!listed(operator.get(keys).await.ok()));
    assert!(listed(operator.get(&format!("{keys}?include=revoked")).await.ok()));
}

#[tokio::test]
async fn what_was_decided_with_a_key_stands_when_it_is_rotated() {
    let world = World::shared().await;
    let (key, first) = key(&world, &["approvals:decide"]).await;
    let two = rules(&[json!({"tool": "pay", "effect": "ask", "approvals": 2})]);
    world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("Paid.")]);
    let mut agent = world.agent(&[world.write("pay")]);
    agent["policy"] = two["policy"].clone();
    let run = world.start(&agent).await;
    let path = format!("/v1/approvals/{}/decision", run.pending().await);
    let approve = json!({"decision": "approve"});
    world.client.with_key(&first).post(&path, &approve).await.fits(&json!({"status": "pending"}));
    let second = secret(&rotate(&world, &key, 0).await);
    // It is the same decider still, and one vote.
    let again = world.client.with_key(&second).post(&path, &approve).await.ok();
    again.fits(&json!({"status": "pending", "votes": {"$len": 1}}));
    world.client.post(&path, &approve).await.fits(&json!({"status": "approved"}));
    run.ended().await.fits(&json!({"status": "finished"}));
    assert_eq!(world.tools.effects("pay"), 1);
}
