//! Messages to a live run.

use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::json;

use crate::harness::{Fits, World};

#[tokio::test]
async fn a_message_joins_the_next_step() {
    let world = World::shared().await;
    world.tools.script("look", [ToolAnswer::text("seen").held()]);
    world.model.script("m", [ModelReply::calls([("look", json!({}))]), ModelReply::text("In short: seen.")]);
    let run = world.start(&world.agent(&[world.read("look")])).await;
    world.tools.reached("look", 1).await;
    let answer = run.steer("be brief").await;
    answer.is(201).fits(&json!({"role": "user", "content": "be brief"}));
    world.tools.release("look");
    run.ended().await.fits(&json!({"status": "finished"}));
    let asked = world.model.requests_for("m");
    assert!(!asked[0].to_string().contains("be brief"));
    asked[1]["messages"].fits(&json!([
        {"role": "system"}, {"role": "user"}, {"role": "assistant"}, {"role": "tool", "content": "seen"},
        {"role": "user", "content": "be brief"},
    ]));
    run.list("messages").await.fits(&json!({"$any": [{"role": "user", "content": "be brief"}]}));
    let late = run.steer("too late").await;
    assert!(matches!(late.status, 409 | 410), "{late}");
}

#[tokio::test]
async fn a_message_that_comes_while_the_last_answer_is_thought_of_is_heard() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("Here.").held(), ModelReply::text("In short.")]);
    let run = world.start(&world.agent(&[])).await;
    world.model.requests_reached(1).await;
    run.steer("be brief").await.is(201);
    world.model.release();
    let shown = run.ended().await;
    shown.fits(&json!({"status": "finished"}));
    let stored = run.list("messages").await;
    stored.fits(&json!({"$any": [{"role": "user", "content": "be brief"}]}));
}
