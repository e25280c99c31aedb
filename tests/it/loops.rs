//! Work without progress is stopped; progress is not.

use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::json;

use crate::harness::{Fits, With, World};

fn call(name: &str, n: i64) -> ModelReply {
    ModelReply::calls([(name, json!({"n": n}))])
}

#[tokio::test]
async fn the_same_call_with_the_same_result_is_stopped() {
    let world = World::shared().await;
    world.model.script("m", [call("look", 1)]);
    world.model.repeat_last("m");
    let run = world.start(&world.agent(&[world.read("look")])).await;
    run.ended().await.fits(&json!({
        "status": "failed", "stop_reason": "repeated_tool_call", "final_answer": "~look",
        "error": {"tool_name": "look", "step": 3},
    }));
    assert_eq!((world.tools.requests("look").len(), world.model.requests_for("m").len()), (3, 3));
}

#[tokio::test]
async fn calls_in_turn_are_a_cycle() {
    let world = World::shared().await;
    for _ in 0..4 {
        world.model.script("m", [call("search", 1), call("get", 7)]);
    }
    let run = world.start(&world.agent(&[world.read("search"), world.read("get")])).await;
    run.ended().await.fits(&json!({"stop_reason": "repeated_tool_call"}));
    assert_eq!((world.tools.requests("search").len(), world.tools.requests("get").len()), (3, 3));
}

#[tokio::test]
async fn another_spelling_is_the_same_call() {
    let world = World::shared().await;
    let spellings = [r#"{"b": 1, "a": 2}"#, r#"{"a":2,"b":1}"#, r#"{ "a" : 2.0, "b" : 1e0 }"#];
    world.model.script("m", spellings.map(|text| ModelReply::raw_calls([("do_it", text.to_owned())])));
    let run = world.start(&world.agent(&[world.read("do_it")])).await;
    run.ended().await.fits(&json!({"stop_reason": "repeated_tool_call"}));
    let hash = "sha256:d3626ac30a87e6f7a6428233b3c68299976865fa5508e4267c5415c76af7a772";
    run.calls().await.fits(&json!([{"input_hash": hash}, {"input_hash": hash}, {"input_hash": hash}]));
}

#[tokio::test]
async fn progress_is_not_stopped() {
    let world = World::shared().await;
    // Results that change; arguments that change; a tool that may repeat.
    world.tools.script("poll", (1..=5).map(|n| ToolAnswer::json(&json!({"done": n}))));
    world.model.script("m", [1; 5].map(|n| call("poll", n)));
    world.model.script("m", [2, 3, 4, 5].map(|n| call("do_it", n)));
    world.model.script("m", [1; 5].map(|n| call("wait", n)));
    world.model.script("m", [ModelReply::text("It is done.")]);
    let wait = world.read("wait").with(json!({"repeat": "allow"}));
    let run = world.start(&world.agent(&[world.read("poll"), world.read("do_it"), wait])).await;
    run.ended().await.fits(&json!({"status": "finished"}));
}

#[tokio::test]
async fn the_same_error_in_a_row_is_stopped_whatever_the_input() {
    let world = World::shared().await;
    world.tools.script("get", [ToolAnswer::status(404)]);
    // Calls of other tools do not break the row.
    world
        .model
        .script("m", [call("get", 1), call("look", 1), call("get", 2), call("look", 2), call("get", 3)]);
    let run = world.start(&world.agent(&[world.read("get"), world.read("look")])).await;
    run.ended().await.fits(&json!({
        "stop_reason": "same_error_repeated", "final_answer": "~get", "error": {"tool_name": "get", "step": 5},
    }));
    assert_eq!(world.tools.requests("get").len(), 3);
}

#[tokio::test]
async fn rejected_calls_count_for_the_same_error() {
    let world = World::shared().await;
    let schema = json!({"type": "object", "required": ["amount"]});
    world.model.script("m", (1..=3).map(|n| call("pay", n)));
    let run = world.start(&world.agent(&[world.write("pay").with(json!({"input_schema": schema}))])).await;
    run.ended()
        .await
        .fits(&json!({"stop_reason": "same_error_repeated", "budgets": {"used": {"tool_calls": 0}}}));
    assert_eq!(world.tools.requests("pay").len(), 0);
}

#[tokio::test]
async fn a_success_breaks_the_row_of_errors() {
    let world = World::shared().await;
    let (bad, good) = (ToolAnswer::status(404), ToolAnswer::default());
    world.tools.script("get", [bad.clone(), bad.clone(), good.clone(), bad.clone(), bad, good]);
    world.model.script("m", (1..=6).map(|n| call("get", n)));
    world.model.script("m", [ModelReply::text("Found.")]);
    let run = world.start(&world.agent(&[world.read("get")])).await;
    run.ended().await.fits(&json!({"status": "finished"}));
}
