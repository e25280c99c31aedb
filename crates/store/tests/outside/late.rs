//! Outcomes that come in when their run no longer waits for them.

use answerable_core::id::{ArtifactId, CallId, RunId};
use answerable_core::ledger::Outcome;
use answerable_core::run::MAX_RUN_ARTIFACTS;
use answerable_core::tool::ErrorCode;
use answerable_ports::commit::{InboundBody, Release, StoredArtifact};
use answerable_ports::{Lease, RunStore};
use answerable_store::{LedgerRecord, Resolve};
use serde_json::json;
use uuid::Uuid;

use crate::world::{World, first_step, late, new_call};

/// A run with one call of `tool` that is out at a server that has the lease.
async fn out(world: &World, tool: &str) -> (RunId, Lease, CallId) {
    let run = world.start(|_| ()).await.expect("a run");
    let lease = world.claim(run).await;
    let at = world.now().await;
    let call = new_call(&world.registry(), tool, &json!({}), at);
    let id = call.id;
    world.fold(lease, first_step(at, vec![call]), Release::Park { wake_at: None }).await;
    (run, lease, id)
}

async fn entry(world: &World, run: RunId) -> LedgerRecord {
    world.tx().await.ledger_list(run, None, 9).await.expect("a ledger").remove(0)
}

async fn tell(world: &World, lease: Lease, call: CallId, outcome: Outcome) -> bool {
    world.engine.late_outcome(lease, &late(call, outcome, None)).await.expect("an answer")
}

#[tokio::test]
async fn a_fenced_server_waits_for_the_word_of_the_new_owner() {
    let world = World::new().await;
    let (run, lease, call) = out(&world, "mail").await;
    assert!(!tell(&world, lease, call, Outcome::succeeded(true)).await, "it is for the new owner to say");
    assert_eq!(entry(&world, run).await.status, "started");
    // The new owner can't tell, says so to the model, and the run goes on.
    world.cut(run, call).await;
    assert_eq!(entry(&world, run).await.status, "uncertain");
    assert!(tell(&world, lease, call, Outcome::succeeded(true)).await);
    let known = entry(&world, run).await;
    assert_eq!(
        (known.status.as_str(), known.side_effect.as_str(), known.error_code),
        ("succeeded", "committed", None)
    );
    assert!(world.view(run).await.uncertain.is_empty());
}

#[tokio::test]
async fn a_person_who_is_asked_need_not_be_any_more() {
    for (outcome, status, approval) in [
        (Outcome::succeeded(true), "succeeded", "approved"),
        (Outcome::failed(ErrorCode::Conflict), "failed", "denied"),
    ] {
        let world = World::new().await;
        let (run, lease, call) = out(&world, "wire").await;
        world.cut(run, call).await;
        assert_eq!(world.pending(run).await.len(), 1);
        assert!(tell(&world, lease, call, outcome).await);
        let known = entry(&world, run).await;
        assert_eq!(known.status, status);
        assert_eq!(known.resolution.expect("whose word it is")["by"], "runtime");
        let mut tx = world.tx().await;
        let decided = tx.approval_list_of_run(run, 0, 9).await.expect("approvals").remove(0);
        assert_eq!((decided.status.as_str(), decided.decided_by.as_deref()), (approval, Some("runtime")));
        let heard = world.inbox(run).await;
        let heard = heard.iter().filter(|body| matches!(body, InboundBody::Settled { .. })).count();
        assert_eq!(heard, 1, "the run hears it");
    }
}

#[tokio::test]
async fn what_is_known_stays() {
    let world = World::new().await;
    let (run, lease, call) = out(&world, "mail").await;
    world.cut(run, call).await;
    let word = Resolve { applied: false, content: None, note: None, by: "user:ann".into() };
    let mut tx = world.tx().await;
    tx.ledger_resolve(run, answerable_core::id::LedgerId(call.0), &word)
        .await
        .expect("an answer")
        .expect("settled");
    tx.commit().await.expect("committed");
    assert!(tell(&world, lease, call, Outcome::succeeded(true)).await);
    assert_eq!(entry(&world, run).await.status, "failed", "a person's word stands");

    let (run, lease, call) = out(&world, "mail").await;
    world.cut(run, call).await;
    assert!(tell(&world, lease, call, Outcome::uncertain()).await);
    assert_eq!(entry(&world, run).await.status, "uncertain");
    assert!(tell(&world, lease, call, Outcome::succeeded(true)).await);
    assert!(tell(&world, lease, call, Outcome::failed(ErrorCode::Conflict)).await);
    assert_eq!(entry(&world, run).await.status, "succeeded", "the first certain word stands");
}

#[tokio::test]
async fn what_comes_late_is_kept_apart_only_where_there_is_room() {
    let world = World::new().await;
    let (run, lease, call) = out(&world, "mail").await;
    let fill = "INSERT INTO artifacts (tenant_id, artifact_id, run_id, call_id, media_type, bytes, sha256, content, created_at)
         SELECT $1, gen_random_uuid(), $2, $3, 'text/plain', 1, '', 'x', now() FROM generate_series(1, $4)";
    let room = i64::try_from(MAX_RUN_ARTIFACTS).expect("few");
    let fill = sqlx::query(fill).bind(world.tenant.0).bind(run.0).bind(call.0).bind(room);
    fill.execute(&mut world.superuser().await).await.expect("filled");
    world.cut(run, call).await;
    let artifact = StoredArtifact {
        id: ArtifactId(Uuid::now_v7()),
        call_id: call,
        media_type: "text/plain".into(),
        content: "long".into(),
    };
    let id = artifact.id;
    let outcome = late(call, Outcome::succeeded(true), Some(artifact));
    assert!(world.engine.late_outcome(lease, &outcome).await.expect("an answer"));
    assert_eq!(entry(&world, run).await.status, "succeeded");
    assert_eq!(world.tx().await.artifact_fetch(id).await.expect("an answer"), None);
}
