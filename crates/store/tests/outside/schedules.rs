//! Schedules: each due time is dealt with once, in a fair order, and what became of it is kept within bounds.

use answerable_core::id::{RunId, ScheduleId, TenantId};
use answerable_core::schedule::Recurrence;
use answerable_store::{DueSchedule, Fired, FiringRow, RunDeleted, ScheduleRow, ScheduleSpec, TenantTx};
use chrono::{DateTime, TimeDelta, Utc};
use futures::future::join_all;
use serde_json::json;
use uuid::Uuid;

use crate::deleting::delete;
use crate::world::World;

/// Once a year.
const CRON: &str = "0 0 1 1 *";

fn spec() -> ScheduleSpec {
    ScheduleSpec {
        name: "report".into(),
        cron: CRON.into(),
        timezone: "UTC".into(),
        run: json!({"agent_id": "agt_1", "input": "go", "context": {"big": 1_234_567_890_123_456_789_u64}}),
        skip_if_running: true,
        metadata: json!({"desk": "7"}),
        paused: false,
        by: "user:ann".into(),
        asker: "key_1".into(),
        creators: vec!["key_1".into(), "user:ann".into()],
        as_admin: false,
    }
}

fn every(cron: &str) -> Recurrence {
    Recurrence::read(cron, "UTC").expect("a cron expression")
}

async fn made(world: &World, tenant: TenantId, spec: &ScheduleSpec) -> ScheduleId {
    let mut tx = world.store.tenant(tenant).await.expect("tx");
    let row = tx.schedule_create(spec, &every(&spec.cron)).await.expect("a schedule");
    tx.commit().await.expect("committed");
    row.id()
}

/// Schedules of a tenant become due, the oldest first, the last so many seconds ago.
async fn become_due(world: &World, tenant: TenantId, seconds: i32) {
    sqlx::query("UPDATE schedules SET next_at = date_trunc('milliseconds', now()) - make_interval(secs => $2) WHERE tenant_id = $1")
        .bind(tenant.0)
        .bind(f64::from(seconds))
        .execute(&mut world.superuser().await)
        .await
        .expect("due");
}

async fn fetched(world: &World, schedule: ScheduleId) -> ScheduleRow {
    world.tx().await.schedule_fetch(schedule).await.expect("an answer").expect("a schedule")
}

async fn firings(world: &World, schedule: ScheduleId) -> Vec<FiringRow> {
    world.tx().await.firing_list(schedule, None, 200).await.expect("a list")
}

/// What a server does with a due time, but for the run.
async fn dealt(world: &World, schedule: ScheduleId, fired: Fired) -> bool {
    let mut tx = world.tx().await;
    let Some(taken) = tx.schedule_take(schedule).await.expect("an answer") else { return false };
    let due_at = taken.due_at;
    tx.schedule_fired(schedule, due_at, &fired, every(CRON).next_after(due_at), due_at)
        .await
        .expect("written");
    tx.commit().await.expect("committed");
    true
}

async fn now(tx: &mut TenantTx) -> DateTime<Utc> {
    tx.moment().await.expect("a time")
}

#[tokio::test]
async fn it_is_kept_as_it_was_wanted() {
    let world = World::new().await;
    let id = made(&world, world.tenant, &spec()).await;
    let row = fetched(&world, id).await;
    assert_eq!(
        (&row.spec, row.created_by.as_str(), row.paused_at, row.last.as_ref()),
        (&spec(), "user:ann", None, None)
    );
    let next = row.next_at.expect("a next one");
    assert_eq!(Some(next), every(CRON).next_after(row.created_at));
    assert!(world.store.schedules_due(9).await.expect("due ones").is_empty());
    assert_eq!(world.store.schedules_next().await.expect("a time"), Some(next));
    let paused = made(&world, world.tenant, &ScheduleSpec { paused: true, ..spec() }).await;
    assert!(fetched(&world, paused).await.paused_at.is_some());
    let mut tx = world.tx().await;
    for (by, found) in [("user:ann", 2), ("key_1", 2), ("key_2", 0)] {
        assert_eq!(tx.schedule_list(Some(by), None, 9).await.expect("a list").len(), found, "{by}");
    }
    let newest = tx.schedule_list(None, None, 1).await.expect("a list").pop().expect("one");
    assert_eq!(newest.id(), paused);
    assert_eq!(tx.schedule_list(None, Some(newest.ord), 9).await.expect("a list")[0].id(), id);
    assert!(tx.schedule_delete(id).await.expect("an answer"));
    assert!(!tx.schedule_delete(id).await.expect("an answer"));
    assert!(tx.schedule_fetch(id).await.expect("an answer").is_none());
}

