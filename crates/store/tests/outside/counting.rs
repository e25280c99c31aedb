//! What a tenant has is counted as it is, and the last place of a limit goes to one.

use std::sync::Arc;
use std::time::Duration;

use answerable_core::agent::AgentSpec;
use answerable_core::id::AgentId;
use answerable_core::input::{InputMessage, read_input};
use answerable_ports::{
    Author, Change, Expected, FilesCommitted, NewContent, Workspace, WorkspaceCommit, WorkspaceStore,
};
use answerable_store::{AgentUpdated, Counted, Full, NewWebhook, RunRefused, TenantTx, Workspaces};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::join_all;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::files::shelf::Shelf;
use crate::tenancy::full;
use crate::world::World;

/// Each kind, and what there is of it.
const THERE_IS: [(&str, &str); 10] = [
    ("agents", "SELECT count(*) FROM agents WHERE archived_at IS NULL"),
    ("threads", "SELECT count(*) FROM threads WHERE deleted_at IS NULL"),
    ("webhooks", "SELECT count(*) FROM webhooks WHERE true"),
    ("secrets", "SELECT count(*) FROM secrets WHERE true"),
    ("schedules", "SELECT count(*) FROM schedules WHERE true"),
    ("providers", "SELECT count(*) FROM providers WHERE true"),
    ("mcp_servers", "SELECT count(*) FROM mcp_servers WHERE true"),
    ("keys", "SELECT count(*) FROM api_keys WHERE revoked_at IS NULL"),
    ("artifact_bytes", "SELECT coalesce(sum(bytes), 0)::bigint FROM artifacts WHERE true"),
    ("workspace_bytes", "SELECT coalesce(sum(bytes), 0)::bigint FROM workspaces WHERE true"),
];

/// Counted and real, by kind.
async fn counts(world: &World) -> Vec<(&'static str, i64, i64)> {
    let mut db = world.superuser().await;
    let mut all = Vec::new();
    for (kind, there_is) in THERE_IS {
        let counted =
            "SELECT coalesce(sum(used), 0)::bigint FROM tenant_counts WHERE tenant_id = $1 AND kind = $2";
        let counted: i64 = sqlx::query_scalar(counted)
            .bind(world.tenant.0)
            .bind(kind)
            .fetch_one(&mut db)
            .await
            .expect("a count");
        let there_is = AssertSqlSafe(format!("{there_is} AND tenant_id = $1"));
        let real: i64 =
            sqlx::query_scalar(there_is).bind(world.tenant.0).fetch_one(&mut db).await.expect("a count");
        all.push((kind, counted, real));
    }
    all
}

fn assert_right(counts: &[(&str, i64, i64)]) {
    for (kind, counted, real) in counts {
        assert_eq!(counted, real, "{kind}");
    }
}

#[tokio::test]
async fn whatever_comes_and_goes_is_counted() {
    let world = World::new().await;
    let files = Workspaces::new(world.store.clone(), Arc::new(Shelf::default()));
    full::fill(&world, &files, "counted").await;
    let mut db = world.superuser().await;
    let schedule = "INSERT INTO schedules (tenant_id, schedule_id, name, cron, timezone, run, skip_if_running, metadata,
            created_by, updated_by, asker, creators, as_admin, created_at, updated_at, dealt_until)
        VALUES ($1, gen_random_uuid(), 's', '@daily', 'UTC', '{}', true, '{}', 'k', 'k', 'k', '{}', true, now(), now(), now())";
    sqlx::query(schedule).bind(world.tenant.0).execute(&mut db).await.expect("a schedule");
    let webhook = NewWebhook {
        url: "https://hooks.example/".into(),
        events: vec!["*".into()],
        description: None,
        include_input: false,
    };
    let mut tx = world.tx().await;
    tx.webhook_create(&webhook).await.expect("a webhook");
    tx.commit().await.expect("committed");
    let filled = counts(&world).await;
    assert_right(&filled);
    for (kind, counted, _) in &filled {
        assert!(*counted > 0, "there is none of {kind}: {filled:?}");
    }
    // As whoever owns the tables, and so that rows go with others.
    for statement in [
        "UPDATE agents SET archived_at = now()",
        "UPDATE agents SET archived_at = NULL",
        "UPDATE threads SET deleted_at = now()",
        "UPDATE api_keys SET revoked_at = now(), last_used_at = now()",
        "INSERT INTO secrets (tenant_id, name, version, sealed) SELECT tenant_id, name, 1, '' FROM secrets
         ON CONFLICT (tenant_id, name) DO UPDATE SET version = secrets.version + 1",
        "DELETE FROM runs WHERE run_id IN (SELECT run_id FROM artifacts LIMIT 1)",
        "DELETE FROM webhooks",
        "DELETE FROM schedules",
        "DELETE FROM mcp_servers",
        "UPDATE workspaces SET bytes = bytes + 5",
        "DELETE FROM runs",
    ] {
        sqlx::query(statement).execute(&mut db).await.expect(statement);
        assert_right(&counts(&world).await);
    }
    let mut tx = world.tx().await;
    assert!(tx.tenant_delete().await.expect("deleted"));
    tx.commit().await.expect("committed");
    assert!(counts(&world).await.iter().all(|(_, counted, real)| (*counted, *real) == (0, 0)));
    let left: i64 =
        sqlx::query_scalar("SELECT count(*) FROM tenant_counts").fetch_one(&mut db).await.expect("a count");
    assert_eq!(left, 0);
}

