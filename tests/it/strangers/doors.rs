//! Who isn't let in: whatever is asked, with the owner's own ids, the answer is 401 or 403 and tells nothing.

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};

use super::operations::{For, Operation, scopes};
use super::owner::Owner;
use crate::harness::{Answer, Client, World};

/// Credentials that are no good, by what is wrong with them: the header as it is sent.
async fn bad_credentials(world: &World) -> Vec<(&'static str, Option<String>)> {
    let good = world.client.key().expect("a key").to_owned();
    let (expired, revoked) = (new_key(world).await, new_key(world).await);
    let operator = world.server.operator();
    let keys = format!("/v1/tenants/{}/keys", world.tenant);
    operator.delete(&format!("{keys}/{}", revoked.0)).await.is(204);
    let mut database = PgConnection::connect(world.database_url()).await.expect("a connection");
    let id: uuid::Uuid = expired.0.trim_start_matches("key_").parse().expect("an id");
    sqlx::query("UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE key_id = $1")
        .bind(id)
        .execute(&mut database)
        .await
        .expect("expired");
    // One key's id and another one's secret.
    let (head, _) = expired.1.rsplit_once('_').unwrap_or((&expired.1, ""));
    let (_, tail) = good.rsplit_once('_').unwrap_or(("", &good));
    let unknown = format!("ans_{}_{}", "0".repeat(32), "A".repeat(43));
    let bearer = |key: &str| Some(format!("Bearer {key}"));
    vec![
        ("no key", None),
        ("garbage", bearer("garbage")),
        ("nothing after the word", Some("Bearer ".to_owned())),
        ("a key that never was", bearer(&unknown)),
        ("another scheme", Some(format!("Basic {good}"))),
        ("no scheme", Some(good.clone())),
        ("half of two keys", bearer(&format!("{head}_{tail}"))),
        ("too much of a key", bearer(&format!("{good}A"))),
        ("two keys", bearer(&format!("{good}, Bearer {good}"))),
        ("an expired key", bearer(&expired.1)),
        ("a revoked key", bearer(&revoked.1)),
        ("an id for a key", bearer(&expired.0)),
    ]
}

/// A new key of the owner's with `admin`: its id and secret.
async fn new_key(world: &World) -> (String, String) {
    let keys = format!("/v1/tenants/{}/keys", world.tenant);
    let key = world.server.operator().post(&keys, &json!({"name": "k", "scopes": ["admin"]})).await.is(201);
    let text = |name: &str| key[name].as_str().expect("a text").to_owned();
    (text("id"), text("secret"))
}

/// Asks as the key says, and for a stream too where there is one.
async fn answers(operation: &Operation, client: &Client, header: Option<&str>) -> Vec<Answer> {
    let mut headers: Vec<(&str, &str)> = header.map(|value| ("authorization", value)).into_iter().collect();
    let mut all = vec![operation.ask_with(client, &headers).await];
    if operation.streams {
        headers.push(("accept", "text/event-stream"));
        all.push(operation.ask_with(client, &headers).await);
    }
    all
}

/// Nobody but the one whom it is for learns or does anything by these answers.
#[track_caller]
fn refused(owner: &Owner<'_>, operation: &Operation, what: &str, all: &[Answer], allowed: &[u16]) {
    for answer in all {
        assert!(allowed.contains(&answer.status), "{} with {what}: {answer}", operation.name());
        let sent = format!("{} {}", operation.path, operation.body.clone().unwrap_or(Value::Null));
        owner.is_not_in(answer, &sent);
        let is_401 = answer.status == 401;
        assert_eq!(answer.header("www-authenticate"), is_401.then_some("Bearer"), "{answer}");
    }
}

#[tokio::test]
async fn bad_credentials_open_nothing() {
    let world = World::shared().await;
    let owner = Owner::new(&world).await;
    let credentials = bad_credentials(&world).await;
    let (before, nobody) = (owner.state().await, world.server.stranger());
    for operation in owner.operations() {
        if operation.whose == For::Anybody {
            continue;
        }
        for (what, header) in &credentials {
            let all = answers(&operation, &nobody, header.as_deref()).await;
            refused(&owner, &operation, what, &all, &[401]);
        }
    }
    assert_eq!(owner.state().await, before, "somebody changed something");
    owner.run.cancel().await;
}

