//! Sealed values under another key: all of them, wherever they stand, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use answerable_core::id::TenantId;
use answerable_ports::McpPlace;
use answerable_store::{
    ConnectOptions, Kept, KeptAnswer, KeptRequest, KeptTx, McpServerPut, NewWebhook, ProviderPut, Sealer,
    Signals, Store, Wrapping,
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use crate::world::World;

const OLD: [u8; 32] = [7; 32];
const NEW: [u8; 32] = [9; 32];
const LOST: [u8; 32] = [8; 32];

/// Seven of a tenant's and one of the operator's: every column that holds sealed values, each with one.
const OF_ONE: u64 = 7;

fn store(world: &World, key: &[u8; 32], others: &[&[u8; 32]]) -> Store {
    let options = ConnectOptions { url: world.url().into(), max_connections: 2, prepared_statements: true };
    Store::connect(&options, Sealer::with_others(key, others), Signals::new().0).expect("a store")
}

fn request(key: &str) -> KeptRequest {
    KeptRequest { route: "POST /v1/webhooks".into(), key: key.into(), hash: [1; 32] }
}

fn answer() -> KeptAnswer {
    KeptAnswer { status: 201, location: None, body: Some("canary-answer".into()), secret: true, run_id: None }
}

/// One value of each kind.
async fn fill(store: &Store, tenant: TenantId) {
    let mut tx = store.tenant(tenant).await.expect("tx");
    tx.secret_put("shop", &"canary-secret".into()).await.expect("a secret");
    let headers = BTreeMap::from([("x-team".to_owned(), SecretString::from("canary-header"))]);
    let provider = ProviderPut {
        kind: "openai_chat".into(),
        base_url: "https://models.example/v1/".into(),
        api_key: Some(Some("canary-api-key".into())),
        headers: headers.clone(),
        prices: json!({}),
        options: json!({}),
        script: json!([]),
    };
    tx.provider_put("main", &provider).await.expect("a provider");
    let place = McpPlace::Url { url: "https://mcp.example/".into(), headers };
    tx.mcp_server_put("files", &McpServerPut { place, timeout_ms: 1000 }).await.expect("a server");
    tx.signing_secrets().await.expect("a signing secret");
    let webhook = NewWebhook {
        url: "https://hooks.example/".into(),
        events: vec!["*".into()],
        description: None,
        include_input: false,
    };
    let (webhook, _) = tx.webhook_create(&webhook).await.expect("a webhook");
    let id = answerable_core::id::WebhookId(webhook.webhook_id);
    tx.webhook_rotate(id).await.expect("rotated").expect("there");
    assert_eq!(tx.request_begin(&request("k")).await.expect("begun"), Kept::New);
    tx.answer_keep(&request("k"), &answer()).await.expect("kept");
    // What is kept in the clear is none of it, and no base64 either.
    assert_eq!(tx.request_begin(&request("plain")).await.expect("begun"), Kept::New);
    tx.answer_keep(&request("plain"), &KeptAnswer { secret: false, ..answer() }).await.expect("kept");
    tx.commit().await.expect("committed");
}

async fn fill_operators(store: &Store) {
    let mut tx = store.system().await.expect("tx");
    assert_eq!(tx.request_begin(&request("k")).await.expect("begun"), Kept::New);
    tx.answer_keep(&request("k"), &answer()).await.expect("kept");
    tx.commit().await.expect("committed");
}

/// Everything opens and is what it was.
async fn all_opens(store: &Store, tenant: TenantId) -> bool {
    let mut tx = store.tenant(tenant).await.expect("tx");
    let Ok(secrets) = tx.secrets_open(&["shop".to_owned()]).await else { return false };
    assert_eq!(secrets["shop"].expose_secret(), "canary-secret");
    let provider = tx.provider_open("main").await.expect("opens").expect("there");
    assert_eq!(provider.api_key.expect("a key").expose_secret(), "canary-api-key");
    assert_eq!(tx.signing_secrets().await.expect("opens").len(), 1);
    let Kept::Answered(kept) = tx.request_begin(&request("k")).await.expect("opens") else { panic!("kept") };
    assert_eq!(kept, answer());
    true
}

/// All rows of the tables with sealed values, without these.
async fn all_else(world: &World) -> Vec<(String, Value)> {
    let mut db = world.superuser().await;
    let mut rows = Vec::new();
    for table in ["secrets", "providers", "mcp_servers", "signing_secrets", "webhooks", "idempotency_keys"] {
        let read = format!(
            "SELECT to_jsonb(t) - 'sealed' - 'sealed_before'
                 - CASE WHEN to_jsonb(t) #>> '{{headers,sealed}}' = 'true' THEN 'body' ELSE '' END
             FROM {table} t ORDER BY 1"
        );
        let found: Vec<Value> =
            sqlx::query_scalar(AssertSqlSafe(read)).fetch_all(&mut db).await.expect("rows");
        rows.extend(found.into_iter().map(|row| (table.to_owned(), row)));
    }
    rows
}

async fn rewrap_entries(world: &World) -> Vec<(Value, Value)> {
    let mut db = world.superuser().await;
    sqlx::query_as(
        "SELECT actor::jsonb, detail::jsonb FROM audit WHERE action = 'secrets.rewrap' ORDER BY seq",
    )
    .fetch_all(&mut db)
    .await
    .expect("entries")
}

#[tokio::test]
async fn every_sealed_value_is_wrapped_anew_and_nothing_else_changes() {
    let world = World::new().await;
    let old = store(&world, &OLD, &[]);
    let other = world.another_tenant().await;
    fill(&old, world.tenant).await;
    fill(&old, other).await;
    fill_operators(&old).await;
    let before = all_else(&world).await;
    let (old_id, new_id) = (Sealer::new(&OLD).key_id(), Sealer::new(&NEW).key_id());
    let all = 2 * OF_ONE + 1;

    let both = store(&world, &NEW, &[&OLD]);
    let looked = both.sealed_values(Wrapping::Stays).await.expect("looked");
    assert_eq!(
        (looked.by_key.clone(), looked.rewrapped, looked.closed_count()),
        ([(old_id, all)].into(), all, 0)
    );
    assert!(all_opens(&old, other).await && rewrap_entries(&world).await.is_empty(), "it only looked");
    let done = both.sealed_values(Wrapping::Anew).await.expect("wrapped anew");
    assert_eq!((done.rewrapped, done.closed_count()), (all, 0));
    assert_eq!(all_else(&world).await, before);

    let new = store(&world, &NEW, &[]);
    for tenant in [world.tenant, other] {
        assert!(all_opens(&new, tenant).await && all_opens(&both, tenant).await);
        assert!(!all_opens(&old, tenant).await);
    }
    let entries = rewrap_entries(&world).await;
    assert!(entries.iter().all(|(actor, _)| actor["kind"] == "operator"), "{entries:?}");
    let details: Vec<Value> = entries.into_iter().map(|(_, detail)| detail).collect();
    assert_eq!(
        details,
        [json!({"stage": "begun"}), json!({"stage": "ended", "rewrapped": all, "closed": 0})]
    );

    let again = both.sealed_values(Wrapping::Anew).await.expect("looked again");
    assert_eq!((again.by_key, again.rewrapped), ([(new_id, all)].into(), 0), "there is nothing left to do");
    assert_eq!(rewrap_entries(&world).await.len(), 2, "and nothing to tell");
}

#[tokio::test]
async fn what_no_key_opens_is_counted_named_and_left_alone() {
    let world = World::new().await;
    fill(&store(&world, &OLD, &[]), world.tenant).await;
    let other = world.another_tenant().await;
    // Named, since that server knew two keys.
    fill(&store(&world, &LOST, &[&NEW]), other).await;
    let both = store(&world, &NEW, &[&OLD]);
    let (all, open) = both.sealed_sample().await.expect("a sample");
    assert_eq!((all as u64, open as u64), (2 * OF_ONE, OF_ONE));
    let (_, open) = store(&world, &[1; 32], &[]).sealed_sample().await.expect("a sample");
    assert_eq!(open, 0);
    let done = both.sealed_values(Wrapping::Anew).await.expect("wrapped anew");
    assert_eq!((done.rewrapped, done.closed_count()), (OF_ONE, OF_ONE));
    assert_eq!(done.closed, [(Some(Sealer::new(&LOST).key_id()), OF_ONE)].into());
    let places: BTreeSet<&str> = done.closed_places.iter().map(String::as_str).collect();
    for place in [
        "secret/shop/1",
        "provider/main",
        "mcp_server/files",
        "signing/tools/1",
        "answer/POST /v1/webhooks k",
    ] {
        assert!(places.contains(format!("{other}/{place}").as_str()), "{place}: {places:?}");
    }
    assert!(all_opens(&store(&world, &LOST, &[]), other).await, "what can't be opened stays as it is");
    assert!(all_opens(&store(&world, &NEW, &[]), world.tenant).await);
}

/// A column that is added and forgotten in `rewrap/rows.rs` is found here.
#[tokio::test]
async fn all_columns_with_sealed_values_are_known() {
    let world = World::new().await;
    let mut db = world.superuser().await;
    let columns: Vec<(String, String)> = sqlx::query_as(
        "SELECT table_name::text, column_name::text FROM information_schema.columns
         WHERE table_schema = 'public' AND column_name LIKE '%sealed%' ORDER BY 1, 2",
    )
    .fetch_all(&mut db)
    .await
    .expect("columns");
    fill(&world.store, world.tenant).await;
    fill_operators(&world.store).await;
    let kept: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM idempotency_keys WHERE (headers ->> 'sealed')::boolean AND tenant_id <> $1",
    )
    .bind(uuid::Uuid::nil())
    .fetch_one(&mut db)
    .await
    .expect("a count");
    let mut filled = kept;
    for (table, column) in &columns {
        let count = format!("SELECT count({column}) FROM {table}");
        let found: i64 = sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(&mut db).await.expect("a count");
        assert_eq!(
            found, 1,
            "{table}.{column}: this test fills it, and `answerable secrets rewrap` must know it"
        );
        filled += found;
    }
    assert_eq!(filled as u64, OF_ONE);
    let found = world.store.sealed_values(Wrapping::Stays).await.expect("looked");
    assert_eq!(found.by_key.into_values().sum::<u64>(), OF_ONE + 1);
}

