//! Recorded exchanges of every wire, played against a real server: what is sent, and what comes of the answer, in one piece
//! and as a stream.

use std::sync::LazyLock;
use std::time::Duration;

use answerable_core::model::{ModelFailure, ModelReply, ModelRequest};
use answerable_models::Models;
use answerable_ports::{ModelProvider, Patience};
use serde_json::Value;

use crate::fixture::{self, Fixture, neutral};
use crate::loopback::{Loopback, answer};
use crate::support;
use crate::valid;

/// One for all: to make one takes longer than most exchanges.
static MODELS: LazyLock<Models> = LazyLock::new(support::models);

/// Asks a server that answers so; gives what came of it and what was sent.
async fn play(
    fixture: &Fixture,
    request: &ModelRequest,
    (content_type, said): (&str, &str),
    streams: bool,
) -> (Result<ModelReply, ModelFailure>, Value) {
    let server = Loopback::start(answer(content_type, said)).await;
    let mut target = support::target(&fixture.wire, &server.base_url);
    target.options = fixture.options.clone();
    target.options.insert("stream".into(), streams.into());
    let patience = Patience::total(Duration::from_secs(20));
    let came = MODELS.ask(&target, request, patience, &support::Heard::default()).await;
    let body = server.bodies().pop().expect("a request");
    valid::check(&fixture.wire, &body, &fixture.name);
    (came, body)
}

/// What is wanted but for the stream, and its options where none is asked for.
fn wanted_body(body: &Value, streams: bool) -> Value {
    let mut body = body.as_object().cloned().unwrap_or_default();
    body.remove("stream");
    if !streams {
        body.remove("stream_options");
    }
    Value::Object(body)
}

/// What was sent but for the stream, which was asked for or not.
fn but_for_stream(mut body: Value, streams: bool) -> Value {
    let stream = body.as_object_mut().and_then(|body| body.remove("stream"));
    assert_eq!(stream, streams.then_some(Value::Bool(true)));
    body
}

/// The history of a body, as its wire calls it.
fn history(body: &Value) -> &Value {
    if body["messages"].is_null() { &body["input"] } else { &body["messages"] }
}

#[tokio::test]
async fn every_exchange_goes_as_recorded() {
    for fixture in fixture::all() {
        let stream = fixture.stream.as_deref().map(|text| (("text/event-stream", text), true));
        let whole = fixture.answer.as_deref().map(|text| (("application/json", text), false));
        for (said, streams) in stream.into_iter().chain(whole) {
            let about = format!("{}, streamed: {streams}", fixture.name);
            let (came, body) = play(&fixture, &fixture.request, said, streams).await;
            let sent = but_for_stream(body, streams);
            let wanted = wanted_body(&fixture.body, streams);
            assert_eq!(sent, wanted, "{about}: sent\n{sent:#}");
            fixture.wanted.check(&came, &about);
            if let Ok(reply) = &came {
                let request = neutral::next(&fixture.request, &fixture.wire, reply);
                let (_, body) = play(&fixture, &request, said, streams).await;
                let wanted = fixture.next.as_ref().unwrap_or(history(&body));
                assert_eq!(history(&body), wanted, "{about}: sent next\n{:#}", history(&body));
            }
        }
    }
}
