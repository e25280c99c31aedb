//! The record of who did what: with each act, in one chain, and never changed.

use answerable_core::audit::{Action, Actor, Chain, Entry, Origin, Place};
use answerable_core::id::{AgentId, KeyId, TenantId};
use answerable_store::{AuditFilter, DecisionWord, NewKey, StoreError};
use futures::future::join_all;
use serde_json::{Map, Value, json};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use uuid::Uuid;

use crate::world::{World, decision};

fn oldest_first() -> AuditFilter {
    AuditFilter { ascending: true, ..AuditFilter::default() }
}

async fn entries(world: &World, filter: &AuditFilter) -> Vec<Entry> {
    world.tx().await.audit_list(filter, 1000).await.expect("entries")
}

async fn operators(world: &World) -> Vec<Entry> {
    let mut tx = world.store.system().await.expect("a transaction");
    tx.operator_audit_list(&oldest_first(), 1000).await.expect("entries")
}

/// Names of what was done, oldest first, without the making of the tenant.
async fn done(world: &World) -> Vec<String> {
    entries(world, &oldest_first()).await.into_iter().skip(1).map(|entry| entry.action).collect()
}

#[track_caller]
fn holds(entries: &[Entry]) {
    let mut chain = Chain::default();
    for entry in entries {
        chain.check(&entry.to_json()).unwrap_or_else(|fault| panic!("entry {} {fault}", entry.seq));
    }
}

async fn secret_put(world: &World, name: &str) {
    let mut tx = world.tx().await;
    tx.secret_put(name, &"s".into()).await.expect("stored");
    tx.commit().await.expect("committed");
}

#[tokio::test]
async fn an_act_and_its_entry_are_there_together_or_not_at_all() {
    let world = World::new().await;
    let mut tx = world.tx().await;
    let place = Place { address: Some("192.0.2.7".into()), ..Place::default() };
    let key_id = KeyId(Uuid::now_v7());
    tx.asked_by(Origin { actor: Actor::Key { key_id, user: Some("ann".into()) }, place });
    tx.secret_put("shop", &"s-1".into()).await.expect("stored");
    assert_eq!(done(&world).await, [""; 0], "it isn't committed yet");
    tx.commit().await.expect("committed");
    let mut dropped = world.tx().await;
    dropped.secret_put("other", &"s-2".into()).await.expect("stored");
    drop(dropped);
    let all = entries(&world, &oldest_first()).await;
    holds(&all);
    let [made, put] = &all[..] else { panic!("{all:?}") };
    assert_eq!((made.action.as_str(), &made.actor["kind"]), ("tenant.create", &json!("server")));
    assert_eq!(put.actor, json!({"kind": "key", "key_id": key_id, "user": "ann"}));
    assert_eq!(put.target, json!({"type": "secret", "id": "shop"}));
    assert_eq!((&put.from["address"], &put.detail), (&json!("192.0.2.7"), &json!({"version": 1})));
    assert!(!put.to_json().to_string().contains("s-1"));
}

#[tokio::test]
async fn acts_at_once_make_one_chain() {
    let world = World::new().await;
    let world = &world;
    let acts = (0..60).map(|n| async move {
        let mut tx = world.tx().await;
        tx.secret_put(&format!("a{n}"), &"s".into()).await.expect("stored");
        tx.secret_put(&format!("b{n}"), &"s".into()).await.expect("stored");
        if n % 3 != 0 {
            tx.commit().await.expect("committed");
        }
    });
    join_all(acts).await;
    let all = entries(world, &oldest_first()).await;
    holds(&all);
    assert_eq!(all.len(), 1 + 80);
    assert!(all.windows(2).all(|pair| pair[0].at <= pair[1].at), "times go back");
    for pair in all[1..].chunks(2) {
        let number = |entry: &Entry| entry.target["id"].as_str().expect("a name")[1..].to_owned();
        assert_eq!(number(&pair[0]), number(&pair[1]), "what was done at once stands together");
    }
}

#[tokio::test]
async fn what_changes_nothing_leaves_nothing() {
    let world = World::new().await;
    let spec = serde_json::from_value(crate::world::agent()).expect("an agent");
    let mut tx = world.tx().await;
    let agent = AgentId(tx.agent_create(&spec).await.expect("stored").agent_id);
    tx.commit().await.expect("committed");
    let run = world.waiting(&[("pay", json!({"amount": 5}))]).await;
    let approval = world.pending(run).await[0].approval_id;
    for _ in 0..2 {
        let mut tx = world.tx().await;
        assert!(tx.agent_archive(agent).await.expect("an answer"));
        assert!(!tx.secret_delete("none").await.expect("an answer"));
        assert!(!tx.provider_delete("none").await.expect("an answer"));
        tx.commit().await.expect("committed");
        world.decide(approval, decision(DecisionWord::Approve), "key_1").await.expect("decided");
        let mut tx = world.tx().await;
        assert!(tx.run_cancel(run, None).await.expect("an answer"));
        tx.commit().await.expect("committed");
    }
    assert_eq!(done(&world).await, ["agent.create", "agent.archive", "approval.decide", "run.cancel"]);
}

