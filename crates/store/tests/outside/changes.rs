//! Changing live runs.

use answerable_core::budget::BudgetPatch;
use answerable_core::id::RunId;
use answerable_ports::commit::InboundBody;
use answerable_store::{ChangeRefused, Changed, Changer, Decision, DecisionRefused, DecisionWord, RunPatch};
use serde_json::{Map, Value, json};

use crate::world::{World, decision};

async fn patch(world: &World, run: RunId, budgets: Value, is_admin: bool) -> Changed<()> {
    let budgets: BudgetPatch = serde_json::from_value(budgets).expect("a patch");
    change(world, run, RunPatch { budgets: Some(budgets), metadata: None }, is_admin).await
}

async fn change(world: &World, run: RunId, patch: RunPatch, is_admin: bool) -> Changed<()> {
    let mut tx = world.tx().await;
    let changed =
        tx.run_patch(run, &patch, &Changer { by: "key_1".into(), is_admin }).await.expect("an answer");
    if changed.is_ok() {
        tx.commit().await.expect("committed");
    }
    changed
}

#[tokio::test]
async fn new_limits_show_at_once() {
    let world = World::new().await;
    let run = world.waiting(&[("ask_user", json!({}))]).await;
    assert_eq!(patch(&world, run, json!({"max_steps": 1}), false).await, Ok(()));
    assert_eq!(world.view(run).await.budgets.max_steps, 1);
    assert_eq!(
        patch(&world, run, json!({"max_steps": 3}), false).await,
        Err(ChangeRefused::AboveAgent(vec!["max_steps"]))
    );
    assert_eq!(patch(&world, run, json!({"max_steps": 3, "max_cost_microusd": 5}), true).await, Ok(()));
    // What an admin raised isn't held against another's change.
    assert_eq!(patch(&world, run, json!({"max_tool_calls": 7}), false).await, Ok(()));
    let view = world.view(run).await;
    assert_eq!(
        (view.budgets.max_steps, view.budgets.max_tool_calls, view.budgets.max_cost_microusd),
        (3, 7, Some(5))
    );
    assert_eq!(view.state.budgets.max_steps, 2, "the run hasn't heard of it yet");
    assert_eq!(world.inbox(run).await.len(), 3);
}

#[tokio::test]
async fn limits_below_what_is_used_are_refused_by_name() {
    let world = World::new().await;
    let run = world.waiting(&[("ask_user", json!({}))]).await;
    let refused =
        patch(&world, run, json!({"max_steps": 0, "max_tokens": 14, "max_tool_calls": 9}), false).await;
    let Err(ChangeRefused::Invalid(faults)) = refused else { panic!("{refused:?}") };
    let pointers: Vec<&str> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
    assert_eq!(pointers, ["/budgets/max_steps", "/budgets/max_tokens"]);
    assert!(world.inbox(run).await.is_empty());
}

#[tokio::test]
async fn an_ended_run_keeps_its_limits_and_takes_metadata() {
    let world = World::new().await;
    let run = world.waiting(&[("ask_user", json!({}))]).await;
    world.end(run).await;
    assert_eq!(patch(&world, run, json!({"max_steps": 2}), true).await, Err(ChangeRefused::Ended));
    let words = |value: Value| RunPatch { budgets: None, metadata: value.as_object().cloned() };
    assert_eq!(change(&world, run, words(json!({"a": "1", "b": "2"})), false).await, Ok(()));
    assert_eq!(change(&world, run, words(json!({"a": null, "c": "3"})), false).await, Ok(()));
    assert_eq!(world.view(run).await.metadata, json!({"b": "2", "c": "3"}));
    let many: Map<String, Value> = (0..63).map(|i| (format!("k{i}"), json!("v"))).collect();
    let refused = change(&world, run, RunPatch { budgets: None, metadata: Some(many) }, false).await;
    assert!(matches!(refused, Err(ChangeRefused::Invalid(_))), "64 keys in all");
    let mut tx = world.tx().await;
    assert_eq!(
        tx.run_steer(run, &"too late".into(), false).await.expect("an answer"),
        Err(ChangeRefused::Ended)
    );
}

#[tokio::test]
async fn a_raise_that_is_enough_settles_what_was_asked_for() {
    let world = World::new().await;
    let run = world.asking_for_steps().await;
    let approval = world.pending(run).await.remove(0);
    assert_eq!((approval.kind.as_str(), approval.call_id), ("budget", None));
    let too_few = json!({"max_steps": 1});
    let decide = |input: Value| {
        let said = Decision { input: Some(input), ..decision(DecisionWord::Approve) };
        world.decide(approval.approval_id, said, "user:ann")
    };
    for (input, pointer) in [
        (too_few, "/input"),
        (json!({"max_steps": 0}), "/input/max_steps"),
        (json!({"steps": 9}), "/input/steps"),
    ] {
        let refused = decide(input.clone()).await;
        let Err(DecisionRefused::Invalid(faults)) = refused else { panic!("{input}: {refused:?}") };
        assert_eq!(faults[0].pointer, pointer, "{input}");
    }
    assert_eq!(patch(&world, run, json!({"max_tool_calls": 9}), true).await, Ok(()));
    assert_eq!(world.pending(run).await.len(), 1, "more of something else is not enough");
    assert_eq!(patch(&world, run, json!({"max_steps": 3}), true).await, Ok(()));
    assert!(world.pending(run).await.is_empty());
    let again = world
        .decide(approval.approval_id, decision(DecisionWord::Approve), "user:ann")
        .await
        .expect("the same");
    assert_eq!((again.status.as_str(), again.decided_by.as_deref()), ("approved", Some("key_1")));
    let denied = world.decide(approval.approval_id, decision(DecisionWord::Deny), "user:ann").await;
    assert_eq!(denied, Err(DecisionRefused::AlreadyDecided));
}

#[tokio::test]
async fn more_is_granted_or_refused_by_a_decision() {
    let world = World::new().await;
    let run = world.asking_for_steps().await;
    let approval = world.pending(run).await.remove(0).approval_id;
    let said = Decision { input: Some(json!({"max_steps": 5})), ..decision(DecisionWord::Approve) };
    world.decide(approval, said, "user:ann").await.expect("decided");
    assert!(
        matches!(&world.inbox(run).await[..], [InboundBody::Budget { patch, .. }] if patch.max_steps == Some(5))
    );
    assert_eq!(world.view(run).await.budgets.max_steps, 5);

    let run = world.asking_for_steps().await;
    let approval = world.pending(run).await.remove(0).approval_id;
    let answer = Decision { content: Some("no".into()), ..decision(DecisionWord::Answer) };
    assert!(matches!(world.decide(approval, answer, "user:ann").await, Err(DecisionRefused::Invalid(_))));
    world.decide(approval, decision(DecisionWord::Deny), "user:ann").await.expect("decided");
    assert!(matches!(&world.inbox(run).await[..], [InboundBody::BudgetDenied { .. }]));
}
