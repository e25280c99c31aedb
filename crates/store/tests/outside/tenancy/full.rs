//! A tenant with rows in every table, and a word that all it wrote holds.

use std::collections::BTreeMap;

use answerable_core::agent::AgentSpec;
use answerable_core::id::{AgentId, CallId, KeyId, RunId, TenantId, ThreadId, WorkspaceId};
use answerable_core::input::InputMessage;
use answerable_core::run::Event;
use answerable_core::tool::{Attempt, Output};
use answerable_core::workspace::FilePath;
use answerable_ports::commit::Release;
use answerable_ports::{
    Author, Change, Expected, FilesCommitted, McpPlace, NewContent, PlaceWanted, Placed, RunStore, Workspace,
    WorkspaceCommit, WorkspaceStore,
};
use answerable_store::{McpServerPut, NewKey, ProviderPut, Workspaces};
use serde_json::json;
use uuid::Uuid;

use crate::deleting::with_everything;
use crate::world::{World, first_step, new_call};

/// Makes the world's tenant have rows everywhere. `word` stands in whatever it says.
pub(crate) async fn fill(world: &World, files: &Workspaces, word: &str) {
    settings(world, word).await;
    let (agent, thread, workspace) = agent_and_thread(world, word).await;
    contents(world, files, workspace, word).await;
    live_run(world, agent, thread, word).await;
    let run = with_everything(world).await;
    leftovers(world, run, word).await;
    // Last: what was judged before it would have to be judged again.
    let mut tx = world.tx().await;
    let policy = json!({"rules": [{"tool": "never", "effect": "deny", "reason": word}]});
    tx.policy_put(&policy, &format!("user:{word}")).await.expect("a policy");
    tx.commit().await.expect("committed");
}

async fn settings(world: &World, word: &str) {
    let mut tx = world.tx().await;
    tx.secret_put(&format!("s-{word}"), &word.into()).await.expect("a secret");
    tx.signing_secret_rotate().await.expect("signing secrets");
    let provider = ProviderPut {
        kind: "openai_chat".into(),
        base_url: format!("https://{word}.example/v1"),
        api_key: Some(Some(word.into())),
        headers: BTreeMap::from([(format!("x-{word}"), word.into())]),
        prices: json!({}),
        options: json!({}),
        script: json!([]),
    };
    tx.provider_put(&format!("p-{word}"), &provider).await.expect("a provider");
    let url = McpPlace::Url { url: format!("https://{word}.example/mcp"), headers: BTreeMap::new() };
    let server = McpServerPut { place: url, timeout_ms: 1_000 };
    tx.mcp_server_put(&format!("m-{word}"), &server).await.expect("a server");
    tx.commit().await.expect("committed");
    let key = NewKey {
        key_id: KeyId(Uuid::now_v7()),
        // The operator gives it, and it stays in the operator's record.
        name: "desk".into(),
        secret_hash: [9; 32],
        scopes: vec!["admin".into()],
        expires_at: None,
    };
    let mut tx = world.store.system().await.expect("a transaction");
    tx.key_create(world.tenant, &key).await.expect("an answer").expect("a key");
    tx.commit().await.expect("committed");
}

async fn agent_and_thread(world: &World, word: &str) -> (AgentId, ThreadId, Workspace) {
    let mut tx = world.tx().await;
    let mut spec = crate::world::agent();
    spec["name"] = json!(format!("a-{word}"));
    let spec: AgentSpec = serde_json::from_value(spec).expect("an agent");
    let agent = AgentId(tx.agent_create(&spec).await.expect("an agent").agent_id);
    let metadata = BTreeMap::from([("topic".to_owned(), word.to_owned())]);
    let thread = tx.thread_create(&metadata).await.expect("a thread");
    tx.commit().await.expect("committed");
    let workspace_id = WorkspaceId(thread.workspace_id);
    (agent, ThreadId(thread.thread_id), Workspace { tenant_id: world.tenant, workspace_id })
}

/// A file that the database holds, one in object storage, and one whose object is still to be taken away.
async fn contents(world: &World, files: &Workspaces, workspace: Workspace, word: &str) {
    let large = format!("{word} ").repeat((64 << 10) / word.len() + 1);
    for (name, content) in [("small", word.to_owned()), ("large", large.clone()), ("going", large + "!")] {
        let content = NewContent { bytes: content.into(), media_type: None };
        let path = FilePath::parse(&format!("{name}-{word}.txt")).expect("a path");
        let changes = vec![Change { path, expected: Expected::Anything, content: Some(content) }];
        let commit = WorkspaceCommit { workspace, by: Author::Caller(format!("user:{word}")), changes };
        let stored = files.commit(commit).await.expect("an answer");
        assert!(matches!(stored, FilesCommitted::Stored { .. }), "{stored:?}");
    }
    let word_of_it = "WITH going AS (
             DELETE FROM workspace_files WHERE tenant_id = $1 AND starts_with(path, 'going-') RETURNING sha256
         ), row AS (
             SELECT b.* FROM blobs b JOIN going g ON b.tenant_id = $1 AND b.sha256 = g.sha256
         )
         INSERT INTO gone_objects (object, tenant_id, sha256) SELECT object, $1, sha256 FROM row";
    let mut superuser = world.superuser().await;
    let written =
        sqlx::query(word_of_it).bind(world.tenant.0).execute(&mut superuser).await.expect("written");
    assert_eq!(written.rows_affected(), 1);
}