#[tokio::test]
async fn a_key_that_is_revoked_twice_is_so_once() {
    let world = World::new().await;
    let key = NewKey {
        key_id: KeyId(Uuid::now_v7()),
        name: "desk".into(),
        secret_hash: [9; 32],
        scopes: vec!["runs:read".into()],
        expires_at: None,
    };
    let mut tx = world.store.system().await.expect("a transaction");
    tx.key_create(world.tenant, &key).await.expect("an answer").expect("a key");
    for _ in 0..2 {
        assert!(tx.key_revoke(world.tenant, key.key_id).await.expect("an answer"));
    }
    assert!(!tx.key_revoke(world.tenant, KeyId(Uuid::now_v7())).await.expect("an answer"));
    tx.commit().await.expect("committed");
    let all = entries(&world, &oldest_first()).await;
    holds(&all);
    assert_eq!(done(&world).await, ["key.create", "key.revoke"]);
    assert_eq!(all[1].detail, json!({"name": "desk", "scopes": ["runs:read"]}));
}

#[tokio::test]
async fn votes_and_verdicts_are_told_apart() {
    let world = World::new().await;
    let run = world.waiting(&[("both", json!({"amount": 5}))]).await;
    let approval = world.pending(run).await[0].clone();
    for by in ["user:ann", "user:ann", "user:bob"] {
        world.decide(approval.approval_id, decision(DecisionWord::Approve), by).await.expect("a vote");
    }
    let all = entries(&world, &oldest_first()).await;
    let [_, vote, verdict] = &all[..] else { panic!("{all:?}") };
    assert_eq!((vote.action.as_str(), &vote.detail["votes"]), ("approval.vote", &json!(1)));
    assert_eq!(verdict.action, "approval.decide");
    let hash = approval.input_hash.expect("a hash");
    for (name, value) in [("run_id", json!(run)), ("approved_hash", json!(hash)), ("required", json!(2))] {
        assert_eq!(verdict.detail[name], value, "{name}");
    }
    assert!(verdict.detail.get("input").is_none());
}

#[tokio::test]
async fn nobody_changes_what_is_written() {
    let world = World::new().await;
    secret_put(&world, "shop").await;
    let before = entries(&world, &oldest_first()).await;
    let statements = [
        "UPDATE audit SET action = 'key.revoke'",
        "UPDATE audit SET seq = seq + 1",
        "DELETE FROM audit",
        "TRUNCATE audit",
        "UPDATE audit_heads SET seq = seq - 1",
        "UPDATE audit_heads SET hash = 'x'",
        "DELETE FROM audit_heads",
        "TRUNCATE audit_heads CASCADE",
    ];
    for statement in statements {
        let mut superuser = world.superuser().await;
        for role in ["answerable_app", "answerable_system", "none"] {
            let mut tx = superuser.begin().await.expect("a transaction");
            let become_role = format!("SET LOCAL ROLE {role}; SET LOCAL app.tenant = '{}'", world.tenant.0);
            sqlx::raw_sql(AssertSqlSafe(become_role)).execute(&mut *tx).await.expect("the role");
            let done = sqlx::query(statement).execute(&mut *tx).await;
            assert!(done.is_err(), "{statement} as {role}: {done:?}");
        }
    }
    assert_eq!(entries(&world, &oldest_first()).await, before);
    let forged = "INSERT INTO audit SELECT $1, seq + 1, audit_id, at, actor, action, target, origin, detail, hash, hash
                  FROM audit ORDER BY seq DESC LIMIT 1";
    let stranger = world.another_tenant().await;
    let mut superuser = world.superuser().await;
    let mut tx = superuser.begin().await.expect("a transaction");
    let become_app = format!("SET LOCAL ROLE answerable_app; SET LOCAL app.tenant = '{}'", world.tenant.0);
    sqlx::raw_sql(AssertSqlSafe(become_app)).execute(&mut *tx).await.expect("the role");
    let done = sqlx::query(forged).bind(stranger.0).execute(&mut *tx).await;
    assert!(done.is_err(), "an entry in another's chain");
}

/// Does what only somebody can who owns the database, and means it.
async fn tamper(world: &World, statement: &'static str) {
    let mut superuser: PgConnection = world.superuser().await;
    sqlx::raw_sql("SET session_replication_role = replica")
        .execute(&mut superuser)
        .await
        .expect("no triggers");
    let done = sqlx::query(statement).bind(world.tenant.0).execute(&mut superuser).await.expect(statement);
    assert!(done.rows_affected() > 0, "{statement}");
}

