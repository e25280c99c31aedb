//! Pictures and documents in messages: they reach the model, are kept with their run, and go with it.

use std::sync::Arc;

use answerable_testkit::{ModelReply, TestDatabase, ToolAnswer};
use serde_json::{Value, json};

use crate::harness::recorded::{journal, same_again};
use crate::harness::{Fits, Run, Server, With, World};

/// The beginning of a PNG and of a GIF.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUg==";
const GIF: &str = "R0lGODlhAQABAAAAACw=";
const PDF: &str = "JVBERi0xLjcK";
const GONE: &str = "~not kept any more";

fn text(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

fn picture(data: &str) -> Value {
    json!({"type": "image", "data": data})
}

fn refer(id: &str) -> Value {
    json!({"type": "image", "artifact_id": id})
}

fn input(parts: Value) -> Value {
    json!({"input": [{"role": "user", "content": parts}]})
}

/// How a picture reaches the model.
fn shown(kind: &str, data: &str) -> Value {
    json!({"type": "image_url", "image_url": {"url": format!("data:image/{kind};base64,{data}")}})
}

/// What the model was shown with the messages of people, the newest request's.
fn said(world: &World) -> Vec<Value> {
    let asked = world.model.requests_for("m").pop().expect("a request");
    let messages = asked["messages"].as_array().expect("messages").iter();
    messages.filter(|message| message["role"] == "user").map(|message| message["content"].clone()).collect()
}

async fn artifact(run: &Run<'_>, place: usize) -> String {
    run.list("artifacts").await[place]["id"].as_str().expect("an artifact").to_owned()
}

/// A run of a model that answers at once.
async fn ended<'w>(world: &'w World, more: Value) -> Run<'w> {
    world.model.script("m", [ModelReply::text("Seen.")]);
    let run = world.start_with(&world.agent(&[]), more).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    run
}

#[tokio::test]
async fn what_is_sent_reaches_the_model_and_is_kept() {
    let world = World::shared().await;
    let file = json!({"type": "file", "name": "a.pdf", "media_type": "application/pdf", "data": PDF});
    let afar = json!({"type": "image", "url": "https://pictures.example/a"});
    let run = ended(&world, input(json!([text("see"), picture(PNG), file, afar]))).await;
    said(&world)[0].fits(&json!([
        {"type": "text", "text": "see"}, shown("png", PNG),
        {"type": "file", "file": {"filename": "a.pdf", "file_data": format!("data:application/pdf;base64,{PDF}")}},
        {"type": "image_url", "image_url": {"url": "https://pictures.example/a"}},
    ]));
    let id = artifact(&run, 0).await;
    run.list("artifacts").await.fits(&json!([
        {"id": id, "run_id": run.id, "tool_call_id": null, "media_type": "image/png", "bytes": 16},
        {"media_type": "application/pdf", "bytes": 9},
    ]));
    let message = run.list("messages").await[0].clone();
    message.fits(&json!({"content": "see", "parts": [
        {"type": "text"}, {"type": "image", "media_type": "image/png", "artifact_id": id, "bytes": 16},
        {"type": "file", "name": "a.pdf"}, {"type": "image", "url": "https://pictures.example/a"},
    ]}));
    let content = world.client.get(&format!("/v1/artifacts/{id}/content")).await;
    assert_eq!((content.status, content.header("content-type")), (200, Some("image/png")));
    assert!(content.text.contains("PNG"));
}

#[tokio::test]
async fn what_is_said_to_a_live_run_has_pictures_too() {
    let world = World::shared().await;
    world.tools.script("look", [ToolAnswer::text("a door").held()]);
    world.model.script("m", [ModelReply::calls([("look", json!({}))]), ModelReply::text("The same.")]);
    let run = world.start(&world.agent(&[world.read("look")])).await;
    world.tools.reached("look", 1).await;
    let word = json!({"content": [text("like this?"), picture(GIF)], "pinned": true});
    let answer = world.client.post(&run.path("/messages"), &word).await.is(201);
    answer.fits(&json!({"content": "like this?", "pinned": true, "seq": null}));
    assert_eq!(answer["parts"][1]["media_type"], "image/gif");
    world.tools.release("look");
    run.ended().await.fits(&json!({"final_answer": "The same."}));
    assert_eq!(said(&world)[1], json!([text("like this?"), shown("gif", GIF)]));
    run.list("messages").await.fits(&json!({"$any": [{"pinned": true, "parts": answer["parts"]}]}));
    same_again(&run).await;
}

