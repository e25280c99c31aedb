//! The one write: all of it or nothing, once, and only by whoever has the run.

use answerable_core::id::{ArtifactId, CallId, MessageId, RunId};
use answerable_core::ledger::Outcome;
use answerable_core::model::Usage;
use answerable_core::reply::ReplyKind;
use answerable_core::run::{Event, NewCall, ReplyFacts};
use answerable_core::tool::{Attempt, Output};
use answerable_ports::commit::{Commit, CommitOutcome, InboundBody, Release, StoredArtifact};
use answerable_ports::{Lease, RunStore};
use serde_json::json;
use uuid::Uuid;

use crate::world::{World, first_step, late, new_call};

async fn send(world: &World, lease: Lease, seq: i64, commit: &Commit) -> CommitOutcome {
    world.engine.commit(lease, seq, commit.clone(), Uuid::now_v7()).await.expect("an answer")
}

/// A claimed run, and the commit that would start its first step.
async fn begun(world: &World) -> (RunId, Lease, i64, Commit) {
    let run = world.start(|_| ()).await.expect("a run");
    let lease = world.claim(run).await;
    let at = world.now().await;
    let events = first_step(at, Vec::new()).into_iter().take(2).collect();
    let (seq, commit) = world.draft(lease, events, Release::Keep).await;
    (run, lease, seq, commit)
}

fn answer(at: i64) -> Event {
    let reply = ReplyFacts {
        kind: ReplyKind::Final,
        text: "done".into(),
        extra: None,
        finish_reason: Some("stop".into()),
        usage: Usage::default(),
        cost_microusd: 0,
        duration_ms: 1,
        message_id: MessageId(Uuid::now_v7()),
        output_fault: None,
        wire: None,
    };
    Event::ModelReplied { at, reply: Box::new(reply), calls: Vec::new(), more_input: false }
}

fn booking(world: &World, id: &str, at: i64) -> NewCall {
    let call = new_call(&world.registry(), "book", &json!({"id": id}), at);
    NewCall { idempotency_key: (id.to_owned(), true), ..call }
}

#[tokio::test]
async fn what_is_stored_can_be_read_again() {
    let world = World::new().await;
    let (run, lease, seq, commit) = begun(&world).await;
    assert_eq!(send(&world, lease, seq, &commit).await, CommitOutcome::Stored);
    let loaded = world.engine.load(lease).await.expect("an answer").expect("the lease");
    assert_eq!((loaded.seq, &loaded.state), (seq + 1, &commit.state));
    assert_eq!(world.view(run).await.status, "running");
    let events = world.tx().await.event_list(run, 0, 10).await.expect("events");
    let numbers: Vec<i64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=i64::try_from(events.len()).expect("few")).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_stored_once() {
    let world = World::new().await;
    let (run, lease, seq, commit) = begun(&world).await;
    let id = Uuid::now_v7();
    for _ in 0..3 {
        let outcome = world.engine.commit(lease, seq, commit.clone(), id).await.expect("an answer");
        assert_eq!(outcome, CommitOutcome::Stored);
    }
    let events = world.tx().await.event_list(run, 0, 10).await.expect("events").len();
    // The same under another id comes too late.
    assert_eq!(send(&world, lease, seq, &commit).await, CommitOutcome::LeaseLost);
    assert_eq!(world.tx().await.event_list(run, 0, 10).await.expect("events").len(), events);
}

#[tokio::test]
async fn whoever_lost_the_run_writes_nothing() {
    let world = World::new().await;
    let (run, lease, seq, commit) = begun(&world).await;
    let old = Lease { epoch: lease.epoch - 1, ..lease };
    let newer = Lease { epoch: lease.epoch + 1, ..lease };
    let stranger = Lease { tenant_id: world.another_tenant().await, ..lease };
    let nowhere = Lease { run_id: RunId(Uuid::now_v7()), ..lease };
    for lost in [old, newer, stranger, nowhere] {
        assert_eq!(send(&world, lost, seq, &commit).await, CommitOutcome::LeaseLost, "{lost:?}");
    }
    for wrong in [seq - 1, seq + 1] {
        assert_eq!(send(&world, lease, wrong, &commit).await, CommitOutcome::LeaseLost);
    }
    assert_eq!(world.view(run).await.status, "queued");
    assert_eq!(send(&world, lease, seq, &commit).await, CommitOutcome::Stored);
}

