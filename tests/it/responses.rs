//! A model on the responses wire: what it reasoned goes through storage and back to it, just so and in its place.

use answerable_testkit::ModelReply;
use serde_json::{Value, json};

use crate::harness::{Fits, World};

/// A stream of which the last event tells all.
fn streamed(output: &Value) -> ModelReply {
    let usage = json!({"input_tokens": 20, "output_tokens": 9, "input_tokens_details": {"cached_tokens": 8}});
    let response = json!({"status": "completed", "output": output, "usage": usage});
    let event = json!({"type": "response.completed", "response": response});
    ModelReply::raw(200, "text/event-stream", format!("event: response.completed\ndata: {event}\n\n"))
}

#[tokio::test]
async fn reasoning_is_kept_and_goes_back() {
    let world = World::shared().await;
    // The scripted model is reached at the path of another wire.
    let options = json!({"path": "chat/completions"});
    world.provider(&world.client, json!({"kind": "openai_responses", "options": options})).await;
    let sealed = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA\u{e9}"});
    let comment = json!({"type": "message", "role": "assistant", "phase": "commentary",
        "content": [{"type": "output_text", "text": "I look."}]});
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look",
        "arguments": "{\"at\": 1234567890123456789}"});
    let answer = json!([{"type": "message", "content": [{"type": "output_text", "text": "A red door."}]}]);
    world.model.script("m", [streamed(&json!([sealed, comment, call])), streamed(&answer)]);
    let run = world.start(&world.agent(&[world.read("look")])).await;
    run.ended().await.fits(&json!({
        "final_answer": "A red door.", "budgets": {"used": {"input_tokens": 40, "output_tokens": 18}},
    }));
    let asked = world.model.requests_for("m");
    assert_eq!((asked[0]["store"].clone(), asked[0]["stream"].clone()), (json!(false), json!(true)));
    let said = json!({"type": "message", "role": "assistant", "phase": "commentary", "content": "I look."});
    let items = asked[1]["input"].as_array().expect("items");
    assert_eq!((&items[1], &items[2]), (&sealed, &said), "{items:?}");
    json!(items[3..]).fits(&json!([
        {"type": "function_call", "name": "look", "arguments": "{\"at\":1234567890123456789}", "call_id": items[4]["call_id"]},
        {"type": "function_call_output"},
    ]));
}

#[tokio::test]
async fn how_a_reply_ends_and_fails() {
    let ended = |response: Value| {
        let event = json!({"type": "response.completed", "response": response});
        ModelReply::raw(200, "text/event-stream", format!("data: {event}\n\n"))
    };
    let cut =
        json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []});
    let filtered =
        json!({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": []});
    let failed = json!({"status": "failed", "error": {"code": "server_error", "message": "It broke."}});
    let said = json!({"output": [{"type": "message", "content": "Done."}]});
    for (replies, wanted) in [
        (vec![failed, said.clone()], json!({"status": "finished", "final_answer": "Done."})),
        (vec![cut.clone(), said], json!({"status": "finished", "final_answer": "Done."})),
        (vec![cut.clone(), cut], json!({"stop_reason": "model_error", "error": {"code": "reply_truncated"}})),
        (vec![filtered], json!({"stop_reason": "model_refusal"})),
    ] {
        let world = World::shared().await;
        let options = json!({"path": "chat/completions"});
        world.provider(&world.client, json!({"kind": "openai_responses", "options": options})).await;
        world.model.script("m", replies.into_iter().map(ended));
        world.start(&world.agent(&[])).await.ended().await.fits(&wanted);
    }
}