#[tokio::test]
async fn an_artifact_is_used_again_until_it_is_gone() {
    let world = World::shared().await;
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201)["id"].clone();
    let in_thread = |parts: Value| input(parts).with(json!({"thread_id": thread}));
    let first = ended(&world, in_thread(json!([text("this"), picture(PNG)]))).await;
    let id = artifact(&first, 0).await;
    let other = ended(&world, input(json!([refer(&id)]))).await;
    assert_eq!(said(&world), [json!([shown("png", PNG)])]);
    other.list("artifacts").await.fits(&json!([]));
    // A later run of the thread is shown it as well.
    let later = ended(&world, in_thread(json!("and now?"))).await;
    assert_eq!(said(&world), [json!([text("this"), shown("png", PNG)]), json!("and now?")]);
    let path = format!("/v1/threads/{}/messages", thread.as_str().expect("an id"));
    world.client.get(&path).await.ok()["data"][0].fits(&json!({"parts": [{}, {"artifact_id": id}]}));

    let (_, stranger) = world.neighbour(&json!({})).await;
    let body = input(json!([text("mine?"), refer(&id)])).with(json!({"agent": world.agent(&[])}));
    stranger.post("/v1/runs", &body).await.refused_at("/input/0/content/1/artifact_id");
    stranger.get(&format!("/v1/artifacts/{id}/content")).await.refused(404, "not_found");

    // What stands on the run that has it is told when it is gone.
    world.client.delete(&first.path("")).await.is(204);
    world.client.get(&format!("/v1/artifacts/{id}")).await.refused(404, "not_found");
    world.client.post("/v1/runs", &body).await.refused_at("/input/0/content/1/artifact_id");
    world.model.script("m", [ModelReply::text("Which?")]);
    let more = world.client.post(&other.path("/continue"), &json!({"input": "once more"})).await.is(201);
    world.run(&more).ended().await.fits(&json!({"final_answer": "Which?"}));
    said(&world)[0].fits(&json!(GONE));
    // Where the whole message is gone there is nothing to be told of.
    world.model.script("m", [ModelReply::text("What?")]);
    let more = world.client.post(&later.path("/continue"), &json!({"input": "well?"})).await.is(201);
    world.run(&more).ended().await.fits(&json!({"status": "finished"}));
    assert_eq!(said(&world), [json!("and now?"), json!("well?")]);
}

#[tokio::test]
async fn heirs_and_replays_stand_on_the_same_pictures() {
    let world = World::shared().await;
    let run = ended(&world, input(json!([text("this"), picture(PNG)]))).await;
    let id = artifact(&run, 0).await;
    let replay = same_again(&run).await;
    replay.list("messages").await[0].fits(&json!({"parts": [{}, {"artifact_id": id}]}));
    replay.list("artifacts").await.fits(&json!([]));
    world.model.script("m", [ModelReply::text("Two.")]);
    let body = json!({"after_step": 0}).with(input(json!([picture(GIF)])));
    let fork = world.run(&world.client.post(&run.path("/fork"), &body).await.is(201));
    fork.ended().await.fits(&json!({"final_answer": "Two."}));
    assert_eq!(said(&world), [json!([text("this"), shown("png", PNG)]), json!([shown("gif", GIF)])]);
    fork.list("artifacts").await.fits(&json!([{"media_type": "image/gif"}]));
}

#[tokio::test]
async fn a_server_that_takes_over_shows_them_again() {
    let world = World::alone().await;
    world.model.script("m", [ModelReply::text("too late").held(), ModelReply::text("A door.")]);
    let run = world.start_with(&world.agent(&[]), input(json!([picture(PNG)]))).await;
    world.model.requests_reached(1).await;
    world.server.crash().await;
    run.ended().await.fits(&json!({"final_answer": "A door.", "attempt": 2}));
    let requests = world.model.requests_for("m");
    assert_eq!(requests[0]["messages"], requests[1]["messages"]);
    assert_eq!(said(&world), [json!([shown("png", PNG)])]);
}

#[tokio::test]
async fn what_they_hold_stands_nowhere_else() {
    let world = World::shared().await;
    let run = ended(&world, input(json!([text("this"), picture(PNG)]))).await;
    let export = world.client.get(&run.path("/export")).await.ok();
    export["input"].fits(&json!([{"content": "this", "parts": [
        {"type": "text"}, {"type": "image", "media_type": "image/png", "bytes": 16, "sha256": "*"},
    ]}]));
    let told = journal(&run).await;
    let mut all = format!("{export}{}{}", told.head, told.without_ids());
    for what in ["messages", "steps", "events", "artifacts"] {
        all.push_str(&run.list(what).await.to_string());
    }
    all.push_str(&world.client.get(&run.path("/trace")).await.ok().to_string());
    assert!(!all.contains(&PNG[..16]), "{all}");
    assert!(!world.log().contains(&PNG[..16]));
}

#[tokio::test]
async fn a_large_picture_comes_through_where_bodies_may_be_large() {
    let database = TestDatabase::create().await.expect("a database");
    let settings = [("ANSWERABLE_MAX_BODY_BYTES", "8388608")];
    let server = Server::start_with(&database.url, &settings).await;
    let world = World::on(Arc::new(server), Some(database)).await;
    // Over what a body may have otherwise.
    let data = format!("iVBORw0KGgoA{}", "AAAA".repeat(1024 * 1024));
    let run = ended(&world, input(json!([picture(&data)]))).await;
    run.list("artifacts").await.fits(&json!([{"bytes": 3 * 1024 * 1024 + 9}]));
    assert!(said(&world) == [json!([shown("png", &data)])], "not as it was sent");
}
