//! What tools say: text, pictures, resources, structures, much of it, and nothing.

use answerable_core::agent::{OnOverflow, OutputSpec};
use answerable_core::tool::Attempt;
use answerable_ports::Came;
use answerable_testkit::McpAnswer;
use serde_json::{Value, json};

use super::world::{World, output};

const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

async fn said(world: &World, result: Value) -> Came {
    let tool = format!("t{}", uuid::Uuid::new_v4().simple());
    world.files().script(&tool, [McpAnswer::result(&result)]);
    world.run(&world.prepared(1, "files", &tool, json!({}))).await
}

#[tokio::test]
async fn what_is_text_reaches_the_model() {
    let world = World::start().await;
    let text = |text: &str| json!({"type": "text", "text": text});
    let deep = json!({"id": 7, "door": {"n": [1, 2]}});
    for (result, wanted) in [
        (json!({"content": [text("a red door"), text("and a key")]}), "a red door\nand a key".to_owned()),
        (json!({"content": [text("a")], "structuredContent": {"a": 1}}), "a".into()),
        (json!({"structuredContent": deep}), deep.to_string()),
        (json!({"content": [], "structuredContent": deep}), deep.to_string()),
        (json!({"content": null, "structuredContent": [1]}), "[1]".into()),
        (json!({"content": []}), String::new()),
        (json!({}), String::new()),
        (json!({"content": "plain"}), "plain".into()),
        (json!({"content": [text("x\u{0}y")]}), "x\u{fffd}y".into()),
        (
            json!({"content": [{"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "of a"}}]}),
            "of a".into(),
        ),
        (
            json!({"content": [{"type": "resource_link", "uri": "file:///a.md", "name": "a.md", "mimeType": "text/markdown",
                "size": 5, "description": "notes", "annotations": {"priority": 0.5}}]}),
            "[resource: a.md (file:///a.md), text/markdown, 5 bytes] notes".into(),
        ),
        (
            json!({"content": [{"type": "hologram", "n": 1}, text("b")]}),
            "{\"n\":1,\"type\":\"hologram\"}\nb".into(),
        ),
        (json!({"content": [{"type": "text"}, 7]}), "{\"type\":\"text\"}\n7".into()),
        (
            json!({"content": [{"type": "hologram", "n": "x".repeat(3000)}]}),
            "[content of an unknown kind]".into(),
        ),
    ] {
        let came = said(&world, result.clone()).await;
        assert_eq!(output(came.attempt).content, wanted, "{result}");
        assert!(came.artifacts.is_empty());
    }
}

#[tokio::test]
async fn digits_are_kept() {
    let world = World::start().await;
    let raw = r#"{"jsonrpc":"2.0","id":2,"result":{"structuredContent":{"id":12345678901234567890123,"price":1.10}}}"#;
    world.files().script("look", [McpAnswer::raw("application/json", raw)]);
    let content = output(world.call("look", json!({})).await).content;
    assert_eq!(content, r#"{"id":12345678901234567890123,"price":1.10}"#);
}

#[tokio::test]
async fn what_is_no_text_becomes_artifacts() {
    let world = World::start().await;
    let came = said(
        &world,
        json!({"content": [
            {"type": "text", "text": "a red door"},
            {"type": "image", "mimeType": "image/png", "data": PIXEL},
            {"type": "audio", "mimeType": "audio/wav", "data": "UklGRg"},
            {"type": "resource", "resource": {"uri": "x:y", "blob": "AAEC"}},
            {"type": "image", "mimeType": "no type at all\n", "data": "AA=="},
            {"type": "image", "mimeType": "image/png", "data": "???"},
        ]}),
    )
    .await;
    let kept: Vec<_> =
        came.artifacts.iter().map(|kept| (kept.media_type.as_str(), kept.content.len())).collect();
    let octets = "application/octet-stream";
    assert_eq!(kept, [("image/png", 70), ("audio/wav", 4), (octets, 3), (octets, 1)]);
    let output = output(came.attempt);
    let lines: Vec<&str> = output.content.lines().collect();
    assert_eq!(lines.len(), 6);
    assert_eq!(
        lines[1],
        format!("[binary output: image/png, 70 bytes, kept as artifact {}]", came.artifacts[0].id)
    );
    assert!(lines[5].contains("can't be read") && !output.content.contains("iVBOR"));
    assert_eq!(output.artifact_id, Some(came.artifacts[0].id));
    let ids: std::collections::HashSet<_> = came.artifacts.iter().map(|kept| kept.id).collect();
    assert_eq!(ids.len(), 4);
}

#[tokio::test]
async fn pictures_without_end_are_not_all_kept() {
    let world = World::start().await;
    let picture = json!({"type": "image", "mimeType": "image/png", "data": PIXEL});
    let came = said(&world, json!({"content": vec![picture; 25]})).await;
    assert_eq!(came.artifacts.len(), 20);
    assert_eq!(output(came.attempt).content.matches("too many").count(), 5);
}

#[tokio::test]
async fn long_text_is_kept_whole_and_shown_in_part() {
    let world = World::start().await;
    let files = world.files();
    files.script("long", [McpAnswer::text(&"é".repeat(5000))]);
    let mut call = world.prepared(1, "files", "long", json!({}));
    call.tool.output = OutputSpec { max_chars: 100, on_overflow: OnOverflow::Truncate };
    let came = world.run(&call).await;
    let output = output(came.attempt);
    assert_eq!((output.chars, output.truncated, output.artifact_id), (5000, true, Some(call.artifact_id)));
    assert_eq!((came.artifacts.len(), came.artifacts[0].content.len()), (1, 10_000));
    call.tool.output.on_overflow = OnOverflow::Error;
    let came = world.run(&call).await;
    assert!(super::world::output(came.attempt).too_large && came.artifacts.is_empty());
}

#[tokio::test]
async fn a_failure_is_told_in_the_tools_words() {
    let world = World::start().await;
    let image = json!({"type": "image", "mimeType": "image/png", "data": PIXEL});
    for (result, wanted) in [
        (
            json!({"content": [{"type": "text", "text": " no such file "}], "isError": true}),
            "no such file".to_owned(),
        ),
        (json!({"content": [], "isError": true}), "the tool failed and said nothing".into()),
        (json!({"structuredContent": {"why": "x"}, "isError": true}), "{\"why\":\"x\"}".into()),
        (
            json!({"content": [{"type": "text", "text": "z".repeat(3000)}, image.clone()], "isError": true}),
            "z".repeat(2000) + "…",
        ),
    ] {
        let came = said(&world, result).await;
        assert!(matches!(&came.attempt, Attempt::Refused(_, why) if *why == wanted), "{:?}", came.attempt);
        assert!(came.artifacts.is_empty());
    }
}

#[tokio::test]
async fn what_a_failure_names_is_kept() {
    let world = World::start().await;
    let image = json!({"type": "image", "mimeType": "image/png", "data": PIXEL});
    let text = |size: usize| json!({"type": "text", "text": "z".repeat(size)});
    let came = said(&world, json!({"content": [image, text(3000), image], "isError": true})).await;
    let Attempt::Refused(_, why) = &came.attempt else { panic!("{:?}", came.attempt) };
    let [kept] = came.artifacts.as_slice() else { panic!("{} artifacts", came.artifacts.len()) };
    assert!(why.contains(&kept.id.to_string()) && why.ends_with('…'), "{why}");
    assert_eq!((kept.media_type.as_str(), kept.content.len()), ("image/png", 70));
}

#[tokio::test]
async fn only_so_many_blocks_are_read() {
    let world = World::start().await;
    let came = said(&world, json!({"content": vec![json!(1); 1_000_003]})).await;
    let content = output(came.attempt).content;
    let lines: Vec<&str> = content.lines().collect();
    assert_eq!((lines.len(), lines[999]), (1001, "1"));
    assert_eq!(lines[1000], "[999003 more blocks of content, which are not read]");
}

#[tokio::test]
async fn odd_fields_spoil_no_block() {
    let world = World::start().await;
    for (block, wanted) in [
        (json!({"type": "text", "text": "a", "data": {"n": [1]}, "size": -1, "annotations": 7}), "a"),
        (json!({"type": "resource", "resource": {"text": "b", "uri": 7, "mimeType": [], "blob": 5}}), "b"),
        (
            json!({"type": "resource_link", "uri": "x:y", "name": "n", "size": 1.5, "mimeType": 3}),
            "[resource: n (x:y)]",
        ),
        (json!({"type": "resource_link", "name": "n"}), "{\"name\":\"n\",\"type\":\"resource_link\"}"),
        (json!(["text", "a"]), "[\"text\",\"a\"]"),
    ] {
        let came = said(&world, json!({"content": [block]})).await;
        assert_eq!(output(came.attempt).content, wanted, "{block}");
    }
}