/// A run at work: it holds a lease and a place among a tool's calls, and its server exports spans.
async fn live_run(world: &World, agent: AgentId, thread: ThreadId, word: &str) {
    let change = |new: &mut answerable_store::NewRun| {
        new.agent = Some((agent, 1));
        new.thread_id = Some(thread);
        new.messages = vec![InputMessage::of_user(format!("do {word}"))];
        new.context = json!({"customer": word});
        new.metadata = json!({"order": word});
        new.concurrency_key = Some(word.into());
    };
    let run = world.start(change).await.expect("a run");
    let lease = world.claim(run).await;
    let at = world.now().await;
    let call = new_call(&world.registry(), "mail", &json!({"to": word}), at);
    let id = call.id;
    let mut events = first_step(at, vec![call]);
    let outcome = Attempt::Succeeded(Output::plain(format!("sent to {word}")));
    events.push(Event::ToolAttempted { at, call: id, outcome, jitter: 0 });
    world.fold(lease, events, Release::Keep).await;
    let wanted = PlaceWanted {
        tool_name: "mail".into(),
        call_id: CallId(Uuid::now_v7()),
        attempt: 1,
        max_concurrent: Some(5),
        rate: Some(serde_json::from_value(json!({"calls": 5, "per_ms": 60_000})).expect("a rate")),
        hold: std::time::Duration::from_secs(60),
    };
    let placed = world.engine.take_place(lease, &wanted).await.expect("an answer");
    assert_eq!(placed, Placed::Taken);
    let place =
        answerable_ports::PlaceTaken { tool_name: wanted.tool_name, call_id: wanted.call_id, attempt: 1 };
    world.engine.free_place(lease, &place, true).await.expect("given back");
}

/// What only time, an accident or another kind of server would leave.
async fn leftovers(world: &World, run: RunId, word: &str) {
    let mut superuser = world.superuser().await;
    for insert in [
        "INSERT INTO span_outbox (tenant_id, run_id, seq) SELECT $1, $2, 1 WHERE $3 <> ''",
        "INSERT INTO day_use (tenant_id, day, part, tokens, cost_microusd)
         SELECT $1, current_date, 77, 1, 1 WHERE $2::uuid IS NOT NULL AND $3 <> ''",
        "INSERT INTO usage_days (tenant_id, day, agent_id, model, part, runs, model_runs, steps, model_calls, tool_calls,
             input_tokens, cached_input_tokens, output_tokens, cost_microusd)
         VALUES ($1, current_date, $2, $3, 77, 1, 1, 1, 1, 1, 1, 1, 1, 1)",
        "INSERT INTO request_windows (tenant_id, began, taken)
         SELECT $1, now(), 1 WHERE $2::uuid IS NOT NULL AND $3 <> ''",
        "INSERT INTO suspensions (tenant_id, began_at, until)
         SELECT $1, now(), now() WHERE $2::uuid IS NOT NULL AND $3 <> ''",
        "WITH schedule AS (
             INSERT INTO schedules (tenant_id, schedule_id, name, cron, timezone, run, skip_if_running, metadata, created_by,
                 updated_by, asker, creators, as_admin, created_at, updated_at, dealt_until)
             VALUES ($1, gen_random_uuid(), $3, '@daily', 'UTC', to_json($3), true, to_jsonb($3), $3, $3, $3, ARRAY[$3],
                 false, now(), now(), now())
             RETURNING schedule_id)
         INSERT INTO schedule_firings (tenant_id, schedule_id, due_at, fired_at, outcome, run_id)
         SELECT $1, schedule_id, now(), now(), 'started', $2 FROM schedule",
        "INSERT INTO past_usage (tenant_id, created_at, agent_id, steps, tool_calls, input_tokens, output_tokens,
             cost_microusd, models)
         VALUES ($1, now(), $2, 1, 1, 1, 1, 1, jsonb_build_object($3::text, 1))",
        "UPDATE artifacts SET content = $3::bytea, media_type = $3 WHERE tenant_id = $1 AND run_id = $2",
        "UPDATE workspace_calls SET output = $3 WHERE tenant_id = $1 AND run_id = $2",
        "UPDATE approvals SET reason = $3 WHERE tenant_id = $1 AND run_id = $2",
        "UPDATE idempotency_keys SET body = body || $3 WHERE tenant_id = $1 AND run_id = $2",
        "UPDATE deliveries SET body = body || $3 WHERE tenant_id = $1 AND run_id = $2",
        "UPDATE webhooks SET description = $3 WHERE tenant_id = $1 AND $2::uuid IS NOT NULL",
    ] {
        let done = sqlx::query(insert).bind(world.tenant.0).bind(run.0).bind(word).execute(&mut superuser).await;
        let done = done.unwrap_or_else(|error| panic!("{insert}: {error}"));
        assert!(done.rows_affected() > 0, "{insert} found nothing");
    }
}

/// Two tenants of one world, both with rows everywhere; the second is the world's.
pub(super) async fn two(world: &mut World, files: &Workspaces, words: [&str; 2]) -> (TenantId, TenantId) {
    let first = world.tenant;
    fill(world, files, words[0]).await;
    world.tenant = world.another_tenant().await;
    fill(world, files, words[1]).await;
    (first, world.tenant)
}
