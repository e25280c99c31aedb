//! What outlives a deleted run: what it used, for the bill; business keys, and effects that another run relies on, so that
//! nothing is done twice.

use answerable_core::id::{CallId, RunId};
use answerable_core::run::{Event, KeyHolder};
use answerable_core::tool::{Attempt, ErrorCode, Output, ResultStatus};
use answerable_core::trace::TraceContext;
use answerable_ports::RunStore;
use answerable_ports::commit::{CommitOutcome, Release};
use answerable_store::{
    Changer, Fork, HeirRefused, Keep, NewHeir, RunDeleted, RunRefused, Stand, UsageBy, UsageRow,
};
use chrono::{DateTime, Utc};
use serde_json::json;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::deleting::{booked, cancel, delete, with_everything};
use crate::world::{World, first_step, new_call};

async fn holder(world: &World, key: &str, input: &str) -> KeyHolder {
    let hash = answerable_core::json::input_hash(&json!({"id": input}));
    let held = world.engine.key_holder(world.tenant, "book", key, &hash).await.expect("an answer");
    held.expect("somebody has it").expect("it is known")
}

#[tokio::test]
async fn a_business_key_stays_taken() {
    let world = World::new().await;
    let done = |call, at| {
        let outcome = Attempt::Succeeded(Output::plain("receipt 12"));
        Event::ToolAttempted { at, call, outcome, jitter: 0 }
    };
    let refused = |call, at| {
        let outcome = Attempt::Refused(ErrorCode::Conflict, "sold out".into());
        Event::ToolAttempted { at, call, outcome, jitter: 0 }
    };
    let end: Box<dyn Fn(CallId, i64) -> Event> = Box::new(cancel());
    let (first, _, _) = booked(&world, "done", Release::End, &[Box::new(done), end]).await;
    let end: Box<dyn Fn(CallId, i64) -> Event> = Box::new(cancel());
    let (second, _, _) = booked(&world, "refused", Release::End, &[Box::new(refused), end]).await;
    let (third, lease, _) = booked(&world, "unclear", Release::EndWithLateCalls, &[cancel()]).await;
    world.engine.settle_ended(lease).await.expect("settled");
    assert!(holder(&world, "done", "done").await.result.content.contains("receipt 12"));
    for run in [first, second, third] {
        assert_eq!(delete(&world, run).await, RunDeleted::Deleted);
    }
    for (key, status) in [
        ("done", ResultStatus::Succeeded),
        ("refused", ResultStatus::Failed),
        ("unclear", ResultStatus::Uncertain),
    ] {
        let held = holder(&world, key, key).await;
        assert_eq!((held.result.status, held.same_input), (status, true), "{key}");
        assert!(!held.result.content.contains("receipt"), "its content is gone");
        assert!(!holder(&world, key, "other").await.same_input, "another input is a conflict still");
    }
    // The database itself says no to whoever looked before.
    let run = world.start(|_| ()).await.expect("a run");
    let lease = world.claim(run).await;
    let at = world.now().await;
    let mut call = new_call(&world.registry(), "book", &json!({"id": "done"}), at);
    call.idempotency_key = ("done".to_owned(), true);
    let id = call.id;
    let mut events = first_step(at, vec![call]);
    events.push(Event::KeyFree { at, call: id });
    let (seq, commit) = world.draft(lease, events, Release::Keep).await;
    let outcome = world.engine.commit(lease, seq, commit, Uuid::now_v7()).await.expect("an answer");
    assert_eq!(outcome, CommitOutcome::KeyTaken(id));
}

/// A fork from the beginning.
fn heir() -> NewHeir {
    NewHeir {
        run_id: RunId(Uuid::now_v7()),
        stand: Stand::Fork(Fork { after_step: 0, agent: None, repeat_effects: false }),
        messages: Vec::new(),
        trace: TraceContext::of("0123456789abcdef0123456789abcdef".into(), None, false),
        asker: Changer { by: "key_1".into(), is_admin: true },

        creators: Vec::new(),
    }
}

/// A run that mailed, and one that was forked from it and may take the mail as sent.
async fn forked(world: &World) -> (RunId, RunId) {
    let base = world.waiting(&[("mail", json!({"to": "ann"}))]).await;
    let call = CallId(world.tx().await.call_list(base, 1, 1).await.expect("calls")[0].call_id);
    world.cut(base, call).await;
    world.end(base).await;
    let heir = heir();
    let mut tx = world.tx().await;
    tx.heir_create(base, &heir).await.expect("an answer").expect("a fork");
    tx.commit().await.expect("committed");
    (base, heir.run_id)
}

async fn entries(world: &World) -> i64 {
    let count = sqlx::query_scalar("SELECT count(*) FROM ledger");
    count.fetch_one(&mut world.superuser().await).await.expect("a count")
}