#[tokio::test]
async fn a_due_time_is_dealt_with_once_whoever_races_for_it() {
    let world = World::new().await;
    let id = made(&world, world.tenant, &spec()).await;
    assert!(!dealt(&world, id, Fired::Skipped).await, "it isn't due");
    for round in 1..=5 {
        become_due(&world, world.tenant, 1).await;
        let dealt = join_all((0..20).map(|_| dealt(&world, id, Fired::Skipped))).await;
        assert_eq!(dealt.iter().filter(|done| **done).count(), 1);
        assert_eq!(firings(&world, id).await.len(), round);
        assert!(world.store.schedules_due(9).await.expect("due ones").is_empty());
    }
}

#[tokio::test]
async fn what_is_given_up_is_still_due_and_no_time_is_written_twice() {
    let world = World::new().await;
    let id = made(&world, world.tenant, &spec()).await;
    become_due(&world, world.tenant, 1).await;
    let mut tx = world.tx().await;
    let due_at = tx.schedule_take(id).await.expect("an answer").expect("due").due_at;
    // Nobody else waits for it, nor takes it.
    assert!(world.tx().await.schedule_take(id).await.expect("an answer").is_none());
    tx.schedule_fired(id, due_at, &Fired::Skipped, None, due_at).await.expect("written");
    drop(tx);
    assert!(firings(&world, id).await.is_empty());
    assert!(dealt(&world, id, Fired::Missed).await);
    let mut tx = world.tx().await;
    let again = tx.schedule_fired(id, due_at, &Fired::Skipped, None, due_at).await;
    assert!(again.is_err(), "a time was written twice");
}

#[tokio::test]
async fn what_is_due_is_seen_once() {
    let world = World::new().await;
    let id = made(&world, world.tenant, &spec()).await;
    become_due(&world, world.tenant, 5).await;
    let seen = async || {
        assert_eq!(world.store.schedules_due(1).await.expect("due ones").len(), 1);
        let taken = world.tx().await.schedule_take(id).await.expect("an answer").expect("due");
        assert!((5..=20).contains(&(taken.seen_at - taken.due_at).num_seconds()), "{taken:?}");
        taken.seen_at
    };
    let first = seen().await;
    assert_eq!(seen().await, first);
    // Another due time is another matter.
    assert!(dealt(&world, id, Fired::Skipped).await);
    become_due(&world, world.tenant, 5).await;
    assert!(seen().await > first);
}

#[tokio::test]
async fn of_each_tenant_one_goes_before_anybodys_second() {
    let world = World::new().await;
    let (big, small, resting) = (world.tenant, world.another_tenant().await, world.another_tenant().await);
    for _ in 0..20 {
        made(&world, big, &spec()).await;
        made(&world, resting, &spec()).await;
    }
    let one = made(&world, small, &spec()).await;
    let paused = made(&world, small, &ScheduleSpec { paused: true, ..spec() }).await;
    become_due(&world, big, 30).await;
    become_due(&world, resting, 30).await;
    become_due(&world, small, 1).await;
    sqlx::query("UPDATE tenants SET suspended_at = now() WHERE tenant_id = $1")
        .bind(resting.0)
        .execute(&mut world.superuser().await)
        .await
        .expect("suspended");
    let due = world.store.schedules_due(50).await.expect("due ones");
    assert_eq!(due.len(), 21, "neither paused ones nor those of who is suspended");
    let place = due.iter().position(|due| *due == DueSchedule { tenant: small, schedule: one });
    assert!(place.is_some_and(|place| place < 2), "{place:?}");
    let mut tx = world.store.tenant(small).await.expect("tx");
    assert!(tx.schedule_take(paused).await.expect("an answer").is_none());
    let mut tx = world.store.tenant(resting).await.expect("tx");
    let theirs = tx.schedule_list(None, None, 1).await.expect("a list")[0].id();
    assert!(tx.schedule_take(theirs).await.expect("an answer").is_none(), "the tenant is suspended");
    let mut tx = world.store.tenant(small).await.expect("tx");
    assert!(tx.schedule_take(theirs).await.expect("an answer").is_none(), "another's");
}

#[tokio::test]
async fn what_became_of_it_is_kept_a_hundred_times() {
    let world = World::new().await;
    let id = made(&world, world.tenant, &spec()).await;
    let problem = json!({"code": "conflict", "message": "No."});
    for n in 0..103 {
        let mut tx = world.tx().await;
        let at = now(&mut tx).await + TimeDelta::seconds(n);
        tx.schedule_fired(id, at, &Fired::Refused(problem.clone()), None, at).await.expect("written");
        tx.commit().await.expect("committed");
    }
    let kept = firings(&world, id).await;
    assert_eq!(kept.len(), 100);
    assert!(kept.is_sorted_by(|newer, older| newer.ord > older.ord && newer.due_at > older.due_at));
    assert_eq!(fetched(&world, id).await.last.as_ref(), kept.first());
    assert_eq!((kept[0].outcome.as_str(), kept[0].problem.as_ref()), ("refused", Some(&problem)));
    let page = world.tx().await.firing_list(id, Some(kept[9].ord), 3).await.expect("a list");
    assert_eq!(page, kept[10..13]);
}