#[tokio::test]
async fn whoever_gets_past_that_is_found_out() {
    for (statement, broken) in [
        ("UPDATE audit SET action = 'secret.delete' WHERE tenant_id = $1 AND seq = 3", 3),
        ("UPDATE audit SET detail = '{\"version\": 2}' WHERE tenant_id = $1 AND seq = 2", 2),
        ("UPDATE audit SET at = at - interval '1 day' WHERE tenant_id = $1 AND seq = 4", 4),
        ("UPDATE audit SET actor = '{\"kind\": \"operator\"}' WHERE tenant_id = $1 AND seq = 2", 2),
        ("DELETE FROM audit WHERE tenant_id = $1 AND seq = 3", 4),
        (
            "UPDATE audit SET seq = CASE seq WHEN 2 THEN 13 ELSE 12 END WHERE tenant_id = $1 AND seq IN (2, 3)",
            4,
        ),
    ] {
        let world = World::new().await;
        for name in ["a", "b", "c", "d"] {
            secret_put(&world, name).await;
        }
        holds(&entries(&world, &oldest_first()).await);
        tamper(&world, statement).await;
        let mut chain = Chain::default();
        let shown = entries(&world, &oldest_first()).await;
        let fault = shown.iter().find(|entry| chain.check(&entry.to_json()).is_err());
        assert_eq!(fault.map(|entry| entry.seq), Some(broken), "{statement}");
    }
}

#[tokio::test]
async fn a_tenants_record_goes_with_it_and_the_operators_says_so() {
    let world = World::new().await;
    secret_put(&world, "shop").await;
    let last = entries(&world, &oldest_first()).await.pop().expect("an entry");
    let mut tx = world.tx().await;
    tx.asked_by(Origin { actor: Actor::Operator, place: Place::default() });
    assert!(tx.tenant_delete().await.expect("an answer"));
    tx.commit().await.expect("committed");
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM audit WHERE tenant_id = $1")
        .bind(world.tenant.0)
        .fetch_one(&mut world.superuser().await)
        .await
        .expect("a count");
    assert_eq!(left, 0);
    let all = operators(&world).await;
    holds(&all);
    let [made, gone] = &all[..] else { panic!("{all:?}") };
    assert_eq!((made.action.as_str(), made.tenant_id), ("tenant.create", None));
    assert_eq!(gone.action, "tenant.delete");
    assert_eq!(gone.target["id"], json!(world.tenant));
    assert_eq!(gone.actor["kind"], "operator");
    assert_eq!(gone.detail, json!({"audit_seq": last.seq, "audit_hash": last.hash}));
    let mut tx = world.store.system().await.expect("a transaction");
    let of_tenant = tx.tenant_audit_list(world.tenant, &oldest_first(), 9).await.expect("an answer");
    assert!(of_tenant.is_none());
}

#[tokio::test]
async fn acts_and_the_deletion_of_their_tenant_at_once_leave_nothing_behind() {
    for _ in 0..6 {
        let world = World::new().await;
        let deletion = async {
            let mut tx = world.tx().await;
            assert!(tx.tenant_delete().await.expect("an answer"));
            tx.commit().await.expect("committed");
        };
        let world = &world;
        let acts = (0..12).map(|n| async move {
            let mut tx = world.tx().await;
            // Fails where the tenant is gone already.
            match tx.secret_put(&format!("a{n}"), &"s".into()).await {
                Ok(_) => tx.commit().await.expect("committed"),
                Err(StoreError::Broken(why)) => assert!(why.contains("fkey"), "{why}"),
                Err(other) => panic!("{other}"),
            }
        });
        tokio::join!(join_all(acts), deletion);
        for table in ["audit", "audit_heads"] {
            let count = format!("SELECT count(*) FROM {table} WHERE tenant_id = $1");
            let left: i64 = sqlx::query_scalar(AssertSqlSafe(count))
                .bind(world.tenant.0)
                .fetch_one(&mut world.superuser().await)
                .await
                .expect("a count");
            assert_eq!(left, 0, "{table}");
        }
        holds(&operators(world).await);
    }
}

