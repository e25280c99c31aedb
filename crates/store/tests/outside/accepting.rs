//! Accepting runs.

use std::collections::BTreeMap;
use std::time::Duration;

use answerable_core::id::{RunId, ThreadId};
use answerable_ports::commit::InboundBody;
use answerable_store::{OnBusy, RunFilter, RunRefused};
use futures::future::join_all;
use serde_json::json;
use uuid::Uuid;

use crate::world::World;

async fn thread(world: &World) -> ThreadId {
    let mut tx = world.tx().await;
    let thread = tx.thread_create(&BTreeMap::new()).await.expect("a thread");
    tx.commit().await.expect("committed");
    ThreadId(thread.thread_id)
}

#[tokio::test]
async fn an_accepted_run_is_stored_whole() {
    let world = World::new().await;
    let later = chrono::Utc::now() + Duration::from_secs(3600);
    let start = |new: &mut answerable_store::NewRun| {
        new.not_before = Some(later);
        new.metadata = json!({"order": "77", "shop": "north"});
    };
    let run = world.start(start).await.expect("a run");
    let view = world.view(run).await;
    assert_eq!((view.status.as_str(), view.state.step, view.state.next_message), ("queued", 0, 2));
    assert_eq!(view.state.elapsed_ms(view.at), 0, "its time counts from not_before");
    let mut tx = world.tx().await;
    let events = tx.event_list(run, 0, 10).await.expect("events");
    assert_eq!(
        events.iter().map(|event| (event.seq, event.kind.as_str())).collect::<Vec<_>>(),
        [(1, "run.queued")]
    );
    let messages = tx.message_list(run, 0, 10).await.expect("messages");
    assert_eq!((messages[0].seq, messages[0].role.as_str(), messages[0].content.as_str()), (1, "user", "go"));
    assert_eq!(tx.run_is_settled(run).await.expect("an answer"), Some(false));
    for (metadata, found) in [(json!({"order": "77"}), 1), (json!({"order": "78"}), 0)] {
        let filter =
            RunFilter { metadata: Some(metadata), status: Some("queued".into()), ..RunFilter::default() };
        assert_eq!(tx.run_list(&filter, None, 10).await.expect("a list").runs.len(), found);
    }
}

#[tokio::test]
async fn a_thread_takes_runs_in_their_order() {
    let world = World::new().await;
    let thread = thread(&world).await;
    let started = join_all((0..12).map(|_| world.start(|new| new.thread_id = Some(thread)))).await;
    let mut runs: Vec<RunId> = started.into_iter().map(|run| run.expect("a run")).collect();
    let mut tx = world.tx().await;
    let filter = RunFilter { thread_id: Some(thread), ..RunFilter::default() };
    let listed = tx.run_list(&filter, None, 5).await.expect("a list");
    assert_eq!(listed.runs.len(), 5);
    let rest = tx.run_list(&filter, listed.next, 50).await.expect("a list");
    assert_eq!((rest.runs.len(), rest.next), (7, None));
    let mut all: Vec<RunId> = listed.runs.iter().chain(&rest.runs).map(|run| RunId(run.run_id)).collect();
    all.sort();
    runs.sort();
    assert_eq!(all, runs, "each once");
    // Only the first may be taken up.
    let oldest = rest.runs.last().expect("the oldest").run_id;
    assert_eq!(world.claim(RunId(oldest)).await.run_id.0, oldest);
}

#[tokio::test]
async fn a_busy_thread_refuses_or_makes_room() {
    let world = World::new().await;
    let thread = thread(&world).await;
    let with = |on_busy| {
        move |new: &mut answerable_store::NewRun| {
            new.thread_id = Some(thread);
            new.on_busy = on_busy;
        }
    };
    let first = world.start(with(OnBusy::Reject)).await.expect("nobody is there");
    assert_eq!(world.start(with(OnBusy::Reject)).await, Err(RunRefused::ThreadBusy));
    let second = world.start(with(OnBusy::CancelPrevious)).await.expect("a run");
    for run in [first, second] {
        world.start(with(OnBusy::CancelPrevious)).await.expect("a run");
        let inbox = world.inbox(run).await;
        assert!(matches!(inbox.as_slice(), [InboundBody::Cancel { .. }]), "cancelled once: {inbox:?}");
    }
    let nowhere = ThreadId(Uuid::now_v7());
    assert_eq!(world.start(|new| new.thread_id = Some(nowhere)).await, Err(RunRefused::UnknownThread));
}

#[tokio::test]
async fn one_of_many_at_once_finds_a_free_thread() {
    let world = World::new().await;
    let thread = thread(&world).await;
    let start = || {
        world.start(move |new| {
            new.thread_id = Some(thread);
            new.on_busy = OnBusy::Reject;
        })
    };
    let started = join_all((0..10).map(|_| start())).await;
    assert_eq!(started.iter().filter(|run| run.is_ok()).count(), 1);
}

#[tokio::test]
async fn the_last_places_of_a_queue_are_counted_and_not_raced_for() {
    let world = World::with_quotas(json!({"max_queued_runs": 3})).await;
    let started = join_all((0..16).map(|_| world.start(|_| ()))).await;
    assert_eq!(started.iter().filter(|run| run.is_ok()).count(), 3);
    assert!(
        started.iter().flat_map(|run| run.as_ref().err()).all(|refused| *refused == RunRefused::QueueFull)
    );
}

#[tokio::test]
async fn the_tokens_of_a_day_are_used_up() {
    let world = World::with_quotas(json!({"max_tokens_per_day": 15})).await;
    world.waiting(&[("ask_user", json!({}))]).await;
    let Err(RunRefused::TokensUsedUp(left)) = world.start(|_| ()).await else {
        panic!("15 tokens were used")
    };
    assert!((1..=86_400).contains(&left.as_secs()));
}

#[tokio::test]
async fn a_cancel_is_one_and_urgent() {
    let world = World::new().await;
    let run = world
        .start(|new| new.not_before = Some(chrono::Utc::now() + Duration::from_secs(3600)))
        .await
        .expect("a run");
    for _ in 0..3 {
        let mut tx = world.tx().await;
        assert!(tx.run_cancel(run, Some("no more".into())).await.expect("an answer"));
        tx.commit().await.expect("committed");
    }
    assert_eq!(world.inbox(run).await.len(), 1);
    // Though its time has not come, a server takes it up.
    world.claim(run).await;
    let nothing = RunId(Uuid::now_v7());
    assert!(!world.tx().await.run_cancel(nothing, None).await.expect("an answer"));
}
