//! Changing live runs.

use answerable_core::budget::BudgetPatch;
use answerable_store::{ChangeRefused, Changed, Changer, RunPatch};
use serde_json::{Map, Value, json};

use crate::world::World;
use answerable_core::id::RunId;

async fn patch(world: &World, run: RunId, budgets: Value, is_admin: bool) -> Changed<()> {
    let budgets: BudgetPatch = serde_json::from_value(budgets).expect("a patch");
    change(world, run, RunPatch { budgets: Some(budgets), metadata: None }, is_admin).await
}

async fn change(world: &World, run: RunId, patch: RunPatch, is_admin: bool) -> Changed<()> {
    let mut tx = world.tx().await;
    let changed = tx.run_patch(run, &patch, &Changer { by: "key_1".into(), is_admin }).await.expect("an answer");
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
    assert_eq!(patch(&world, run, json!({"max_steps": 3}), false).await, Err(ChangeRefused::AboveAgent(vec!["max_steps"])));
    assert_eq!(patch(&world, run, json!({"max_steps": 3, "max_cost_microusd": 5}), true).await, Ok(()));
    // What an admin raised isn't held against another's change.
    assert_eq!(patch(&world, run, json!({"max_tool_calls": 7}), false).await, Ok(()));
    let view = world.view(run).await;
    assert_eq!((view.budgets.max_steps, view.budgets.max_tool_calls, view.budgets.max_cost_microusd), (3, 7, Some(5)));
    assert_eq!(view.state.budgets.max_steps, 2, "the run hasn't heard of it yet");
    assert_eq!(world.inbox(run).await.len(), 3);
}

#[tokio::test]
async fn limits_below_what_is_used_are_refused_by_name() {
    let world = World::new().await;
    let run = world.waiting(&[("ask_user", json!({}))]).await;
    let refused = patch(&world, run, json!({"max_steps": 0, "max_tokens": 14, "max_tool_calls": 9}), false).await;
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
    assert_eq!(tx.run_steer(run, "too late".into()).await.expect("an answer"), Err(ChangeRefused::Ended));
}
