//! Answers to client calls.

use answerable_core::id::{CallId, RunId};
use answerable_core::run::SubmittedStatus;
use answerable_core::tool::ErrorCode;
use answerable_ports::commit::InboundBody;
use answerable_store::{SubmitOutcome, ToolResultSubmission};
use futures::future::join_all;
use serde_json::json;
use uuid::Uuid;

use crate::world::World;

fn said(content: &str) -> ToolResultSubmission {
    ToolResultSubmission { status: SubmittedStatus::Succeeded, content: content.into(), error_code: None }
}

fn failed() -> ToolResultSubmission {
    let error_code = Some(ErrorCode::NotFound);
    ToolResultSubmission { status: SubmittedStatus::Failed, content: "no".into(), error_code }
}

async fn submit(world: &World, run: RunId, call: CallId, answer: &ToolResultSubmission) -> SubmitOutcome {
    let mut tx = world.tx().await;
    let outcome = tx.tool_result_submit(run, call, answer).await.expect("an answer");
    tx.commit().await.expect("committed");
    outcome
}

/// Status and effect of the run's only entry.
async fn entry(world: &World, run: RunId) -> (String, String) {
    let entries = world.tx().await.ledger_list(run, None, 10).await.expect("a ledger");
    let [entry] = entries.as_slice() else { panic!("{entries:?}") };
    (entry.status.clone(), entry.side_effect.clone())
}

fn words(status: &str, effect: &str) -> (String, String) {
    (status.into(), effect.into())
}

#[tokio::test]
async fn the_first_answer_counts_and_the_same_again_is_the_same() {
    let world = World::new().await;
    let run = world.waiting(&[("ask_user", json!({}))]).await;
    let call = world.parked(run).await;
    let answers = ["size M", "size L", "size M", "size S"].map(said);
    let outcomes =
        join_all(answers.iter().chain(&answers).map(|answer| submit(&world, run, call, answer))).await;
    let [InboundBody::ToolResult { content, .. }] = &world.inbox(run).await[..] else {
        panic!("one is heard")
    };
    for (answer, outcome) in answers.iter().chain(&answers).zip(outcomes) {
        let wanted =
            if answer.content == *content { SubmitOutcome::Taken } else { SubmitOutcome::AlreadyDecided };
        assert_eq!(outcome, wanted, "{}", answer.content);
    }
    assert!(world.view(run).await.pending_calls.is_empty());
    assert_eq!(world.tx().await.run_is_settled(run).await.expect("an answer"), Some(false));
}

#[tokio::test]
async fn only_an_open_client_call_is_answered() {
    let world = World::new().await;
    let run =
        world.waiting(&[("open_door", json!({})), ("pay", json!({"amount": 5})), ("wire", json!({}))]).await;
    let calls = world.tx().await.call_list(run, 1, 1).await.expect("calls");
    let (gated, http) = (CallId(calls[1].call_id), CallId(calls[2].call_id));
    assert_eq!(submit(&world, run, gated, &said("x")).await, SubmitOutcome::NotOpen);
    assert_eq!(submit(&world, run, http, &said("x")).await, SubmitOutcome::NotClient);
    assert_eq!(submit(&world, run, CallId(Uuid::now_v7()), &said("x")).await, SubmitOutcome::NoCall);
    assert_eq!(submit(&world, RunId(Uuid::now_v7()), gated, &said("x")).await, SubmitOutcome::NoRun);
    let other = world.waiting(&[("ask_user", json!({}))]).await;
    assert_eq!(submit(&world, other, gated, &said("x")).await, SubmitOutcome::NoCall, "another run's");
    assert!(world.inbox(run).await.is_empty());
}

#[tokio::test]
async fn a_late_answer_is_refused_and_known() {
    let world = World::new().await;
    for (answer, wanted) in
        [(said("opened"), words("succeeded", "committed")), (failed(), words("failed", "none"))]
    {
        let run = world.waiting(&[("open_door", json!({}))]).await;
        let call = world.parked(run).await;
        world.end(run).await;
        assert_eq!(entry(&world, run).await, words("uncertain", "possible"));
        assert_eq!(world.view(run).await.uncertain, [call.0]);
        assert_eq!(submit(&world, run, call, &answer).await, SubmitOutcome::RunEnded);
        assert_eq!(entry(&world, run).await, wanted);
        assert!(world.view(run).await.uncertain.is_empty());
        assert_eq!(submit(&world, run, call, &answer).await, SubmitOutcome::Taken, "the same again");
        assert_eq!(submit(&world, run, call, &said("other")).await, SubmitOutcome::AlreadyDecided);
        assert_eq!(world.view(run).await.status, "cancelled");
    }
}

#[tokio::test]
async fn an_answer_before_the_end_is_the_same_after_it() {
    let world = World::new().await;
    let run = world.waiting(&[("ask_user", json!({}))]).await;
    let call = world.parked(run).await;
    assert_eq!(submit(&world, run, call, &said("size M")).await, SubmitOutcome::Taken);
    world.end(run).await;
    assert_eq!(submit(&world, run, call, &said("size M")).await, SubmitOutcome::Taken);
    assert_eq!(submit(&world, run, call, &said("size L")).await, SubmitOutcome::AlreadyDecided);
}