#[tokio::test]
async fn a_tenant_of_an_older_server_gets_its_chain_with_the_first_act() {
    let world = World::new().await;
    let older = TenantId(Uuid::now_v7());
    let insert =
        "INSERT INTO tenants (tenant_id, name, quotas, trust_traceparent) VALUES ($1, 'old', '{}', false)";
    sqlx::query(insert).bind(older.0).execute(&mut world.superuser().await).await.expect("a tenant");
    let acts = ["a", "b", "c"].map(|name| {
        let store = world.store.clone();
        async move {
            let mut tx = store.tenant(older).await.expect("a transaction");
            tx.secret_put(name, &"s".into()).await.expect("stored");
            tx.commit().await.expect("committed");
        }
    });
    join_all(acts).await;
    let mut tx = world.store.tenant(older).await.expect("a transaction");
    let all = tx.audit_list(&oldest_first(), 10).await.expect("entries");
    holds(&all);
    assert_eq!(all.len(), 3);
}

#[tokio::test]
async fn entries_are_found_by_what_they_say() {
    let world = World::new().await;
    let (key, other) = (KeyId(Uuid::now_v7()), KeyId(Uuid::now_v7()));
    for (name, key_id, user) in [("a", key, None), ("b", key, Some("ann")), ("c", other, Some("ann"))] {
        let mut tx = world.tx().await;
        let actor = Actor::Key { key_id, user: user.map(str::to_owned) };
        tx.asked_by(Origin { actor, place: Place::default() });
        tx.secret_put(name, &"s".into()).await.expect("stored");
        tx.secret_delete(name).await.expect("deleted");
        tx.commit().await.expect("committed");
    }
    let world = &world;
    let found = async |filter: AuditFilter| -> Vec<i64> {
        entries(world, &filter).await.iter().map(|entry| entry.seq).collect()
    };
    let by = |actor: &str| AuditFilter { actor: Some(actor.into()), ..oldest_first() };
    assert_eq!(found(by(&key.to_string())).await, [2, 3, 4, 5]);
    assert_eq!(found(by("user:ann")).await, [4, 5, 6, 7]);
    assert_eq!(found(by("server")).await, [1]);
    let what = |action: &str| AuditFilter { action: Some(action.into()), ..oldest_first() };
    assert_eq!(found(what(Action::SecretPut.as_str())).await, [2, 4, 6]);
    assert_eq!(found(what("secret.*")).await, [2, 3, 4, 5, 6, 7]);
    assert_eq!(found(what("tenant.*")).await, [1]);
    let to = |target: &str| AuditFilter { target: Some(target.into()), ..oldest_first() };
    assert_eq!(found(to("b")).await, [4, 5]);
    assert_eq!(found(AuditFilter { after: Some(5), ..oldest_first() }).await, [6, 7]);
    assert_eq!(found(AuditFilter::default()).await, [7, 6, 5, 4, 3, 2, 1]);
    let page = AuditFilter { page_after: Some(4), ..AuditFilter::default() };
    assert_eq!(found(page).await, [3, 2, 1]);
    let page = AuditFilter { page_after: Some(4), ..oldest_first() };
    assert_eq!(found(page).await, [5, 6, 7]);
    let third: chrono::DateTime<chrono::Utc> =
        entries(world, &oldest_first()).await.swap_remove(2).at.parse().expect("a time");
    let since = found(AuditFilter { from: Some(third), ..oldest_first() }).await;
    let until = found(AuditFilter { to: Some(third), ..oldest_first() }).await;
    assert!(since.contains(&3) && !until.contains(&3) && since.len() + until.len() == 7);
    let long_ago = third - chrono::TimeDelta::days(1);
    assert_eq!(found(AuditFilter { from: Some(long_ago), ..oldest_first() }).await.len(), 7);
    assert_eq!(found(AuditFilter { to: Some(long_ago), ..oldest_first() }).await, [0; 0]);
    let later = third + chrono::TimeDelta::days(1);
    assert_eq!(found(AuditFilter { from: Some(later), ..oldest_first() }).await, [0; 0]);
    assert_eq!(found(AuditFilter { to: Some(later), ..oldest_first() }).await.len(), 7);
}

#[tokio::test]
async fn an_operator_changes_a_tenant_in_both_records() {
    let world = World::new().await;
    let quotas: Map<String, Value> = Map::from_iter([("weight".to_owned(), json!(3))]);
    let mut tx = world.store.system().await.expect("a transaction");
    tx.tenant_update(world.tenant, Some("new"), &quotas, None).await.expect("an answer").expect("a tenant");
    tx.commit().await.expect("committed");
    let all = entries(&world, &oldest_first()).await;
    holds(&all);
    assert_eq!(all[1].action, "tenant.update");
    assert_eq!(all[1].detail["before"]["name"], "a shop");
    assert_eq!(
        all[1].detail["after"],
        json!({"name": "new", "quotas": {"weight": 3}, "trust_traceparent": false})
    );
    let theirs = operators(&world).await;
    holds(&theirs);
    assert_eq!((theirs.len(), &theirs[1].detail), (2, &all[1].detail));
}
