//! Calls that are not legal: never executed, told to the model, and the run goes on.

use answerable_testkit::ModelReply;
use serde_json::{Value, json};

use crate::harness::{Fits, With, World};

#[tokio::test]
async fn an_unknown_tool_is_rejected() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([("delete_all", json!({}))]), ModelReply::text("I can not.")]);
    let run = world.start(&world.agent(&[world.read("find_order")])).await;
    run.ended()
        .await
        .fits(&json!({"status": "finished", "budgets": {"used": {"steps": 2, "tool_calls": 0}}}));
    run.calls().await.fits(&json!([{
        "tool_name": "delete_all", "validation": "unknown_tool",
        "result": {"status": "rejected", "error_code": "NOT_FOUND"},
    }]));
    run.list("events")
        .await
        .fits(&json!({"$any": [{"type": "tool.rejected", "data": {"tool_name": "delete_all"}}]}));
    run.list("ledger").await.fits(&json!([]));
    assert!(world.model.requests_for("m")[1].to_string().contains("delete_all"));
}

#[tokio::test]
async fn arguments_that_are_no_object_are_rejected() {
    for arguments in [r#"{"cart": "c-1"#, r#"["c-1"]"#, "null", "7", r#""text""#, "{} {}", "{'cart': 1}"] {
        let world = World::shared().await;
        let call = ModelReply::raw_calls([("create_order", arguments.to_owned())]);
        world.model.script("m", [call, ModelReply::text("I gave up.")]);
        let run = world.start(&world.agent(&[world.write("create_order")])).await;
        run.ended().await.fits(&json!({"status": "finished", "budgets": {"used": {"steps": 2}}}));
        run.calls().await.fits(&json!([{
            "validation": "malformed_arguments", "input": {},
            "result": {"status": "rejected", "error_code": "INVALID_ARGUMENTS"},
        }]));
        run.list("ledger").await.fits(&json!([]));
        assert_eq!(world.tools.effects("create_order"), 0, "{arguments}");
    }
}

#[tokio::test]
async fn empty_arguments_mean_an_empty_object() {
    let world = World::shared().await;
    let call = ModelReply::raw_calls([("list_orders", String::new())]);
    world.model.script("m", [call, ModelReply::text("None.")]);
    let run = world.start(&world.agent(&[world.read("list_orders")])).await;
    run.ended().await;
    run.calls().await.fits(&json!([{"validation": "ok", "input": {}, "result": {"status": "succeeded"}}]));
    assert_eq!(world.tools.requests("list_orders")[0].json(), json!({}));
}

#[tokio::test]
async fn a_violated_schema_is_named_and_can_be_mended() {
    let world = World::shared().await;
    let schema = json!({
        "type": "object", "required": ["amount"], "additionalProperties": false,
        "properties": {"amount": {"type": "number", "maximum": 100}},
    });
    let pay = world.write("pay").with(json!({"input_schema": schema}));
    // Nothing is coerced: a text is no number.
    let bad = [json!({"amount": "12"}), json!({"amount": 101}), json!({"amount": 1, "extra": 2})];
    for arguments in bad {
        world.model.script("m", [ModelReply::calls([("pay", arguments)])]);
    }
    world.model.script("m", [ModelReply::calls([("pay", json!({"amount": 12}))]), ModelReply::text("Paid.")]);
    let agent = world.agent(&[pay]).with(json!({"loop_guard": {"max_repeated_errors": 9}}));
    let run = world.start(&agent).await;
    run.ended()
        .await
        .fits(&json!({"status": "finished", "budgets": {"used": {"steps": 5, "tool_calls": 1}}}));
    let rejected = json!({"validation": "schema_violation", "result": {"status": "rejected", "error_code": "INVALID_ARGUMENTS"}});
    let fine = json!({"validation": "ok", "result": {"status": "succeeded"}});
    run.calls().await.fits(&Value::from(vec![rejected.clone(), rejected.clone(), rejected, fine]));
    run.list("ledger").await.fits(&json!([{"status": "succeeded", "side_effect": "committed"}]));
    assert_eq!(world.tools.effects("pay"), 1);
    let asked = world.model.requests_for("m");
    assert!(asked[1].to_string().contains("/amount"), "{}", asked[1]);
    assert!(asked[3].to_string().contains("extra"), "{}", asked[3]);
}

#[tokio::test]
async fn a_bad_call_beside_good_ones_spoils_none() {
    let world = World::shared().await;
    let calls = [("pay", "{".to_owned()), ("look", r#"{"n": 1}"#.to_owned()), ("nothing", "{}".to_owned())];
    world.model.script("m", [ModelReply::raw_calls(calls), ModelReply::text("One of three.")]);
    let run = world.start(&world.agent(&[world.write("pay"), world.read("look")])).await;
    run.ended().await.fits(&json!({"status": "finished", "budgets": {"used": {"tool_calls": 1}}}));
    run.calls().await.fits(&json!([
        {"tool_name": "pay", "validation": "malformed_arguments"},
        {"tool_name": "look", "validation": "ok", "result": {"status": "succeeded"}},
        {"tool_name": "nothing", "validation": "unknown_tool"},
    ]));
    assert_eq!(world.tools.effects("pay"), 0);
}

#[tokio::test]
async fn two_identical_calls_of_one_reply_are_two_calls() {
    let world = World::shared().await;
    let calls = [("add", json!({"n": 1})), ("add", json!({"n": 1}))];
    world.model.script("m", [ModelReply::calls(calls), ModelReply::text("Twice.")]);
    let run = world.start(&world.agent(&[world.write("add")])).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    run.list("ledger").await.fits(&json!([{"status": "succeeded"}, {"status": "succeeded"}]));
    assert_eq!(world.tools.effects("add"), 2);
}
