//! Settings, keys, threads, webhooks and kept answers against a real PostgreSQL.

use std::collections::BTreeMap;

use answerable_core::agent::AgentSpec;
use answerable_core::id::{AgentId, DeliveryId, KeyId, TenantId, ThreadId, WebhookId};
use answerable_store::{
    AgentUpdated, ConnectOptions, DeliveryFilter, Kept, KeptAnswer, KeptRequest, KeptTx, KeyFacts,
    KeyRotated, NewKey, NewWebhook, NotQueued, ProviderPut, Sealer, Signals, Store, ThreadDeleted,
    WebhookChange,
};
use answerable_testkit::TestDatabase;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};
use uuid::Uuid;

struct World {
    store: Store,
    a: TenantId,
    b: TenantId,
    // Dropped last: the database goes with it.
    _database: TestDatabase,
}

async fn world() -> World {
    let database = TestDatabase::create().await.expect("a database");
    let options = ConnectOptions { url: database.url.clone(), max_connections: 8, prepared_statements: true };
    let store = Store::connect(&options, Sealer::new(&[7; 32]), Signals::new().0).expect("a store");
    let mut tx = store.system().await.expect("tx");
    let a = TenantId(
        tx.tenant_create("a", &quotas(json!({"max_requests_per_minute": 12})), true)
            .await
            .expect("a")
            .tenant_id,
    );
    let b = TenantId(tx.tenant_create("b", &Map::new(), false).await.expect("b").tenant_id);
    tx.commit().await.expect("commit");
    World { store, a, b, _database: database }
}