/// A tenant with more than one batch, and its values changed in the midst of it: what was stored meanwhile stays.
#[tokio::test]
async fn values_that_are_stored_meanwhile_stay() {
    const SECRETS: usize = 450;
    let world = World::new().await;
    let mut tx = world.tx().await;
    for n in 0..SECRETS {
        tx.secret_put(&format!("s{n}"), &"canary-old".into()).await.expect("a secret");
    }
    tx.commit().await.expect("committed");
    let both = store(&world, &NEW, &[&OLD]);
    let storing = async {
        for n in (0..SECRETS).rev().step_by(3) {
            let mut tx = both.tenant(world.tenant).await.expect("tx");
            tx.secret_put(&format!("s{n}"), &"canary-new".into()).await.expect("a secret");
            tx.commit().await.expect("committed");
        }
    };
    let wrapper = store(&world, &NEW, &[&OLD]);
    let ((), wrapped) = tokio::join!(storing, wrapper.sealed_values(Wrapping::Anew));
    assert_eq!(wrapped.expect("wrapped").closed_count(), 0);
    wrapper.sealed_values(Wrapping::Anew).await.expect("the rest");
    let names: Vec<String> = (0..SECRETS).map(|n| format!("s{n}")).collect();
    let new = store(&world, &NEW, &[]);
    let values = new.tenant(world.tenant).await.expect("tx").secrets_open(&names).await.expect("all open");
    for n in 0..SECRETS {
        let wanted = if (SECRETS - 1 - n).is_multiple_of(3) { "canary-new" } else { "canary-old" };
        assert_eq!(values[&names[n]].expose_secret(), wanted, "s{n}");
    }
}