#[tokio::test]
async fn a_run_that_a_live_one_stands_on_stays() {
    let world = World::new().await;
    let (base, heir) = forked(&world).await;
    assert_eq!(delete(&world, base).await, RunDeleted::StoodOn);
    let old = "UPDATE runs SET finished_at = now() - interval '40 days' WHERE finished_at IS NOT NULL";
    sqlx::query(old).execute(&mut world.superuser().await).await.expect("aged");
    let keep = Keep { journal_days: 30, runs_days: Some(30) };
    let gone = world.store.prune(world.url(), keep, 9).await.expect("pruned").expect("alone");
    assert_eq!((gone.runs, world.store.prune_preview(keep).await.expect("counted").runs), (0, 0));
    let (lease, at) = (world.claim(heir).await, world.now().await);
    world.fold(lease, vec![Event::CancelRequested { at, reason: None }], Release::End).await;
    assert_eq!(delete(&world, base).await, RunDeleted::Deleted);
}

#[tokio::test]
async fn an_effect_that_another_run_may_take_is_known_until_that_run_goes() {
    let world = World::new().await;
    let (base, heir) = forked(&world).await;
    let (lease, at) = (world.claim(heir).await, world.now().await);
    world.fold(lease, vec![Event::CancelRequested { at, reason: None }], Release::End).await;
    let hash = answerable_core::json::input_hash(&json!({"to": "ann"}));
    let effect = async || world.engine.earlier_effect(lease, "mail", &hash).await.expect("an answer");
    let before = effect().await;
    assert_eq!(delete(&world, base).await, RunDeleted::Deleted);
    assert_eq!(entries(&world).await, 1);
    let Some(Ok(after)) = effect().await else { panic!("it would be made again") };
    assert_eq!(
        (after.result.status, after.same_input, after.inherited),
        (ResultStatus::Uncertain, true, true)
    );
    assert_eq!(before.map(|known| known.map(|holder| holder.ledger_id)), Some(Ok(after.ledger_id)));
    assert_eq!(delete(&world, heir).await, RunDeleted::Deleted);
    assert_eq!(entries(&world).await, 0, "nobody relies on it any more");
}

#[tokio::test]
async fn forks_and_deletions_at_once_agree() {
    let world = World::new().await;
    for _ in 0..8 {
        let base = world.waiting(&[("mail", json!({"to": "ann"}))]).await;
        world.end(base).await;
        let heir = heir();
        let fork = async {
            let mut tx = world.tx().await;
            let made = tx.heir_create(base, &heir).await.expect("an answer");
            if made.is_ok() {
                tx.commit().await.expect("committed");
            }
            made
        };
        match tokio::join!(delete(&world, base), fork) {
            (RunDeleted::Deleted, Err(HeirRefused::NotFound)) | (RunDeleted::StoodOn, Ok(())) => {}
            other => panic!("{other:?}"),
        }
    }
}

async fn usage(world: &World) -> Vec<Vec<UsageRow>> {
    let (from, to) = (DateTime::UNIX_EPOCH, Utc::now());
    let mut tx = world.tx().await;
    let mut all = Vec::new();
    for (day, agent, model) in [(true, false, false), (false, true, false), (false, false, true)] {
        all.push(tx.usage_list(from, to, UsageBy { day, agent, model }, 100).await.expect("rows"));
    }
    all
}

#[tokio::test]
async fn what_it_used_stays_on_the_bill() {
    let world = World::new().await;
    let runs = [with_everything(&world).await, with_everything(&world).await];
    world.waiting(&[("mail", json!({})), ("wire", json!({}))]).await;
    let before = usage(&world).await;
    assert_eq!(before[0][0].runs, 3, "{before:?}");
    assert!(before[2][0].tool_calls > 0 && before[2][0].input_tokens == 30, "{before:?}");
    for run in runs {
        assert_eq!(delete(&world, run).await, RunDeleted::Deleted);
        assert_eq!(usage(&world).await, before);
    }
    let mut tx = world.tx().await;
    let now = Utc::now();
    let later = tx.usage_list(now, now, UsageBy::default(), 100).await.expect("rows");
    assert!(later.is_empty(), "{later:?}");
}

#[tokio::test]
async fn a_deletion_gives_no_quota_back() {
    let world = World::with_quotas(json!({"max_tokens_per_day": 15})).await;
    let run = world.waiting(&[("mail", json!({}))]).await;
    world.end(run).await;
    assert_eq!(delete(&world, run).await, RunDeleted::Deleted);
    assert!(matches!(world.start(|_| ()).await, Err(RunRefused::TokensUsedUp(_))));
}

#[tokio::test]
async fn a_tenant_that_is_deleted_leaves_nothing_of_its_deleted_runs() {
    let world = World::new().await;
    let (run, _, _) = booked(&world, "k", Release::EndWithLateCalls, &[cancel()]).await;
    sqlx::query("DELETE FROM run_queue").execute(&mut world.superuser().await).await.expect("settled");
    assert_eq!(delete(&world, run).await, RunDeleted::Deleted);
    let mut tx = world.tx().await;
    assert!(tx.tenant_delete().await.expect("an answer"));
    tx.commit().await.expect("committed");
    let mut superuser = world.superuser().await;
    for table in ["ledger", "past_usage"] {
        let count = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let left: i64 = sqlx::query_scalar(count).fetch_one(&mut superuser).await.expect("a count");
        assert_eq!(left, 0, "{table}");
    }
}
