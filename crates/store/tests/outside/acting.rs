//! What acts and what deletes the tenant meanwhile; and what is written of acts in which chain.

use answerable_core::audit::{Actor, Entry, Origin, Place};
use answerable_core::id::{KeyId, TenantId, WebhookId};
use answerable_store::{AuditFilter, NewKey, NewWebhook, ProviderPut, WebhookChange};
use futures::future::join_all;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::hand::put_policy;
use crate::world::World;

fn oldest_first() -> AuditFilter {
    AuditFilter { ascending: true, ..AuditFilter::default() }
}

async fn entries(world: &World) -> Vec<Entry> {
    world.tx().await.audit_list(&oldest_first(), 1000).await.expect("entries")
}

async fn operators(world: &World) -> Vec<Entry> {
    let mut tx = world.store.system().await.expect("a transaction");
    tx.operator_audit_list(&oldest_first(), 1000).await.expect("entries")
}

async fn webhook(world: &World, url: &str) -> WebhookId {
    let mut tx = world.tx().await;
    let events = vec!["run.finished".to_owned()];
    let new = NewWebhook { url: url.to_owned(), events, description: None, include_input: false };
    let (row, _) = tx.webhook_create(&new).await.expect("stored");
    tx.commit().await.expect("committed");
    WebhookId(row.webhook_id)
}

/// Changes a webhook as a request does; `false`: the tenant is gone.
async fn change(world: &World, webhook: WebhookId, description: String) -> bool {
    let mut tx = world.tx().await;
    if !tx.tenant_hold().await.expect("an answer") {
        return false;
    }
    let change = WebhookChange { description: Some(Some(description)), ..WebhookChange::default() };
    tx.webhook_update(webhook, &change).await.expect("an answer").expect("a webhook");
    tx.commit().await.expect("committed");
    true
}

async fn delete(world: &World) {
    let mut tx = world.tx().await;
    assert!(tx.tenant_delete().await.expect("an answer"));
    tx.commit().await.expect("committed");
}

async fn when_somebody_waits(world: &World) {
    let mut look = world.superuser().await;
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut look).await.expect("a count") == 0 {
        tokio::task::yield_now().await;
    }
}

/// Locks what is there first, so that it would wait for the deletion and the deletion for it.
#[tokio::test]
async fn a_deletion_waits_for_acts_and_its_entry_counts_them() {
    let world = World::new().await;
    let hook = webhook(&world, "http://127.0.0.1:9/").await;
    let mut tx = world.tx().await;
    assert!(tx.tenant_hold().await.expect("an answer"));
    let other = WebhookChange { include_input: Some(true), ..WebhookChange::default() };
    tx.webhook_update(hook, &other).await.expect("an answer").expect("a webhook");
    let act = async {
        when_somebody_waits(&world).await;
        tx.commit().await.expect("committed");
    };
    tokio::join!(delete(&world), act);
    let gone = operators(&world).await.pop().expect("an entry");
    assert_eq!(gone.detail["audit_seq"], json!(3), "tenant.create, webhook.create, webhook.update");
}

#[tokio::test]
async fn an_act_that_waits_for_the_deletion_finds_the_tenant_gone() {
    let world = World::new().await;
    let hook = webhook(&world, "http://127.0.0.1:9/").await;
    let mut tx = world.tx().await;
    assert!(tx.tenant_delete().await.expect("an answer"));
    let deletion = async {
        when_somebody_waits(&world).await;
        tx.commit().await.expect("committed");
    };
    let (done, ()) = tokio::join!(change(&world, hook, "late".into()), deletion);
    assert!(!done);
}

#[tokio::test]
async fn acts_of_all_kinds_and_the_deletion_go_one_after_another() {
    for _ in 0..4 {
        let world = World::new().await;
        let hook = webhook(&world, "http://127.0.0.1:9/").await;
        let world = &world;
        let acts = (0..12).map(|n| change(world, hook, format!("number {n}")));
        let keys = (0..6).map(|n| async move {
            let key_id = KeyId(Uuid::now_v7());
            let (secret_hash, scopes) = ([9; 32], vec!["runs:read".to_owned()]);
            let key = NewKey { key_id, name: format!("k{n}"), secret_hash, scopes, expires_at: None };
            let mut tx = world.store.system().await.expect("a transaction");
            let is_made = tx.key_create(world.tenant, &key).await.expect("an answer").is_some();
            tx.commit().await.expect("committed");
            is_made
        });
        let deletion = async {
            tokio::task::yield_now().await;
            delete(world).await;
        };
        let (acts, keys, ()) = tokio::join!(join_all(acts), join_all(keys), deletion);
        let done = acts.into_iter().chain(keys).filter(|is_done| *is_done).count();
        let gone = operators(world).await.pop().expect("an entry");
        assert_eq!((gone.action.as_str(), &gone.detail["audit_seq"]), ("tenant.delete", &json!(2 + done)));
    }
}

/// They lock the same row, and none waits for another.
#[tokio::test]
async fn those_who_hold_a_tenant_dont_wait_for_each_other() {
    let world = World::new().await;
    let mut open = Vec::new();
    for n in 0..5 {
        let mut tx = world.tx().await;
        tx.secret_put(&format!("s{n}"), &"s".into()).await.expect("stored");
        assert!(tx.tenant_hold().await.expect("an answer"));
        open.push(tx);
    }
    // Nor does a change of the tenant itself.
    let mut system = world.store.system().await.expect("a transaction");
    let quotas = Map::from_iter([("weight".to_owned(), json!(4))]);
    assert!(system.tenant_update(world.tenant, None, &quotas, None).await.expect("an answer").is_some());
    system.commit().await.expect("committed");
    for tx in open {
        tx.commit().await.expect("committed");
    }
}

