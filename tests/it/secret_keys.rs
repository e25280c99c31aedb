//! The key that encrypts stored secrets is changed beside running servers.

use std::process::Output;
use std::sync::Arc;

use answerable_testkit::{ModelReply, TestDatabase, WebhookReceiver};
use serde_json::{Value, json};

use crate::harness::{Fits, Server, With, World};

const OLD: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222222222222222222222222222";
const KEY: &str = "ANSWERABLE_SECRET_KEY";
const OTHERS: &str = "ANSWERABLE_OTHER_SECRET_KEYS";

async fn world() -> World {
    let database = TestDatabase::create().await.expect("a database");
    let server = Server::start_with(&database.url, &[(KEY, OLD)]).await;
    World::on(Arc::new(server), Some(database)).await
}

/// A tool that is sent all of these secrets.
fn tool(world: &World, names: &[&str]) -> Value {
    let headers: serde_json::Map<String, Value> =
        names.iter().map(|name| (format!("x-{name}"), json!(format!("{{{{secret.{name}}}}}")))).collect();
    world.read("look").with(json!({"http": {"headers": headers}}))
}

/// A run that calls the tool once, at whichever server: the tool was sent all of them.
async fn runs(world: &World, at: &Server, names: &[&str]) {
    let before = world.tools.requests("look").len();
    world.model.script("m", [ModelReply::calls([("look", json!({}))]), ModelReply::text("Seen.")]);
    let run = world
        .client
        .at(at.url())
        .post("/v1/runs", &json!({"agent": world.agent(&[tool(world, names)]), "input": "go"}));
    let run = world.run(&run.await.is(201));
    run.through(&world.client.at(at.url())).ended().await.fits(&json!({"status": "finished"}));
    let requests = world.tools.requests("look");
    assert_eq!(requests.len(), before + 1);
    for name in names {
        let sent = requests[before].header(&format!("x-{name}"));
        assert_eq!(sent, Some(format!("value-of-{name}").as_str()), "{name}");
    }
}

async fn put(world: &World, at: &Server, name: &str) {
    let value = json!({"value": format!("value-of-{name}")});
    world.client.at(at.url()).put(&format!("/v1/secrets/{name}"), &value).await.ok();
}

fn said(output: &Output, status: i32) -> String {
    let words =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "{words}");
    words
}

/// How many values stand under the key of that name.
fn count(words: &str, setting: &str) -> u64 {
    let line =
        words.lines().find(|line| line.ends_with(setting)).unwrap_or_else(|| panic!("{setting}: {words}"));
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

#[tokio::test]
async fn the_key_is_changed_without_a_pause() {
    let world = world().await;
    let receiver = WebhookReceiver::start().await.expect("a receiver");
    let hook = json!({"url": receiver.url(), "events": ["approval.*"]});
    let hook = world.client.post("/v1/webhooks", &hook).once("k").await.is(201);
    put(&world, &world.server, "old").await;
    world.model.script("asks", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("Paid.")]);
    let agent = world.agent(&[world.write("pay").with(json!({"risk": "high"}))]);
    let asks = world.start(&agent.with(json!({"model": {"model": "asks"}}))).await;
    let url = receiver.first_of("approval.requested").await.json()["data"]["decision_url"].clone();
    let link = url.as_str().and_then(|url| url.strip_prefix(world.server.url())).expect("a link").to_owned();

    // First all servers learn the new key; they go on with the old one.
    let knows = world.server.beside_with(&[(OTHERS, NEW)]).await;
    put(&world, &knows, "between").await;
    runs(&world, &world.server, &["old", "between"]).await;
    // Then one after another seals with the new one. Those that don't yet open it all the same.
    world.server.stop().await;
    let changed = knows.beside_with(&[(KEY, NEW), (OTHERS, OLD)]).await;
    put(&world, &changed, "new").await;
    for server in [&knows, &changed] {
        runs(&world, server, &["old", "between", "new"]).await;
    }
    knows.stop().await;

    let status = said(&changed.command(&["secrets", "status"]).await, 0);
    let under_old = count(&status, OTHERS);
    assert!(under_old >= 4 && count(&status, KEY) >= 1, "{status}");
    let dry = said(&changed.command(&["secrets", "rewrap", "--dry-run"]).await, 0);
    assert!(dry.contains(&format!("{under_old} would be encrypted anew")), "{dry}");
    let done = said(&changed.command(&["secrets", "rewrap"]).await, 0);
    assert!(done.contains(&format!("{under_old} are encrypted anew")), "{done}");
    assert_eq!(count(&said(&changed.command(&["secrets", "status"]).await, 0), OTHERS), 0);
    runs(&world, &changed, &["old", "between", "new"]).await;
    // A link that the old key signed holds as long as a server knows that key.
    let stranger = changed.stranger();
    stranger.post(&link, &json!({"decision": "approve"})).await.fits(&json!({"status": "approved"}));
    asks.through(&world.client.at(changed.url())).ended().await.fits(&json!({"final_answer": "Paid."}));

    // The old key is needed no more.
    let last = changed.beside_with(&[(OTHERS, "")]).await;
    changed.stop().await;
    runs(&world, &last, &["old", "between", "new"]).await;
    let again = json!({"url": receiver.url(), "events": ["approval.*"]});
    let again = world.client.at(last.url()).post("/v1/webhooks", &again).once("k").await.is(201);
    assert_eq!(again["signing_secret"], hook["signing_secret"], "the kept answer is opened, too");
    stranger.at(last.url()).post(&link, &json!({"decision": "approve"})).await.refused(404, "not_found");
    let audit = last.operator().get("/v1/tenants/audit?action=secrets.rewrap").await.ok();
    let stages: Vec<&Value> =
        audit["data"].as_array().expect("entries").iter().map(|entry| &entry["detail"]["stage"]).collect();
    assert_eq!(stages, ["ended", "begun"]);
}

#[tokio::test]
async fn a_server_with_the_wrong_key_does_not_start() {
    let world = world().await;
    put(&world, &world.server, "old").await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address").to_string();
    drop(listener);
    let serve = ["serve", "--listen", &address];
    let words = said(&world.server.command_with(&serve, &[(KEY, NEW), ("ANSWERABLE_LOG", "off")]).await, 2);
    assert_eq!(words.trim().lines().count(), 1, "{words}");
    assert!(words.contains("ANSWERABLE_SECRET_KEY opens none") && !words.contains(NEW), "{words}");
    let status = said(&world.server.command_with(&["secrets", "status"], &[(KEY, NEW)]).await, 1);
    assert!(status.contains(&format!("{}/secret/old/1", world.tenant)), "{status}");
    let rewrapped = said(&world.server.command_with(&["secrets", "rewrap"], &[(KEY, NEW)]).await, 1);
    assert!(rewrapped.contains("0 are encrypted anew"), "{rewrapped}");
    assert!(!status.contains("value-of-old") && !status.contains(world.provider_key()));
    // It opens some: it starts and says what it can't.
    let mixed = world.server.beside_with(&[(KEY, NEW), (OTHERS, OLD)]).await;
    put(&world, &mixed, "new").await;
    mixed.stop().await;
    world.server.stop().await;
    let half = world.server.beside_with(&[]).await;
    assert!(half.log_from(0).contains("don't open all stored secrets"), "{}", half.log_from(0));
}