/// Makes one of a kind, if there is room.
async fn make(mut tx: TenantTx, of: Counted, number: usize) -> Result<(), Full> {
    tx.room_for(of, 1).await.expect("an answer")?;
    match of {
        Counted::Agents => {
            let spec = serde_json::from_value(crate::world::agent()).expect("an agent");
            tx.agent_create(&spec).await.map(drop).expect("an agent");
        }
        Counted::Threads => tx.thread_create(&Default::default()).await.map(drop).expect("a thread"),
        Counted::Webhooks => {
            let new = NewWebhook {
                url: "https://hooks.example/".into(),
                events: vec!["*".into()],
                description: None,
                include_input: false,
            };
            tx.webhook_create(&new).await.map(drop).expect("a webhook");
        }
        _ => tx.secret_put(&format!("s{number}"), &"x".into()).await.map(drop).expect("a secret"),
    }
    tx.commit().await.expect("committed");
    Ok(())
}

#[tokio::test]
async fn of_a_hundred_at_the_last_place_one_is_admitted() {
    for of in [Counted::Agents, Counted::Threads, Counted::Webhooks, Counted::Secrets] {
        let quota = of.quota().expect("a quota");
        let world = World::with_quotas(json!({quota: 3})).await;
        for number in 0..2 {
            make(world.tx().await, of, 1000 + number).await.expect("room");
        }
        let world = &world;
        let tries = (0..100).map(|number| async move { make(world.tx().await, of, number).await });
        let made = join_all(tries).await;
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1, "{of:?}");
        let refused = made.into_iter().find_map(Result::err).expect("one is refused");
        assert_eq!(refused, Full { of, limit: 3 });
        assert_right(&counts(world).await);
    }
}

/// Far from the limit nobody waits, near it everybody does; the change from the one to the other loses no place, and gives none
/// twice.
#[tokio::test]
async fn from_far_to_near_exactly_as_many_are_admitted_as_there_are_places() {
    const PLACES: i64 = 200;
    const AT_ONCE: i64 = 16;
    let world = World::new().await;
    let tenant = world.tenant.0;
    let one_after_another = async |_: i64| {
        let mut db = PgConnection::connect(world.url()).await.expect("a connection");
        let mut made = 0;
        for _ in 0..20 {
            let mut tx = db.begin().await.expect("begun");
            let as_app = format!("SET LOCAL ROLE answerable_app; SET LOCAL app.tenant = '{tenant}'");
            sqlx::raw_sql(AssertSqlSafe(as_app)).execute(&mut *tx).await.expect("stepped down");
            let room = sqlx::query_scalar::<_, bool>("SELECT count_room($1, 'threads', 1, $2, $3)");
            if room.bind(tenant).bind(PLACES).bind(AT_ONCE).fetch_one(&mut *tx).await.expect("an answer") {
                let insert = "INSERT INTO threads (tenant_id, thread_id, workspace_id) VALUES ($1, gen_random_uuid(), gen_random_uuid())";
                sqlx::query(insert).bind(tenant).execute(&mut *tx).await.expect("a thread");
                tx.commit().await.expect("committed");
                made += 1;
            }
        }
        made
    };
    let made: i64 = join_all((0..AT_ONCE).map(one_after_another)).await.into_iter().sum();
    assert_eq!(made, PLACES);
    assert_right(&counts(&world).await);
}

#[tokio::test]
async fn what_is_counted_holds_nobody_up() {
    let world = World::new().await;
    let mut first = world.tx().await;
    first.thread_create(&Default::default()).await.expect("a thread");
    // The first isn't done yet, and there is no limit near.
    let mut second = world.tx().await;
    second.room_for(Counted::Threads, 1).await.expect("an answer").expect("room");
    second.thread_create(&Default::default()).await.expect("a thread");
    second.commit().await.expect("committed");
    drop(first);
    let all = counts(&world).await;
    assert_right(&all);
    assert_eq!(all[1].1, 1, "what is rolled back is not counted");
}

#[tokio::test]
async fn who_writes_few_bytes_under_a_real_quota_waits_for_nobody() {
    let world = World::with_quotas(json!({"max_artifact_bytes": 1 << 30})).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut tx = world.tx().await;
        let asked = tx.room_for(Counted::ArtifactBytes, 200_000);
        let room = tokio::time::timeout(Duration::from_secs(5), asked).await.expect("in time");
        room.expect("an answer").expect("room");
        open.push(tx);
    }
    // Who brings too much to be one of many is alone, and comes when they are done.
    let mut large = world.tx().await;
    let asked = tokio::spawn(async move { large.room_for(Counted::ArtifactBytes, 30 << 20).await });
    let mut db = world.superuser().await;
    let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND mode = 'ExclusiveLock'
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))";
    while !sqlx::query_scalar::<_, bool>(waits).fetch_one(&mut db).await.expect("an answer") {
        assert!(!asked.is_finished());
    }
    drop(open);
    let room = tokio::time::timeout(Duration::from_secs(5), asked).await.expect("in time");
    room.expect("no panic").expect("an answer").expect("room");
}