#[tokio::test]
async fn what_the_operator_does_to_a_tenant_is_in_both_chains_and_from_where_in_theirs_alone() {
    let world = World::new().await;
    let place = Place {
        address: Some("192.0.2.7".into()),
        forwarded_for: Some("192.0.2.8".into()),
        user_agent: Some("desk/1".into()),
        request_id: Some("order-77".into()),
    };
    let mut tx = world.store.system().await.expect("a transaction");
    tx.asked_by(Origin { actor: Actor::Operator, place });
    let key_id = KeyId(Uuid::now_v7());
    let scopes = vec!["runs:read".to_owned()];
    let key = NewKey { key_id, name: "desk".into(), secret_hash: [9; 32], scopes, expires_at: None };
    tx.key_create(world.tenant, &key).await.expect("an answer").expect("a key");
    assert!(tx.key_revoke(world.tenant, key_id).await.expect("an answer"));
    tx.tenant_update(world.tenant, Some("new"), &Map::new(), None)
        .await
        .expect("an answer")
        .expect("a tenant");
    tx.commit().await.expect("committed");
    let names =
        |entries: &[Entry]| -> Vec<String> { entries.iter().map(|entry| entry.action.clone()).collect() };
    let (own, theirs) = (entries(&world).await, operators(&world).await);
    assert_eq!(names(&own), ["tenant.create", "key.create", "key.revoke", "tenant.update"]);
    assert_eq!(names(&own), names(&theirs));
    for (own, theirs) in own.iter().zip(&theirs).skip(1) {
        assert_eq!(
            own.from,
            json!({"address": null, "forwarded_for": null, "user_agent": null, "request_id": "order-77"})
        );
        assert_eq!(theirs.from["address"], "192.0.2.7");
        assert_eq!(theirs.from["request_id"], own.from["request_id"]);
        assert_eq!((&theirs.actor, &theirs.target), (&own.actor, &own.target));
    }
    assert_eq!(theirs[1].detail["tenant_id"], json!(world.tenant));
    assert_eq!(own[1].detail.get("tenant_id"), None);
}

#[tokio::test]
async fn a_change_that_changes_nothing_leaves_nothing() {
    let world = World::new().await;
    let hook = webhook(&world, "http://127.0.0.1:9/").await;
    let quotas: Map<String, Value> = Map::from_iter([("weight".to_owned(), json!(3))]);
    for _ in 0..2 {
        assert!(change(&world, hook, "for the desk".into()).await);
        let mut tx = world.store.system().await.expect("a transaction");
        tx.tenant_update(world.tenant, Some("new"), &quotas, None)
            .await
            .expect("an answer")
            .expect("a tenant");
        tx.commit().await.expect("committed");
    }
    let done: Vec<String> = entries(&world).await.into_iter().skip(2).map(|entry| entry.action).collect();
    assert_eq!(done, ["webhook.update", "tenant.update"]);
    let mut tx = world.store.system().await.expect("a transaction");
    let nobody = tx.tenant_update(TenantId(Uuid::now_v7()), Some("x"), &quotas, None).await;
    assert_eq!(nobody.expect("an answer"), None);
}

#[tokio::test]
async fn what_changes_a_setting_changes_its_hash_and_addresses_are_short() {
    let world = World::new().await;
    put_policy(&world, json!({})).await;
    let provider = |prices: Value| ProviderPut {
        kind: "openai_chat".into(),
        base_url: "https://models.example/v1/canary".into(),
        api_key: None,
        headers: [("x-canary".to_owned(), "canary".into())].into(),
        prices,
        options: json!({}),
        script: json!([]),
    };
    for prices in [json!({}), json!({}), json!({"m": {"input": 1}})] {
        let mut tx = world.tx().await;
        tx.provider_put("alt", &provider(prices)).await.expect("stored");
        tx.commit().await.expect("committed");
    }
    let hook = webhook(&world, "https://hooks.example/services/canary").await;
    assert!(change(&world, hook, "canary".into()).await);
    let all = entries(&world).await;
    let shown: String = all.iter().map(|entry| entry.to_json().to_string()).collect();
    assert!(!shown.contains("canary"), "{shown}");
    let of = |action: &str| -> Vec<Value> {
        all.iter()
            .filter(|entry| entry.action.starts_with(action))
            .map(|entry| entry.detail.clone())
            .collect()
    };
    let (puts, hooks) = (of("provider.put"), of("webhook."));
    assert_eq!(
        (&puts[0]["base_url"], &puts[0]["headers_given"]),
        (&json!("https://models.example"), &json!(1))
    );
    assert_eq!(puts[0]["settings_hash"], puts[1]["settings_hash"]);
    assert_ne!(puts[1]["settings_hash"], puts[2]["settings_hash"]);
    assert_eq!(hooks[0]["url"], "https://hooks.example");
    assert_eq!(hooks[0]["url_hash"], hooks[1]["url_hash"]);
    assert_ne!(hooks[0]["settings_hash"], hooks[1]["settings_hash"]);
}