#[tokio::test]
async fn what_came_in_goes_first() {
    let world = World::new().await;
    let (run, lease, seq, mut commit) = begun(&world).await;
    let mut tx = world.tx().await;
    assert!(tx.run_cancel(run, Some("enough".into())).await.expect("an answer"));
    tx.commit().await.expect("committed");
    let CommitOutcome::InboxFirst(inbound) = send(&world, lease, seq, &commit).await else {
        panic!("written")
    };
    assert!(
        matches!(&inbound[..], [first] if matches!(first.body, InboundBody::Cancel { .. })),
        "{inbound:?}"
    );
    assert_eq!(world.view(run).await.status, "queued");
    commit.known_inbox = inbound[0].number;
    commit.consumed = vec![inbound[0].number];
    assert_eq!(send(&world, lease, seq, &commit).await, CommitOutcome::Stored);
    assert!(world.inbox(run).await.is_empty());
}

#[tokio::test]
async fn of_two_calls_with_one_business_key_the_first_has_it() {
    let world = World::new().await;
    let run = world.start(|_| ()).await.expect("a run");
    let lease = world.claim(run).await;
    let at = world.now().await;
    let (first, second) = (booking(&world, "7", at), booking(&world, "7", at));
    let (a, b) = (first.id, second.id);
    let (seq, commit) = world.draft(lease, first_step(at, vec![first, second]), Release::Keep).await;
    assert_eq!(send(&world, lease, seq, &commit).await, CommitOutcome::Stored);
    let free = |call| Event::KeyFree { at, call };
    // Both were found free in the same moment.
    let (seq, both) = world.draft(lease, vec![free(a), free(b)], Release::Keep).await;
    assert_eq!(send(&world, lease, seq, &both).await, CommitOutcome::KeyTaken(b));
    let (seq, one) = world.draft(lease, vec![free(a)], Release::Keep).await;
    assert_eq!(send(&world, lease, seq, &one).await, CommitOutcome::Stored);
    let (seq, other) = world.draft(lease, vec![free(b)], Release::Keep).await;
    assert_eq!(send(&world, lease, seq, &other).await, CommitOutcome::KeyTaken(b));
    assert_eq!(world.tx().await.ledger_list(run, None, 9).await.expect("a ledger").len(), 1);
}

#[tokio::test]
async fn a_key_whose_run_was_cancelled_tells_what_became_of_the_call() {
    let world = World::new().await;
    let run = world.start(|_| ()).await.expect("a run");
    let lease = world.claim(run).await;
    let at = world.now().await;
    let call = booking(&world, "8", at);
    let (id, hash) = (call.id, call.input_hash.clone());
    let mut events = first_step(at, vec![call]);
    events.push(Event::KeyFree { at, call: id });
    let (seq, commit) = world.draft(lease, events, Release::Keep).await;
    assert_eq!(send(&world, lease, seq, &commit).await, CommitOutcome::Stored);
    let cancel = vec![Event::CancelRequested { at, reason: None }];
    let (seq, commit) = world.draft(lease, cancel, Release::EndWithLateCalls).await;
    assert_eq!(send(&world, lease, seq, &commit).await, CommitOutcome::Stored);
    let holder =
        || async { world.engine.key_holder(world.tenant, "book", "8", &hash).await.expect("an answer") };
    assert!(matches!(holder().await, Some(Err(()))), "it is out still");
    let done = Outcome::succeeded(true);
    let artifact = StoredArtifact {
        id: ArtifactId(Uuid::now_v7()),
        call_id: id,
        media_type: "text/plain".into(),
        content: "a receipt".into(),
    };
    assert!(world.engine.late_outcome(lease, &late(id, done, Some(artifact))).await.expect("an answer"));
    world.engine.settle_ended(lease).await.expect("settled");
    let Some(Ok(held)) = holder().await else { panic!("nobody has it") };
    assert_eq!(held.result.status, answerable_core::tool::ResultStatus::Succeeded);
    let entry = world.tx().await.ledger_list(run, None, 9).await.expect("a ledger").remove(0);
    assert_eq!((entry.status.as_str(), entry.side_effect.as_str()), ("succeeded", "committed"));
    assert_eq!(world.tx().await.artifact_list(run, None, 9).await.expect("artifacts").len(), 1);
}