#[tokio::test]
async fn who_begins_to_count_anew_has_missed_what_is_past() {
    let world = World::new().await;
    let id = made(&world, world.tenant, &ScheduleSpec { paused: true, ..spec() }).await;
    let change = async |to: ScheduleSpec| {
        let mut tx = world.tx().await;
        let before = tx.schedule_lock(id).await.expect("an answer").expect("a schedule");
        let row = tx.schedule_update(&before, &to, &every(&to.cron)).await.expect("changed");
        tx.commit().await.expect("committed");
        row
    };
    // Nothing is past: nothing was missed.
    assert_eq!(change(spec()).await.paused_at, None);
    assert!(firings(&world, id).await.is_empty());
    change(ScheduleSpec { paused: true, ..spec() }).await;
    become_due(&world, world.tenant, 3600).await;
    change(ScheduleSpec { name: "another".into(), paused: true, ..spec() }).await;
    assert!(firings(&world, id).await.is_empty(), "a name is no matter of time");
    let resumed = change(spec()).await;
    assert_eq!(
        firings(&world, id).await.iter().map(|fired| fired.outcome.as_str()).collect::<Vec<_>>(),
        ["missed"]
    );
    assert_eq!(resumed.next_at, every(CRON).next_after(resumed.updated_at));
    become_due(&world, world.tenant, 1).await;
    let daily = ScheduleSpec { cron: "@daily".into(), ..spec() };
    let moved = change(daily.clone()).await;
    assert_eq!(firings(&world, id).await.len(), 2);
    assert_eq!(moved.next_at, every("@daily").next_after(moved.updated_at));
    assert_eq!(change(daily).await, moved, "nothing changes");
}

#[tokio::test]
async fn a_clock_that_is_put_back_makes_nothing_due_again() {
    let world = World::new().await;
    let id = made(&world, world.tenant, &spec()).await;
    let far = DateTime::from_timestamp(4_102_444_800, 0).expect("a time");
    let mut tx = world.tx().await;
    // It was dealt with at a time that the clock doesn't show yet.
    tx.schedule_fired(id, far, &Fired::Skipped, every(CRON).next_after(far), far).await.expect("written");
    let before = tx.schedule_lock(id).await.expect("an answer").expect("a schedule");
    let to = ScheduleSpec { cron: "@daily".into(), ..spec() };
    let row = tx.schedule_update(&before, &to, &every("@daily")).await.expect("changed");
    assert_eq!(row.next_at, every("@daily").next_after(far));
}

#[tokio::test]
async fn its_runs_are_known_and_one_that_is_deleted_is_forgotten() {
    let world = World::new().await;
    let id = made(&world, world.tenant, &spec()).await;
    let at = DateTime::from_timestamp(1_767_225_600, 0).expect("a time");
    let run = world.start(|new| new.schedule = Some((id, at))).await.expect("a run");
    let other = world.start(|_| ()).await.expect("a run");
    let mut tx = world.tx().await;
    tx.schedule_triggered(id, at, run, "key_1").await.expect("written");
    assert!(tx.schedule_is_running(id).await.expect("an answer"));
    assert!(!tx.schedule_is_running(ScheduleId(Uuid::now_v7())).await.expect("an answer"));
    let filter = answerable_store::RunFilter { schedule_id: Some(id), ..Default::default() };
    let runs = tx.run_list(&filter, None, 9).await.expect("a list").runs;
    assert_eq!(runs.iter().map(|run| RunId(run.run_id)).collect::<Vec<_>>(), [run]);
    assert_eq!((runs[0].schedule_id, runs[0].due_at), (Some(id.0), Some(at)));
    let plain = tx.run_fetch(other).await.expect("an answer").expect("a run");
    assert_eq!((plain.schedule_id, plain.due_at), (None, None));
    tx.commit().await.expect("committed");
    world.end(run).await;
    assert!(!world.tx().await.schedule_is_running(id).await.expect("an answer"));
    assert_eq!(delete(&world, run).await, RunDeleted::Deleted);
    let fired = firings(&world, id).await;
    assert_eq!(
        (fired[0].outcome.as_str(), fired[0].run_id, fired[0].triggered_by.as_deref()),
        ("started", None, Some("key_1"))
    );
}
