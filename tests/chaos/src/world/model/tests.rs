//! The model by its wire.

use serde_json::{Value, json};

use super::script::Script;
use crate::world::World;
use crate::world::lines::{MODEL, ModelLine};

async fn ask(world: &World, messages: &Value, stream: bool) -> Option<String> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let url = format!("{}/chat/completions", world.addresses.model);
    // Only the first try of a turn goes wrong.
    for _ in 0..2 {
        let sent = http.post(&url).json(&json!({"messages": messages, "stream": stream})).send().await;
        if let Ok(response) = sent
            && response.status() == 200
            && let Ok(text) = response.text().await
        {
            return Some(text);
        }
    }
    None
}

fn script(tag: &str, kind: &str, steps: usize) -> Script {
    Script { tag: tag.into(), kind: kind.into(), steps, slot: "slot-1".into() }
}

/// A call and its result, as they stand in a history.
fn turn(id: &str) -> [Value; 2] {
    let call = json!({"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}});
    [
        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
        json!({"role": "tool", "tool_call_id": id, "content": "seen"}),
    ]
}

#[tokio::test]
async fn replies_follow_from_the_conversation() {
    let dir = tempfile::tempdir().expect("a folder");
    let world = World::start(dir.path(), 3).await.expect("a world");
    let user = |script: &Script| json!({"role": "user", "content": script.message()});
    let mut messages = vec![user(&script("t1", "pay", 2))];
    let whole: Value =
        serde_json::from_str(&ask(&world, &json!(messages), false).await.expect("a reply")).expect("JSON");
    let call = &whole["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!((&call["name"], &call["arguments"]), (&json!("pay"), &json!(r#"{"token":"t1/0.0"}"#)));
    messages.extend(turn("a"));
    messages.push(json!({"role": "user", "content": "And mind the gap."}));
    let streamed = ask(&world, &json!(messages), true).await.expect("a reply");
    assert!(streamed.contains(r#"t1/1.0"#) && streamed.ends_with("data: [DONE]\n\n"), "{streamed}");
    messages.extend(turn("b"));
    let answer = ask(&world, &json!(messages), false).await.expect("a reply");
    assert!(answer.contains("Item t1 is done."), "{answer}");
    // The next run of a thread.
    messages.extend([
        json!({"role": "assistant", "content": "Item t1 is done."}),
        user(&script("t2", "reserve", 1)),
    ]);
    let next = ask(&world, &json!(messages), false).await.expect("a reply");
    assert!(next.contains("slot-1"), "{next}");
}

#[tokio::test]
async fn a_history_that_providers_refuse_is_noted() {
    let dir = tempfile::tempdir().expect("a folder");
    let world = World::start(dir.path(), 3).await.expect("a world");
    let user = json!({"role": "user", "content": script("t1", "look", 3).message()});
    let [call, result] = turn("a");
    for messages in
        [json!([user, call]), json!([user, result]), json!([user, call, result, result]), json!([])]
    {
        assert_eq!(ask(&world, &messages, false).await, None, "{messages}");
    }
    world.shared.requests.settled().await.expect("a log");
    let lines: Vec<ModelLine> = crate::witness::read(dir.path(), MODEL).expect("lines");
    assert!(lines.iter().filter(|line| line.how.is_none()).all(|line| line.violation.is_some()));
    assert_eq!(lines.len(), 16);
}