/// A message with a picture of so many bytes.
fn picture(bytes: usize) -> Vec<InputMessage> {
    let mut content = b"\x89PNG\r\n\x1a\n".to_vec();
    content.resize(bytes, 7);
    let parts = json!([{"type": "image", "data": STANDARD.encode(content)}]);
    read_input(&json!([{"role": "user", "content": parts}])).expect("an input")
}

#[tokio::test]
async fn a_tenant_with_all_bytes_of_artifacts_starts_no_run() {
    let world = World::with_quotas(json!({"max_artifact_bytes": 100})).await;
    let with = |bytes: usize| {
        let messages = picture(bytes);
        move |new: &mut answerable_store::NewRun| new.messages = messages
    };
    world.start(with(60)).await.expect("room");
    let full = Full { of: Counted::ArtifactBytes, limit: 100 };
    assert_eq!(world.start(with(41)).await, Err(RunRefused::Full(full)), "one byte too many");
    world.start(|_| ()).await.expect("it brings nothing, and there is room yet");
    world.start(with(40)).await.expect("room");
    assert_eq!(world.start(|_| ()).await, Err(RunRefused::Full(full)), "nothing is left");
    assert_right(&counts(&world).await);
}

#[tokio::test]
async fn files_grow_up_to_the_limit_of_all_workspaces() {
    let world = World::with_quotas(json!({"max_workspace_bytes": 100})).await;
    let files = Workspaces::new(world.store.clone(), Arc::new(Shelf::default()));
    let mut tx = world.tx().await;
    let mut workspaces = Vec::new();
    for _ in 0..2 {
        let id = tx.thread_create(&Default::default()).await.expect("a thread").workspace_id;
        workspaces
            .push(Workspace { tenant_id: world.tenant, workspace_id: answerable_core::id::WorkspaceId(id) });
    }
    tx.commit().await.expect("committed");
    let write = async |at: usize, path: &str, bytes: usize| {
        let content = NewContent { bytes: vec![7; bytes].into(), media_type: None };
        let path = answerable_core::workspace::FilePath::parse(path).expect("a path");
        let changes = vec![Change { path, expected: Expected::Anything, content: Some(content) }];
        let commit =
            WorkspaceCommit { workspace: workspaces[at], by: Author::Caller("user:ann".into()), changes };
        files.commit(commit).await.expect("an answer")
    };
    let is_stored = |committed: &FilesCommitted| matches!(committed, FilesCommitted::Stored { .. });
    assert!(is_stored(&write(0, "a", 60).await));
    let refused = write(1, "b", 41).await;
    let FilesCommitted::Full(words) = refused else { panic!("{refused:?}") };
    assert!(words.contains("max_workspace_bytes"), "{words}");
    assert!(is_stored(&write(0, "a", 50).await), "what shrinks is let be");
    let many = join_all((0..20).map(|n| write(n % 2, if n % 2 == 0 { "c" } else { "d" }, 50))).await;
    assert!(many.iter().any(is_stored) && !many.iter().all(is_stored));
    let all = counts(&world).await;
    assert_right(&all);
    assert_eq!(all[9].1, 100, "one of them had the last place, and wrote there again and again");
    let full = Full { of: Counted::WorkspaceBytes, limit: 100 };
    assert_eq!(world.start(|_| ()).await, Err(RunRefused::Full(full)));
}

#[tokio::test]
async fn an_agent_has_ten_thousand_versions() {
    let world = World::new().await;
    let spec = |words: &str| {
        let mut agent = crate::world::agent();
        agent["instructions"] = words.into();
        serde_json::from_value::<AgentSpec>(agent).expect("an agent")
    };
    let mut tx = world.tx().await;
    let made = tx.agent_create(&spec("first")).await.expect("an agent");
    tx.commit().await.expect("committed");
    let mut db = world.superuser().await;
    let nearly = sqlx::query("UPDATE agents SET version = 9999 WHERE agent_id = $1").bind(made.agent_id);
    nearly.execute(&mut db).await.expect("set");
    let mut tx = world.tx().await;
    let agent = AgentId(made.agent_id);
    let last = tx.agent_update(agent, &spec("last")).await.expect("an answer");
    assert!(matches!(&last, AgentUpdated::Stored(row) if row.version == 10_000), "{last:?}");
    assert_eq!(tx.agent_update(agent, &spec("more")).await.expect("an answer"), AgentUpdated::Full(10_000));
    let newest = tx.agent_fetch(agent, None).await.expect("an answer").expect("it is there");
    assert_eq!((newest.version, newest.spec["instructions"].as_str()), (10_000, Some("last")));
}
