//! What comes back, as the model is shown it and as it is kept.

use answerable_core::tool::Attempt;
use answerable_testkit::ToolAnswer;
use serde_json::json;

use super::world::{SIGNING, World, output};

#[tokio::test]
async fn what_tools_answer() {
    let world = World::start().await;
    let json = r#"{"next": 9007199254740993, "sum": 0.10000000000000000555, "score": NaN}"#;
    for (answer, content, chars) in [
        (ToolAnswer::bytes("application/json", json), json, 71),
        (ToolAnswer::text("a red door, größer"), "a red door, größer", 18),
        (ToolAnswer::bytes("application/json", r#"{"mood": "\ud83d"}"#), "{\"mood\": \"\u{fffd}\"}", 13),
        (ToolAnswer::bytes("text/plain", "").with_status(204), "", 0),
    ] {
        let output = output(world.answered(answer).await);
        assert_eq!((output.content.as_str(), output.chars, output.truncated), (content, chars, false));
        assert_eq!(output.artifact_id, None);
    }
}

#[tokio::test]
async fn secrets_do_not_come_back() {
    let world = World::start().await;
    let echo = format!("you sent canary-shop-4711 and {SIGNING}");
    let headers = json!({"headers": {"authorization": "Bearer {{secret.shop}}"}});
    let call = world.call(json!({"output": {"max_chars": 10}}), headers, json!({}));
    world.far.script("look", [ToolAnswer::text(&echo), ToolAnswer::text(&echo).with_status(401)]);
    let (attempt, artifact) = world.run(&call).await;
    let output = output(attempt);
    let kept = artifact.expect("the whole").content;
    assert_eq!(kept, "you sent *** and ***");
    assert!(!output.content.contains("canary"));
    let Attempt::Refused(_, message) = world.run(&call).await.0 else { panic!("refused") };
    assert!(message.contains("you sent *** and ***"), "{message}");
}

#[tokio::test]
async fn long_output_is_cut_and_kept() {
    let world = World::start().await;
    let long = "línea ".repeat(1000);
    world.far.script("look", [ToolAnswer::text(&long)]);
    let call = world.call(json!({"output": {"max_chars": 500}}), json!({}), json!({}));
    let (attempt, artifact) = world.run(&call).await;
    let cut = output(attempt);
    assert!(cut.truncated && cut.content.starts_with("línea ") && cut.content.chars().count() < 700);
    assert_eq!((cut.chars, cut.artifact_id), (6000, Some(call.artifact_id)));
    let artifact = artifact.expect("the whole");
    assert_eq!(
        (artifact.id, artifact.call_id, artifact.content.as_ref()),
        (call.artifact_id, call.call_id, long.as_bytes())
    );
    assert_eq!(artifact.media_type, "text/plain; charset=utf-8");
    let strict =
        world.call(json!({"output": {"max_chars": 500, "on_overflow": "error"}}), json!({}), json!({}));
    let (attempt, artifact) = world.run(&strict).await;
    assert!(output(attempt).too_large && artifact.is_none());
}

#[tokio::test]
async fn an_endless_answer_is_cut_and_still_a_success() {
    let world = World::start().await;
    world.far.script("look", [ToolAnswer::text(&"0123456789 é".repeat(1_000_000))]);
    let (attempt, artifact) = world.run(&world.call(json!({}), json!({}), json!({}))).await;
    let cut = output(attempt);
    assert!(cut.truncated && cut.content.ends_with("its end is lost]"));
    let kept = artifact.expect("what was read").content;
    assert!(kept.len() <= 10 << 20 && kept.len() > (10 << 20) - 64);
    assert!(std::str::from_utf8(&kept).is_ok());
}

#[tokio::test]
async fn bytes_are_an_artifact_and_a_line() {
    let world = World::start().await;
    let picture = b"\x89PNG\r\n\x1a\n\0\0".as_slice();
    world.far.script("look", [ToolAnswer::bytes("image/png", picture)]);
    let call = world.call(json!({}), json!({}), json!({}));
    let (attempt, artifact) = world.run(&call).await;
    let line = format!("[binary output: image/png, 10 bytes, kept as artifact {}]", call.artifact_id);
    assert_eq!(output(attempt).content, line);
    let artifact = artifact.expect("the bytes");
    assert_eq!((artifact.media_type.as_str(), artifact.content.as_ref()), ("image/png", picture));
}
