//! The provider that has its replies by heart.

use std::time::Duration;

use answerable_core::model::{FailureKind, ModelRequest, Purpose};
use serde_json::json;

use crate::support::{ask, ask_within, calls, request, target};

#[tokio::test]
async fn the_nth_reply_is_for_the_nth_call_and_the_last_for_all_others() {
    let mut target = target("scripted", "");
    target.script = vec![
        json!({"tool_calls": [{"name": "pay", "arguments": {"id": 1_234_567_890_123_456_789_u64}},
            {"name": "look", "arguments": "{\"n\": 1}"}], "text": "Paying."}),
        json!({"final": "Paid 🦀.", "usage": {"input_tokens": 7, "output_tokens": 3}}),
    ];
    let first = ask(&target, &request(0)).await.expect("a reply");
    let wanted = [
        ("pay".to_owned(), json!({"id": 1_234_567_890_123_456_789_u64})),
        ("look".to_owned(), json!({"n": 1})),
    ];
    assert_eq!((first.text.as_str(), calls(&first)), ("Paying.", wanted.to_vec()));
    let usage = first.usage.expect("usage");
    assert!(usage.estimated && usage.input_tokens > 0 && usage.output_tokens > 0);
    for turn in [1, 2, 99] {
        let (reply, heard) = ask_within(&target, &request(turn), Duration::from_secs(1)).await;
        let reply = reply.expect("a reply");
        assert_eq!((reply.text.as_str(), heard.concat().as_str()), ("Paid 🦀.", "Paid 🦀."));
        assert_eq!(reply.usage.map(|usage| (usage.input_tokens, usage.output_tokens)), Some((7, 3)));
    }
}

#[tokio::test]
async fn a_reply_may_be_late_and_a_script_empty() {
    let mut target = target("scripted", "");
    assert_eq!(ask(&target, &request(0)).await.expect_err("a failure").kind, FailureKind::Unusable);
    target.script = vec![json!({"final": "late", "delay_ms": 200})];
    let (late, heard) = ask_within(&target, &request(0), Duration::from_millis(20)).await;
    assert_eq!((late.expect_err("a failure").kind, heard.len()), (FailureKind::Passing, 0));
    assert!(ask(&target, &request(0)).await.is_ok());
}

#[tokio::test]
async fn a_summary_takes_nothing_of_the_script() {
    let mut target = target("scripted", "");
    let mut asked = ModelRequest { purpose: Purpose::Summary, ..request(0) };
    asked.messages[0].content = format!("user: My name is Ann.\n\nassistant: {}", "Hello Ann. ".repeat(50));
    let made = ask(&target, &asked).await.expect("without a script, too");
    assert!(made.text.starts_with("user: My name is Ann. / assistant: Hello Ann."), "{}", made.text);
    assert!(made.text.len() < 100 && made.usage.is_some_and(|usage| usage.estimated));
    target.options.insert("summary".into(), json!("Ann said hello."));
    assert_eq!(ask(&target, &asked).await.expect("a summary").text, "Ann said hello.");
}