#[tokio::test]
async fn a_key_without_the_scope_opens_nothing() {
    let world = World::shared().await;
    let owner = Owner::new(&world).await;
    let mut keys = Vec::new();
    for scope in scopes() {
        keys.push((world.key(&[&scope]).await, scope));
    }
    let before = owner.state().await;
    let mut asked = 0;
    for operation in owner.operations() {
        let For::Scopes(needed) = &operation.whose else { continue };
        for (client, scope) in keys.iter().filter(|(_, scope)| !needed.contains(scope)) {
            let all = answers(&operation, client, None).await;
            refused(&owner, &operation, scope, &all, &[403]);
            asked += 1;
        }
    }
    assert!(asked > 200, "{asked}");
    assert_eq!(owner.state().await, before, "somebody changed something");
    owner.run.cancel().await;
}

/// The other way round: what the document says to be enough is enough. The ids are nobody's, so that nothing happens.
#[tokio::test]
async fn a_key_with_the_scope_is_let_in() {
    let world = World::shared().await;
    let owner = Owner::new(&world).await;
    let mut operations = owner.operations();
    let nobodys = "00000000-0000-7000-8000-000000000000";
    let mut keys = Vec::new();
    for scope in scopes() {
        keys.push((world.key(&[&scope]).await, scope));
    }
    let mut asked = 0;
    for operation in &mut operations {
        let For::Scopes(enough) = &operation.whose else { continue };
        // What isn't about one thing would be done.
        if operation.method != Method::GET && !operation.names_an_id() {
            continue;
        }
        for (_, id) in owner.ids.iter().filter(|(name, _)| name.ends_with("_id")) {
            let (kind, _) = id.split_once('_').expect("an id");
            operation.path = operation.path.replace(id, &format!("{kind}_{nobodys}"));
        }
        for (client, _) in keys.iter().filter(|(_, scope)| enough.contains(scope)) {
            let answer = operation.ask(client).await;
            assert!(![401, 403].contains(&answer.status), "{answer}");
            asked += 1;
        }
    }
    assert!(asked > 50, "{asked}");
    owner.run.cancel().await;
}

#[tokio::test]
async fn the_operator_and_tenants_have_nothing_in_common() {
    let world = World::shared().await;
    let owner = Owner::new(&world).await;
    let (_, stranger) = world.neighbour(&json!({})).await;
    let (before, operator) = (owner.state().await, world.server.operator());
    for operation in owner.operations() {
        match operation.whose {
            For::Operator => {
                for (client, who) in [(&world.client, "the owner's key"), (&stranger, "a stranger's key")] {
                    let all = answers(&operation, client, None).await;
                    refused(&owner, &operation, who, &all, &[403]);
                }
            }
            For::Scopes(_) | For::Links => {
                let all = answers(&operation, &operator, None).await;
                refused(&owner, &operation, "the operator's key", &all, &[401]);
            }
            For::Anybody => (),
        }
    }
    assert_eq!(owner.state().await, before, "somebody changed something");
    owner.run.cancel().await;
}

#[tokio::test]
async fn a_suspended_tenant_is_served_nothing() {
    let world = World::shared().await;
    let owner = Owner::new(&world).await;
    let (tenant, suspended) = world.neighbour(&json!({})).await;
    let path = format!("/v1/tenants/{tenant}");
    world.server.operator().patch(&path, &json!({"suspended": true})).await.ok();
    let before = owner.state().await;
    for operation in owner.operations() {
        if matches!(operation.whose, For::Scopes(_) | For::Operator) {
            let all = answers(&operation, &suspended, None).await;
            refused(&owner, &operation, "a suspended tenant's key", &all, &[403]);
        }
    }
    assert_eq!(owner.state().await, before, "somebody changed something");
    owner.run.cancel().await;
}