fn quotas(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn key(name: &str) -> NewKey {
    NewKey {
        key_id: KeyId(Uuid::now_v7()),
        name: name.into(),
        secret_hash: [5; 32],
        scopes: vec!["runs:read".into()],
        expires_at: None,
    }
}

fn spec(instructions: &str) -> AgentSpec {
    let spec =
        json!({"name": "a", "instructions": instructions, "model": {"provider": "main", "model": "m"}});
    serde_json::from_value(spec).expect("an agent")
}

fn provider(api_key: Option<Option<&str>>) -> ProviderPut {
    ProviderPut {
        kind: "openai_chat".into(),
        base_url: "https://models.example/v1/".into(),
        api_key: api_key.map(|key| key.map(SecretString::from)),
        headers: BTreeMap::from([("x-team".to_owned(), SecretString::from("canary-header"))]),
        prices: json!({"m": {"input_microusd_per_mtok": 3}}),
        options: json!({}),
        script: json!([]),
    }
}

fn webhook() -> NewWebhook {
    NewWebhook {
        url: "https://a.example/".into(),
        events: vec!["run.*".into()],
        description: Some("orders".into()),
        include_input: false,
    }
}

#[tokio::test]
async fn tenants_and_their_keys() {
    let world = world().await;
    let mut tx = world.store.system().await.expect("tx");
    let made = tx.key_create(world.a, &key("one")).await.expect("made").expect("the tenant is there");
    assert!(tx.tenant_list(None, 10).await.expect("list").len() == 2);
    let facts = tx.key_find(KeyId(made.key_id)).await.expect("found").expect("a key");
    assert_eq!((facts.tenant.tenant_id, facts.tenant.max_requests_per_minute), (world.a, Some(12)));
    tx.key_touch(KeyId(made.key_id), &[1; 32]).await.expect("touched");
    // Another tenant's id takes no key back.
    assert!(!tx.key_revoke(world.b, KeyId(made.key_id)).await.expect("nothing"));
    assert!(tx.key_revoke(world.a, KeyId(made.key_id)).await.expect("revoked"));
    assert!(tx.key_find(KeyId(made.key_id)).await.expect("looked").is_none());
    assert_eq!(tx.key_list(world.a, false, None, 10).await.expect("list").expect("the tenant is there"), []);
    let all = tx.key_list(world.a, true, None, 10).await.expect("list").expect("the tenant is there");
    assert!(all.len() == 1 && all[0].revoked_at.is_some() && all[0].last_used_at.is_some(), "{all:?}");
    assert_eq!(tx.key_fetch(world.a, KeyId(made.key_id)).await.expect("looked").as_ref(), all.first());
    assert_eq!(tx.key_fetch(world.b, KeyId(made.key_id)).await.expect("looked"), None);
    let change = quotas(json!({"max_requests_per_minute": null, "max_queued_runs": 3}));
    let row = tx.tenant_update(world.a, Some("A"), &change, None).await.expect("updated").expect("a tenant");
    assert_eq!((row.name.as_str(), row.quotas), ("A", json!({"max_queued_runs": 3})));
    tx.commit().await.expect("commit");
    // A tenant that isn't there: the failed insert ends its transaction.
    let mut tx = world.store.system().await.expect("tx");
    assert!(tx.key_create(TenantId(Uuid::now_v7()), &key("none")).await.expect("looked").is_none());
}

#[tokio::test]
async fn a_key_that_is_rotated_keeps_its_id_and_one_secret_more() {
    let world = world().await;
    let mut tx = world.store.system().await.expect("tx");
    let made = tx.key_create(world.a, &key("one")).await.expect("made").expect("the tenant is there");
    let id = KeyId(made.key_id);
    assert_eq!((made.rotated_at, made.previous_until), (None, None));
    let secrets = |facts: KeyFacts| (facts.secret_hash[0], facts.previous.map(|previous| previous.hash[0]));
    tx.key_touch(id, &[1; 32]).await.expect("touched");
    for (secret, overlap_ms, wanted) in
        [(2, 60_000, (2, Some(5))), (3, 60_000, (3, Some(2))), (4, 0, (4, None))]
    {
        let rotated = tx.key_rotate(world.a, id, &[secret; 32], overlap_ms).await.expect("rotated");
        let KeyRotated::Done(row) = rotated else { panic!("{rotated:?}") };
        assert_eq!((row.key_id, &row.scopes, row.created_at), (made.key_id, &made.scopes, made.created_at));
        assert_eq!((row.rotated_at.is_some(), row.previous_until.is_some()), (true, overlap_ms > 0));
        // The secret before was used when the key was.
        assert_eq!(row.previous_used_at.is_some(), overlap_ms > 0);
        assert_eq!(secrets(tx.key_find(id).await.expect("found").expect("a key")), wanted);
    }
    // Which of the two is used is told apart.
    tx.key_rotate(world.a, id, &[9; 32], 60_000).await.expect("rotated");
    tx.commit().await.expect("commit");
    let mut used = Vec::new();
    for secret in [9, 4] {
        let mut tx = world.store.system().await.expect("tx");
        tx.key_touch(id, &[secret; 32]).await.expect("touched");
        let row = tx.key_fetch(world.a, id).await.expect("looked").expect("a key");
        used.push(row.previous_used_at == row.last_used_at);
        tx.commit().await.expect("commit");
    }
    assert_eq!(used, [false, true]);
    let mut tx = world.store.system().await.expect("tx");
    let none = KeyId(Uuid::now_v7());
    for (tenant, key) in [(world.b, id), (world.a, none)] {
        assert_eq!(tx.key_rotate(tenant, key, &[6; 32], 0).await.expect("an answer"), KeyRotated::Unknown);
    }
    assert!(tx.key_revoke(world.a, id).await.expect("revoked"));
    assert_eq!(tx.key_rotate(world.a, id, &[6; 32], 0).await.expect("an answer"), KeyRotated::Over);
    let brief = NewKey { expires_at: Some(chrono::Utc::now()), ..key("brief") };
    let brief = tx.key_create(world.a, &brief).await.expect("made").expect("the tenant is there");
    let over = tx.key_rotate(world.a, KeyId(brief.key_id), &[6; 32], 0).await.expect("an answer");
    assert_eq!(over, KeyRotated::Over);
}

#[tokio::test]
async fn providers_keep_or_lose_their_keys() {
    let world = world().await;
    let mut tx = world.store.tenant(world.a).await.expect("tx");
    tx.provider_put("main", &provider(Some(Some("canary-key")))).await.expect("put");
    let kept = tx.provider_put("main", &provider(None)).await.expect("put");
    assert!(kept.has_api_key && kept.header_names == ["x-team"]);
    let target = tx.provider_open("main").await.expect("opened").expect("a provider");
    assert_eq!(target.base_url, "https://models.example/v1");
    assert_eq!(target.api_key.as_ref().map(|key| key.expose_secret()), Some("canary-key"));
    assert_eq!(target.headers["x-team"].expose_secret(), "canary-header");
    let lost = tx.provider_put("main", &provider(Some(None))).await.expect("put");
    assert!(!lost.has_api_key);
    assert!(tx.provider_open("main").await.expect("opened").expect("a provider").api_key.is_none());
    let missing = tx.providers_missing(&["main".into(), "alt".into()]).await.expect("looked");
    assert_eq!(missing, ["alt"]);
    assert!(
        tx.provider_delete("main").await.expect("deleted")
            && !tx.provider_delete("main").await.expect("again")
    );
}

#[tokio::test]
async fn secrets_and_signing_secrets() {
    let world = world().await;
    let mut tx = world.store.tenant(world.a).await.expect("tx");
    for value in ["canary-1", "canary-2"] {
        tx.secret_put("shop", &value.into()).await.expect("put");
    }
    let opened = tx.secrets_open(&["shop".into(), "nowhere".into()]).await.expect("opened");
    assert_eq!(opened.len(), 1);
    assert_eq!(opened["shop"].expose_secret(), "canary-2");
    tx.commit().await.expect("commit");
    // Of several that ask first at once, all get the same.
    let ask = async || {
        let mut tx = world.store.tenant(world.a).await.expect("tx");
        let secrets = tx.signing_secrets_open().await.expect("secrets");
        tx.commit().await.expect("commit");
        secrets[0].expose_secret().to_owned()
    };
    let (one, two, three) = tokio::join!(ask(), ask(), ask());
    assert!(one.starts_with("whsec_") && one == two && two == three);
    let mut tx = world.store.tenant(world.a).await.expect("tx");
    let rotated = tx.signing_secret_rotate().await.expect("rotated");
    assert_eq!(rotated.len(), 2);
    assert_eq!(rotated[1].secret.expose_secret(), one);
    assert!(rotated[0].valid_until.is_none() && rotated[1].valid_until.is_some());
    // The third rotation keeps the newest and the one before.
    assert_eq!(tx.signing_secret_rotate().await.expect("rotated").len(), 2);
}

#[tokio::test]
async fn versions_of_an_agent() {
    let world = world().await;
    let mut tx = world.store.tenant(world.a).await.expect("tx");
    let made = tx.agent_create(&spec("first")).await.expect("made");
    let id = AgentId(made.agent_id);
    assert!(
        matches!(tx.agent_update(id, &spec("second")).await, Ok(AgentUpdated::Stored(row)) if row.version == 2)
    );
    // The same content is the same row, whoever names it.
    assert_eq!(tx.agent_spec_put(&spec("first")).await.expect("put"), made.spec_hash);
    let newest = tx.agent_fetch(id, None).await.expect("fetched").expect("an agent");
    assert_eq!((newest.version, newest.spec["instructions"].as_str()), (2, Some("second")));
    let first = tx.agent_fetch(id, Some(1)).await.expect("fetched").expect("an agent");
    assert_eq!(first.spec["instructions"], "first");
    assert!(tx.agent_fetch(id, Some(9)).await.expect("looked").is_none());
    let versions = tx.agent_versions(id, 0, 10).await.expect("versions").expect("an agent");
    assert_eq!(versions.iter().map(|row| row.version).collect::<Vec<_>>(), [1, 2]);
    assert!(tx.agent_archive(id).await.expect("archived") && tx.agent_archive(id).await.expect("again"));
    assert_eq!(tx.agent_update(id, &spec("third")).await.expect("looked"), AgentUpdated::Archived);
    assert_eq!(tx.agent_list(None, 10).await.expect("list"), []);
}

#[tokio::test]
async fn pages_of_threads() {
    let world = world().await;
    let mut tx = world.store.tenant(world.a).await.expect("tx");
    let mut made = Vec::new();
    for n in 0..5 {
        let metadata = BTreeMap::from([("n".to_owned(), n.to_string())]);
        made.push(tx.thread_create(&metadata).await.expect("made"));
    }
    let first = tx.thread_list(None, 2).await.expect("list");
    assert_eq!(first, [made[4].clone(), made[3].clone()]);
    assert_eq!(
        tx.thread_list(Some(first[1].ord), 2).await.expect("list"),
        [made[2].clone(), made[1].clone()]
    );
    let id = ThreadId(made[0].thread_id);
    assert_eq!(tx.thread_delete(id).await.expect("deleted"), ThreadDeleted::Deleted);
    assert_eq!(tx.thread_delete(id).await.expect("again"), ThreadDeleted::Unknown);
    assert!(
        tx.thread_fetch(id).await.expect("looked").is_none()
            && tx.thread_lock(id).await.expect("looked").is_none()
    );
}

#[tokio::test]
async fn webhooks_and_deliveries() {
    let world = world().await;
    let mut tx = world.store.tenant(world.a).await.expect("tx");
    let (made, secret) = tx.webhook_create(&webhook()).await.expect("made");
    assert!(secret.expose_secret().starts_with("whsec_"));
    let id = WebhookId(made.webhook_id);
    let change = WebhookChange { description: Some(None), ..WebhookChange::default() };
    let changed = tx.webhook_update(id, &change).await.expect("changed").expect("a webhook");
    assert_eq!((changed.description, changed.url), (None, made.url));
    let sent = tx.delivery_create(id, "webhook.test", "{}").await.expect("made").expect("a webhook");
    let all = DeliveryFilter::default();
    assert_eq!((sent.status.as_str(), &sent.attempts), ("pending", &json!([])));
    let again =
        tx.delivery_again(id, DeliveryId(sent.delivery_id)).await.expect("again").expect("a delivery");
    assert_eq!(again.delivery_id, sent.delivery_id);
    assert!(tx.webhook_delete(id).await.expect("deleted"));
    assert_eq!(tx.delivery_list(id, &all, None, 10).await.expect("list"), []);
    let refused = tx.delivery_create(id, "webhook.test", "{}").await.expect("looked");
    assert_eq!(refused, Err(NotQueued::NotFound));
}

fn request(key: &str, hash: u8) -> KeptRequest {
    KeptRequest { route: "POST /v1/threads".into(), key: key.into(), hash: [hash; 32] }
}

#[tokio::test]
async fn an_answer_is_kept_with_its_effect_or_not_at_all() {
    let world = world().await;
    let answer = KeptAnswer {
        status: 201,
        location: Some("/v1/threads/x".into()),
        body: Some("{\"secret\":\"canary\"}".into()),
        secret: true,
        run_id: None,
    };
    // Refused: nothing stays.
    let mut tx = world.store.tenant(world.a).await.expect("tx");
    assert_eq!(tx.request_begin(&request("k", 1)).await.expect("begun"), Kept::New);
    drop(tx);
    let mut tx = world.store.tenant(world.a).await.expect("tx");
    assert_eq!(tx.request_begin(&request("k", 2)).await.expect("begun"), Kept::New);
    // A second one waits for the first.
    let store = world.store.clone();
    let tenant = world.a;
    let second = tokio::spawn(async move {
        let mut tx = store.tenant(tenant).await.expect("tx");
        tx.request_begin(&request("k", 2)).await.expect("begun")
    });
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    tx.answer_keep(&request("k", 2), &answer).await.expect("kept");
    tx.commit_all().await.expect("commit");
    assert_eq!(second.await.expect("joined"), Kept::Answered(answer));
    let mut tx = world.store.tenant(world.a).await.expect("tx");
    assert_eq!(tx.request_begin(&request("k", 3)).await.expect("begun"), Kept::Other);
    // Another tenant's, and the operator's, are their own.
    let mut tx = world.store.tenant(world.b).await.expect("tx");
    assert_eq!(tx.request_begin(&request("k", 3)).await.expect("begun"), Kept::New);
    let mut tx = world.store.system().await.expect("tx");
    assert_eq!(tx.request_begin(&request("k", 3)).await.expect("begun"), Kept::New);
    assert_eq!(tx.answers_prune(10).await.expect("pruned"), 0);
}

#[tokio::test]
async fn a_stranger_finds_nothing() {
    let world = world().await;
    let mut tx = world.store.tenant(world.a).await.expect("tx");
    let agent = AgentId(tx.agent_create(&spec("x")).await.expect("agent").agent_id);
    let thread = ThreadId(tx.thread_create(&BTreeMap::new()).await.expect("thread").thread_id);
    let hook = WebhookId(tx.webhook_create(&webhook()).await.expect("webhook").0.webhook_id);
    let delivery =
        tx.delivery_create(hook, "webhook.test", "{}").await.expect("delivery").expect("a webhook");
    tx.provider_put("main", &provider(Some(Some("k")))).await.expect("provider");
    tx.secret_put("shop", &"s".into()).await.expect("secret");
    tx.policy_put(&json!({"rules": []}), "key_1").await.expect("policy");
    tx.commit().await.expect("commit");

    let mut tx = world.store.tenant(world.b).await.expect("tx");
    assert!(tx.agent_fetch(agent, None).await.expect("q").is_none());
    assert!(tx.agent_versions(agent, 0, 9).await.expect("q").is_none());
    assert_eq!(tx.agent_update(agent, &spec("y")).await.expect("q"), AgentUpdated::Unknown);
    assert!(!tx.agent_archive(agent).await.expect("q"));
    assert_eq!(tx.agent_list(None, 9).await.expect("q"), []);
    assert!(tx.thread_fetch(thread).await.expect("q").is_none());
    assert_eq!(tx.thread_delete(thread).await.expect("q"), ThreadDeleted::Unknown);
    assert_eq!(tx.thread_list(None, 9).await.expect("q"), []);
    assert!(tx.webhook_fetch(hook).await.expect("q").is_none());
    assert!(tx.webhook_update(hook, &WebhookChange::default()).await.expect("q").is_none());
    assert!(!tx.webhook_delete(hook).await.expect("q"));
    assert!(tx.webhook_rotate(hook).await.expect("q").is_none());
    assert_eq!(tx.delivery_list(hook, &DeliveryFilter::default(), None, 9).await.expect("q"), []);
    let again = tx.delivery_again(hook, DeliveryId(delivery.delivery_id)).await.expect("q");
    assert_eq!(again, Err(NotQueued::NotFound));
    assert!(tx.provider_fetch("main").await.expect("q").is_none());
    assert!(tx.provider_open("main").await.expect("q").is_none());
    assert!(!tx.provider_delete("main").await.expect("q"));
    assert!(tx.secret_fetch("shop").await.expect("q").is_none());
    assert!(tx.secrets_open(&["shop".into()]).await.expect("q").is_empty());
    assert!(tx.policy_fetch().await.expect("q").is_none());
}

#[tokio::test]
async fn a_deleted_tenant_leaves_nothing() {
    let world = world().await;
    let mut tx = world.store.tenant(world.a).await.expect("tx");
    tx.agent_create(&spec("x")).await.expect("agent");
    tx.thread_create(&BTreeMap::new()).await.expect("thread");
    tx.webhook_create(&webhook()).await.expect("webhook");
    tx.commit().await.expect("commit");
    let mut tx = world.store.tenant(world.a).await.expect("tx");
    assert!(tx.tenant_delete().await.expect("deleted"));
    tx.commit().await.expect("commit");
    let mut tx = world.store.tenant(world.a).await.expect("tx");
    assert!(!tx.tenant_delete().await.expect("again"));
    assert_eq!(tx.agent_list(None, 9).await.expect("list"), []);
    let mut tx = world.store.system().await.expect("tx");
    assert!(tx.tenant_fetch(world.a).await.expect("looked").is_none());
    assert!(tx.tenant_fetch(world.b).await.expect("looked").is_some());
}
