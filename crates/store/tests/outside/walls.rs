//! A stranger finds nothing and changes nothing.

use answerable_core::id::{ApprovalId, ArtifactId, CallId, LedgerId, RunId};
use answerable_core::run::SubmittedStatus;
use answerable_store::{
    ApprovalFilter, ApprovalOrder, ApprovalPage, ChangeRefused, Changer, DecisionRefused, DecisionWord,
    LinkedApproval, Resolve, ResolveRefused, RunFilter, RunPatch, SubmitOutcome, ToolResultSubmission,
};
use serde_json::json;
use uuid::Uuid;

use crate::world::{World, decision, voter};

#[tokio::test]
async fn a_stranger_finds_nothing() {
    let world = World::new().await;
    let run = world.waiting(&[("pay", json!({"amount": 5})), ("ask_user", json!({}))]).await;
    let approval = ApprovalId(world.pending(run).await[0].approval_id);
    let stranger = world.another_tenant().await;
    let mut tx = world.store.tenant(stranger).await.expect("a transaction");
    assert!(tx.run_fetch(run).await.expect("an answer").is_none());
    assert!(!tx.run_exists(run).await.expect("an answer"));
    assert_eq!(tx.run_is_settled(run).await.expect("an answer"), None);
    assert_eq!(tx.events_end(run).await.expect("an answer"), None);
    assert!(tx.event_list(run, 0, 10).await.expect("an answer").is_empty());
    assert!(tx.message_list(run, 0, 10).await.expect("an answer").is_empty());
    assert!(tx.step_list(run, 0, 10).await.expect("an answer").is_empty());
    assert!(tx.ledger_list(run, None, 10).await.expect("an answer").is_empty());
    assert!(tx.checkpoint_list(run, 0, 10).await.expect("an answer").is_empty());
    assert!(tx.artifact_list(run, None, 10).await.expect("an answer").is_empty());
    assert!(tx.artifact_content(ArtifactId(Uuid::now_v7())).await.expect("an answer").is_none());
    assert!(tx.approval_fetch(approval).await.expect("an answer").is_none());
    let listed = tx.approval_list(&ApprovalFilter::default(), ApprovalOrder::Newest(None), 10).await;
    assert_eq!(listed.expect("an answer"), ApprovalPage::default());
    assert!(tx.approval_list_of_run(run, 0, 10).await.expect("an answer").is_empty());
    assert!(tx.run_list(&RunFilter::default(), None, 10).await.expect("an answer").runs.is_empty());
}

#[tokio::test]
async fn a_stranger_changes_nothing() {
    let world = World::new().await;
    let run = world.waiting(&[("pay", json!({"amount": 5})), ("ask_user", json!({}))]).await;
    let approval = ApprovalId(world.pending(run).await[0].approval_id);
    let call = world.parked(run).await;
    let stranger = world.another_tenant().await;
    let mut tx = world.store.tenant(stranger).await.expect("a transaction");
    assert!(!tx.run_cancel(run, None).await.expect("an answer"));
    assert_eq!(
        tx.run_steer(run, &"pay me".into(), false).await.expect("an answer"),
        Err(ChangeRefused::NotFound)
    );
    let patch = RunPatch { budgets: None, metadata: json!({"owner": "b"}).as_object().cloned() };
    let changer = Changer { by: "key_2".into(), is_admin: true };
    assert_eq!(tx.run_patch(run, &patch, &changer).await.expect("an answer"), Err(ChangeRefused::NotFound));
    let lie = ToolResultSubmission {
        status: SubmittedStatus::Succeeded,
        content: "a lie".into(),
        error_code: None,
    };
    assert_eq!(tx.tool_result_submit(run, call, &lie).await.expect("an answer"), SubmitOutcome::NoRun);
    let denied = tx
        .approval_decide(approval, &decision(DecisionWord::Deny), &voter("key_2"))
        .await
        .expect("an answer");
    assert_eq!(denied, Err(DecisionRefused::NotFound));
    let word = Resolve { applied: true, content: None, note: None, by: "key_2".into() };
    let settled = tx.ledger_resolve(run, LedgerId(call.0), &word).await.expect("an answer");
    assert_eq!(settled, Err(ResolveRefused::NotFound));
    tx.commit().await.expect("committed");
    assert!(world.inbox(run).await.is_empty());
    assert_eq!(world.view(run).await.metadata, json!({}));
    assert_eq!(world.parked(run).await, CallId(call.0));
}

#[tokio::test]
async fn a_link_without_its_signature_leads_nowhere() {
    let world = World::new().await;
    let run = world.waiting(&[("pay", json!({"amount": 5}))]).await;
    let approval = ApprovalId(world.pending(run).await[0].approval_id);
    for token in ["", "x", "99999999999999.AAAA", "1.2.3", "\u{0}.\u{0}"] {
        let found = world.store.approval_link(approval, token).await.expect("an answer");
        assert_eq!(found, LinkedApproval::Forged, "{token:?}");
    }
    let unknown = ApprovalId(RunId(Uuid::now_v7()).0);
    assert_eq!(world.store.approval_link(unknown, "1.A").await.expect("an answer"), LinkedApproval::Forged);
}
