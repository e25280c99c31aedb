//! What answers that nobody takes hold, and what work on one request leaves to others.

use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::world::{OPERATOR, World};

/// An agent of which an answer tells in more than 32 KiB.
fn large_agent() -> Value {
    let instructions = "Help. ".repeat(7000);
    json!({"name": "desk", "instructions": instructions, "model": {"provider": "main", "model": "m"}})
}

/// Asks, and takes nothing of the answer.
async fn ask(world: &World, method: &str, path: &str, body: Value) -> Response<Body> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let bearer = format!("Bearer {}", world.key);
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    world.open(method, path, &headers, body).await
}

/// How many of them have this status.
fn with_status(answers: &[Response<Body>], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status().as_u16() == status).count()
}

#[tokio::test]
async fn answers_that_nobody_takes_are_bounded_and_what_was_done_is_told_in_any_case() {
    let world = World::start().await;
    let provider = json!({"kind": "scripted", "script": [{"final": "Done."}]});
    assert_eq!(world.tell("PUT", "/v1/providers/main", provider).await.status, 200);
    let made = world.tell("POST", "/v1/agents", large_agent()).await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert!(made.text.len() > 32 * 1024);
    let path = format!("/v1/agents/{}", made.body["id"].as_str().expect("an id"));
    let mut untaken = Vec::new();
    let refused = loop {
        let answer = ask(&world, "GET", &path, Value::Null).await;
        if answer.status().as_u16() != 200 {
            break answer;
        }
        untaken.push(answer);
        assert!(untaken.len() < 512, "none is refused");
    };
    assert_eq!((refused.status().as_u16(), untaken.len()), (503, 384), "three quarters of 512");
    assert!(refused.headers().contains_key("retry-after"));
    // Small answers and other tenants have nothing to do with it.
    assert_eq!(world.tell("GET", "/v1/threads", Value::Null).await.status, 200);
    let (_, other) = world.new_tenant(json!({})).await;
    assert_eq!(world.ask(&other, "PUT", "/v1/policy", json!({"rules": []})).await.status, 200);
    // An agent that was made is told of, and keeps its request's place: there are 64 of these.
    let told = join_all((0..60).map(|_| ask(&world, "POST", "/v1/agents", large_agent()))).await;
    assert_eq!((with_status(&told, 201), with_status(&told, 503)), (48, 12));
    assert_eq!(ask(&world, "GET", "/v1/threads", Value::Null).await.status().as_u16(), 503);
    assert_eq!(world.ask(&other, "GET", "/v1/threads", Value::Null).await.status, 200);
    drop((told, untaken));
    assert_eq!(world.tell("GET", &path, Value::Null).await.status, 200);
}

/// Exports that the tenant's audit tells of.
async fn exports(world: &World) -> usize {
    let audit = world.tell("GET", "/v1/audit?action=tenant.export", Value::Null).await;
    audit.body["data"].as_array().expect("a list").len()
}

#[tokio::test]
async fn an_export_is_noted_when_it_begins() {
    let world = World::start().await;
    let own = format!("Bearer {}", world.key);
    let operators = format!("Bearer {OPERATOR}");
    let of_tenant = format!("/v1/tenants/{}/export", world.tenant);
    for (path, key) in [("/v1/export", &own), (of_tenant.as_str(), &operators)] {
        let head = world.open("HEAD", path, &[("authorization", key)], "").await;
        assert_eq!(head.status().as_u16(), 200, "{path}");
        let kind = head.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        let has = |name| head.headers().contains_key(name);
        assert_eq!(
            (kind, has("content-disposition"), has("content-length")),
            (Some("application/x-ndjson"), true, false)
        );
    }
    assert_eq!(exports(&world).await, 0, "nothing was taken away");
    // Those that wait for their turn have not begun: three of four places are one tenant's.
    let export = async || world.open("GET", "/v1/export", &[("authorization", &own)], "").await;
    let untaken = [export().await, export().await, export().await];
    assert_eq!(exports(&world).await, 3);
    assert!(tokio::time::timeout(Duration::from_secs(2), export()).await.is_err(), "it waits");
    assert_eq!(exports(&world).await, 3);
    drop(untaken);
    assert_eq!(export().await.status().as_u16(), 200);
    assert_eq!(exports(&world).await, 4);
}

/// Asks for this, and counts how many others are served until it is answered.
async fn served_beside(asked: impl Future<Output = Response<Body>>, world: &World) -> (u16, usize) {
    let mut served = 0;
    let others = async {
        loop {
            assert_eq!(world.open("GET", "/healthz", &[], "").await.status().as_u16(), 200);
            served += 1;
            tokio::task::yield_now().await;
        }
    };
    let answer = tokio::select! {
        answer = asked => answer,
        () = others => unreachable!("it never ends"),
    };
    (answer.status().as_u16(), served)
}

#[tokio::test]
async fn a_long_body_is_judged_while_others_are_served() {
    let world = World::with_bodies(4 << 20).await;
    let words: Vec<String> = (0..180_000).map(|n| format!("word {n}: \u{e9}\n")).collect();
    let body = json!({"metadata": {"words": words}, "unknown": true}).to_string();
    assert!(body.len() > 1 << 20);
    let bearer = format!("Bearer {}", world.key);
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    // Whose key it is is known from here on, so nothing else is waited for.
    assert_eq!(world.tell("GET", "/v1/threads", Value::Null).await.status, 200);
    // There is one thread for all: as long as that is busy, nobody else is served.
    let (status, few) =
        served_beside(world.open("POST", "/v1/threads", &headers, "{\"unknown\": 1}"), &world).await;
    assert_eq!(status, 422);
    let (status, many) = served_beside(world.open("POST", "/v1/threads", &headers, body), &world).await;
    assert_eq!(status, 422);
    assert!(many > few + 10, "{many} were served meanwhile, and {few} beside a short one");
}
