//! Pictures and documents of messages, as far as they go without an engine.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::world::{Reply, World};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n rest";

fn picture() -> Value {
    json!({"type": "image", "data": STANDARD.encode(PNG)})
}

fn document() -> Value {
    json!({"type": "file", "name": "a.txt", "media_type": "text/plain", "data": STANDARD.encode("words")})
}

async fn world() -> World {
    let world = World::start().await;
    let provider = json!({"kind": "scripted", "script": [{"final": "Done."}]});
    assert_eq!(world.tell("PUT", "/v1/providers/main", provider).await.status, 200);
    world
}

/// Asks for a run with a message of the user's.
async fn start(world: &World, content: Value) -> Reply {
    let agent = json!({"name": "desk", "instructions": "Help.", "model": {"provider": "main", "model": "m"}});
    let input = json!([{"role": "user", "content": content}]);
    world.tell("POST", "/v1/runs", json!({"agent": agent, "input": input})).await
}

async fn get(world: &World, path: &str) -> Value {
    world.tell("GET", path, Value::Null).await.body
}

#[tokio::test]
async fn what_is_sent_is_shown_by_reference() {
    let world = world().await;
    let parts = json!([{"type": "text", "text": "a\u{0}b"}, picture(), document(), {"type": "image", "url": "https://h/a"}]);
    let made = start(&world, parts).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let path = made.header("location").expect("a location").to_owned();
    let message = get(&world, &format!("{path}/messages")).await["data"][0].clone();
    assert_eq!(message["content"], "a\u{fffd}b");
    assert_eq!(message.get("pinned"), None);
    let parts = &message["parts"];
    assert_eq!(parts[0], json!({"type": "text", "text": "a\u{fffd}b"}));
    assert_eq!(parts[3], json!({"type": "image", "url": "https://h/a"}));
    let id = parts[1]["artifact_id"].as_str().expect("an id");
    let shown = json!({"type": "image", "media_type": "image/png", "artifact_id": id, "bytes": PNG.len()});
    assert_eq!(parts[1], shown);
    assert_eq!((&parts[2]["name"], &parts[2]["media_type"]), (&json!("a.txt"), &json!("text/plain")));
    let listed = get(&world, &format!("{path}/artifacts")).await;
    assert_eq!(listed["data"].as_array().expect("a list").len(), 2);
    assert_eq!((&listed["data"][0]["id"], &listed["data"][0]["tool_call_id"]), (&json!(id), &Value::Null));
    let text = parts[2]["artifact_id"].as_str().expect("an id");
    let bytes = world.tell("GET", &format!("/v1/artifacts/{text}/content"), Value::Null).await;
    assert_eq!((bytes.text.as_str(), bytes.header("content-type")), ("words", Some("text/plain")));
}

#[tokio::test]
async fn what_is_said_to_a_live_run_has_parts_and_a_pin() {
    let world = world().await;
    let path = start(&world, json!("go")).await.header("location").expect("a location").to_owned();
    let word = json!({"content": [{"type": "text", "text": "this one"}, picture()], "pinned": true});
    let key = ("idempotency-key", "k1");
    let messages = format!("{path}/messages");
    let said = world.tell_with(key, "POST", &messages, word.clone()).await;
    assert_eq!(said.status, 201, "{}", said.text);
    assert_eq!((&said.body["content"], &said.body["pinned"]), (&json!("this one"), &json!(true)));
    assert_eq!(said.body["parts"][1]["media_type"], "image/png");
    let again = world.tell_with(key, "POST", &messages, word).await;
    assert_eq!((again.status, &again.body), (201, &said.body), "the same message");
    assert_eq!(get(&world, &format!("{path}/artifacts")).await["data"].as_array().expect("a list").len(), 1);
    for (body, pointer) in [
        (json!({"content": []}), "/content"),
        (json!({"content": 5}), "/content"),
        (json!({"content": [{"type": "image", "data": "?"}]}), "/content/0/data"),
        (json!({"content": [{"type": "image", "url": "http://10.0.0.1/a"}]}), "/content/0/url"),
        (json!({"content": "a", "pinned": "yes"}), "/pinned"),
    ] {
        let refused = world.tell("POST", &messages, body.clone()).await;
        assert_eq!((refused.status, refused.pointers()), (422, vec![pointer]), "{body}: {}", refused.text);
    }
}

#[tokio::test]
async fn faults_are_at_their_place() {
    let world = world().await;
    let image = |more: Value| {
        let mut part = json!({"type": "image"});
        part.as_object_mut().expect("a part").extend(more.as_object().expect("fields").clone());
        json!([{"type": "text", "text": "see"}, part])
    };
    let data = STANDARD.encode(PNG);
    let long: Vec<Value> = vec![json!({"type": "text", "text": "a"}); 33];
    for (content, pointer) in [
        (json!([]), ""),
        (json!(5), ""),
        (json!(long), ""),
        (json!([{"type": "sound", "data": data}]), "/0/type"),
        (json!([{"data": data}]), "/0/type"),
        (json!([5]), "/0"),
        (image(json!({})), "/1"),
        (image(json!({"data": data, "url": "https://h/a"})), "/1"),
        (image(json!({"data": data, "color": "red"})), "/1/color"),
        (image(json!({"data": "not base64"})), "/1/data"),
        (image(json!({"data": format!("{data}\u{0}")})), "/1/data"),
        (image(json!({"data": data, "media_type": "image/gif"})), "/1/media_type"),
        (image(json!({"url": "https://ann:secret@h/a"})), "/1/url"),
        (image(json!({"url": "ftp://h/a"})), "/1/url"),
        (image(json!({"url": "http://10.0.0.1/a"})), "/1/url"),
        (image(json!({"artifact_id": "art_7"})), "/1/artifact_id"),
        (image(json!({"artifact_id": "art_0197c0de-0000-7000-8000-000000000001"})), "/1/artifact_id"),
    ] {
        let refused = start(&world, content.clone()).await;
        let pointer = format!("/input/0/content{pointer}");
        assert_eq!(
            (refused.status, refused.pointers()),
            (422, vec![pointer.as_str()]),
            "{content}: {}",
            refused.text
        );
    }
    assert!(
        get(&world, "/v1/runs").await["data"].as_array().expect("a list").is_empty(),
        "nothing was stored"
    );
}

#[tokio::test]
async fn an_artifact_of_another_tenant_is_none() {
    let world = world().await;
    let made = start(&world, json!([picture()])).await;
    let path = made.header("location").expect("a location");
    let id = get(&world, &format!("{path}/artifacts")).await["data"][0]["id"].clone();
    let part = json!([{"type": "image", "artifact_id": id}]);
    assert_eq!(start(&world, part.clone()).await.status, 201, "its own");
    let (_, key) = world.new_tenant(json!({})).await;
    let provider = json!({"kind": "scripted", "script": [{"final": "Done."}]});
    assert_eq!(world.ask(&key, "PUT", "/v1/providers/main", provider).await.status, 200);
    let agent = json!({"name": "desk", "instructions": "Help.", "model": {"provider": "main", "model": "m"}});
    let body = json!({"agent": agent, "input": [{"role": "user", "content": part}]});
    let refused = world.ask(&key, "POST", "/v1/runs", body).await;
    assert_eq!((refused.status, refused.pointers()), (422, vec!["/input/0/content/0/artifact_id"]));
}

#[tokio::test]
async fn a_body_over_the_limit_is_told_so() {
    let world = world().await;
    let refused =
        start(&world, json!([{"type": "file", "media_type": "a/b", "data": "A".repeat(70_000)}])).await;
    assert_eq!(refused.status, 413, "{}", refused.text);
}
