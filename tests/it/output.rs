//! What tools say, and how much of it.

use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::json;

use crate::harness::{Fits, With, World};

#[tokio::test]
async fn json_text_and_nothing_are_answers() {
    let world = World::shared().await;
    world.tools.script("as_json", [ToolAnswer::json(&json!({"door": "red"}))]);
    world.tools.script("as_text", [ToolAnswer::text("a red door, größer")]);
    world.tools.script("as_nothing", [ToolAnswer::bytes("text/plain", "").with_status(204)]);
    let names = ["as_json", "as_text", "as_nothing"];
    world
        .model
        .script("m", [ModelReply::calls(names.map(|name| (name, json!({})))), ModelReply::text("Seen.")]);
    let run = world.start(&world.agent(&names.map(|name| world.read(name)))).await;
    run.ended().await;
    run.calls().await.fits(&json!([
        {"result": {"status": "succeeded", "content": "~red", "truncated": false, "artifact_id": null}},
        {"result": {"content": "a red door, größer", "output_chars": 18}},
        {"result": {"status": "succeeded", "output_chars": 0}},
    ]));
    world.model.requests_for("m")[1]["messages"]
        .fits(&json!({"$any": [{"role": "tool", "content": "(no output)"}]}));
}

#[tokio::test]
async fn long_output_is_cut_at_a_character_and_kept_whole() {
    let world = World::shared().await;
    let whole = "línea ".repeat(1000);
    world.tools.script("read_log", [ToolAnswer::text(&whole)]);
    world.model.script("m", [ModelReply::calls([("read_log", json!({}))]), ModelReply::text("A long log.")]);
    let tool = world.read("read_log").with(json!({"output": {"max_chars": 500}}));
    let run = world.start(&world.agent(&[tool])).await;
    run.ended().await;
    let result = run.calls().await[0]["result"].clone();
    result.fits(
        &json!({"status": "succeeded", "truncated": true, "output_chars": 6000, "artifact_id": "~art_"}),
    );
    let content = result["content"].as_str().expect("text");
    let head: String = whole.chars().take(500).collect();
    assert!(content.starts_with(&head) && content.chars().count() < 1000, "{content}");
    let artifacts = run.list("artifacts").await;
    artifacts.fits(&json!([{"id": result["artifact_id"], "run_id": run.id, "bytes": whole.len(), "media_type": "~text/plain"}]));
    let id = artifacts[0]["id"].as_str().expect("an id");
    world.client.get(&format!("/v1/artifacts/{id}")).await.fits(&artifacts[0]);
    let kept = world.client.get(&format!("/v1/artifacts/{id}/content")).await;
    assert_eq!((kept.status, kept.text == whole), (200, true));
    let seen = world.model.requests_for("m")[1].to_string();
    assert!(seen.contains(id) && seen.len() < 6000, "{seen}");
}

#[tokio::test]
async fn long_output_can_be_an_error_and_the_ledger_says_what_happened() {
    let world = World::shared().await;
    world.tools.script("pay", [ToolAnswer::text(&"line ".repeat(1000))]);
    world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("Too long.")]);
    let tool = world.write("pay").with(json!({"output": {"max_chars": 500, "on_overflow": "error"}}));
    let run = world.start(&world.agent(&[tool])).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    run.calls().await.fits(&json!([{"result": {"status": "failed", "error_code": "OUTPUT_TOO_LARGE"}}]));
    run.list("ledger").await.fits(&json!([{"status": "succeeded", "side_effect": "committed"}]));
    assert!(world.model.requests_for("m")[1].to_string().contains("OUTPUT_TOO_LARGE"));
}

#[tokio::test]
async fn binary_output_becomes_an_artifact_and_a_line_about_it() {
    let world = World::shared().await;
    let image = vec![0x89, b'P', b'N', b'G', 0, 1, 2, 0xff];
    world.tools.script("draw", [ToolAnswer::bytes("image/png", image.clone())]);
    world.model.script("m", [ModelReply::calls([("draw", json!({}))]), ModelReply::text("Drawn.")]);
    let run = world.start(&world.agent(&[world.read("draw")])).await;
    run.ended().await;
    run.list("artifacts").await.fits(&json!([{"media_type": "image/png", "bytes": image.len()}]));
    run.calls()
        .await
        .fits(&json!([{"result": {"status": "succeeded", "artifact_id": "~art_", "content": "~image/png"}}]));
}

#[tokio::test]
async fn odd_bytes_in_an_answer_harm_nobody() {
    let world = World::shared().await;
    world.tools.script("odd", [ToolAnswer::bytes("text/plain", &b"a\0b\xff\xfec"[..])]);
    world.model.script("m", [ModelReply::calls([("odd", json!({}))]), ModelReply::text("Odd.")]);
    let run = world.start(&world.agent(&[world.read("odd")])).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    let content = run.calls().await[0]["result"]["content"].as_str().expect("text").to_owned();
    assert!(!content.contains('\0'), "{content:?}");
}