/// More of some kinds than are taken in one go, with others between them.
#[tokio::test]
async fn each_is_met_once_however_many_there_are() {
    const MANY: u64 = 230;
    let world = World::new().await;
    let old = store(&world, &OLD, &[]);
    let mut tx = old.tenant(world.tenant).await.expect("tx");
    tx.secret_put("shop", &"x".into()).await.expect("a secret");
    let new = NewWebhook {
        url: "https://hooks.example/".into(),
        events: vec!["*".into()],
        description: None,
        include_input: false,
    };
    for number in 0..MANY {
        let (webhook, _) = tx.webhook_create(&new).await.expect("a webhook");
        if number == 0 {
            tx.webhook_rotate(answerable_core::id::WebhookId(webhook.webhook_id)).await.expect("rotated");
        }
        for (key, secret) in [(format!("k{number}"), true), (format!("plain{number}"), false)] {
            assert_eq!(tx.request_begin(&request(&key)).await.expect("begun"), Kept::New);
            tx.answer_keep(&request(&key), &KeptAnswer { secret, ..answer() }).await.expect("kept");
        }
    }
    tx.commit().await.expect("committed");
    let both = store(&world, &NEW, &[&OLD]);
    let all = 2 * MANY + 2;
    assert_eq!(both.sealed_values(Wrapping::Anew).await.expect("wrapped anew").rewrapped, all);
    let again = both.sealed_values(Wrapping::Anew).await.expect("looked");
    assert_eq!((again.rewrapped, again.by_key), (0, [(Sealer::new(&NEW).key_id(), all)].into()));
}