#[tokio::test]
async fn an_end_lets_go_of_the_run_and_closes_what_is_open() {
    let world = World::new().await;
    for release in [Release::End, Release::EndWithLateCalls] {
        let run = world.start(|_| ()).await.expect("a run");
        let lease = world.claim(run).await;
        let at = world.now().await;
        let mut events: Vec<Event> = first_step(at, Vec::new()).into_iter().take(2).collect();
        events.push(answer(at));
        let (seq, commit) = world.draft(lease, events, release).await;
        assert_eq!(send(&world, lease, seq, &commit).await, CommitOutcome::Stored);
        let view = world.view(run).await;
        assert_eq!((view.status.as_str(), view.final_answer.as_deref()), ("finished", Some("done")));
        let renewed = world.engine.renew(world.server, &[lease], std::time::Duration::from_secs(9)).await;
        let kept = renewed.expect("an answer").renewed.contains(&lease);
        assert_eq!(kept, release == Release::EndWithLateCalls, "late calls keep the lease");
        world.engine.settle_ended(lease).await.expect("settled");
    }
}

#[tokio::test]
async fn nobody_learns_of_a_dead_servers_late_calls_and_the_ledger_says_so() {
    let world = World::new().await;
    let run = world.start(|_| ()).await.expect("a run");
    let lease = world.claim(run).await;
    let at = world.now().await;
    let call = new_call(&world.registry(), "mail", &json!({}), at);
    let id: CallId = call.id;
    let (seq, commit) = world.draft(lease, first_step(at, vec![call]), Release::Keep).await;
    assert_eq!(send(&world, lease, seq, &commit).await, CommitOutcome::Stored);
    let cancel = vec![Event::CancelRequested { at, reason: None }];
    let (seq, commit) = world.draft(lease, cancel, Release::EndWithLateCalls).await;
    assert_eq!(send(&world, lease, seq, &commit).await, CommitOutcome::Stored);
    world.engine.settle_ended(lease).await.expect("settled");
    let entry = world.tx().await.ledger_list(run, None, 9).await.expect("a ledger").remove(0);
    assert_eq!((entry.ledger_id, entry.status.as_str()), (id.0, "uncertain"));
}

#[tokio::test]
async fn what_can_not_be_stored_is_not_stored_in_part() {
    let world = World::new().await;
    let run = world.start(|_| ()).await.expect("a run");
    let lease = world.claim(run).await;
    let at = world.now().await;
    let call = new_call(&world.registry(), "mail", &json!({}), at);
    let id = call.id;
    let (seq, mut commit) = world.draft(lease, first_step(at, vec![call]), Release::Keep).await;
    let twice = StoredArtifact {
        id: ArtifactId(Uuid::now_v7()),
        call_id: id,
        media_type: "text/plain".into(),
        content: "x".into(),
    };
    commit.artifacts = vec![twice.clone(), twice];
    assert!(world.engine.commit(lease, seq, commit.clone(), Uuid::now_v7()).await.is_err());
    assert_eq!(world.view(run).await.status, "queued");
    assert!(world.tx().await.ledger_list(run, None, 9).await.expect("a ledger").is_empty());
    commit.artifacts.clear();
    assert_eq!(send(&world, lease, seq, &commit).await, CommitOutcome::Stored);
    let done =
        Event::ToolAttempted { at, call: id, outcome: Attempt::Succeeded(Output::plain("sent")), jitter: 0 };
    let (seq, commit) = world.draft(lease, vec![done], Release::Keep).await;
    assert_eq!(send(&world, lease, seq, &commit).await, CommitOutcome::Stored);
}
