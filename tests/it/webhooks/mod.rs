//! What tenants hear of their runs.

mod asked;
mod endpoints;
mod sent;

use answerable_testkit::{RecordedRequest, WebhookReceiver};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use crate::harness::{With, World};

/// A webhook at `url`, with its path in the API.
async fn hook(world: &World, url: &str, more: Value) -> (String, Value) {
    let body = json!({"url": url, "events": ["run.finished"]}).with(more);
    let hook = world.client.post("/v1/webhooks", &body).await.is(201);
    (format!("/v1/webhooks/{}", text(&hook["id"])), hook)
}

/// A receiver that takes everything, and a webhook there.
async fn heard(world: &World, more: Value) -> (WebhookReceiver, String, Value) {
    let receiver = WebhookReceiver::start().await.expect("a receiver");
    let (path, hook) = hook(world, &receiver.url(), more).await;
    (receiver, path, hook)
}

/// Whether the reference of Standard Webhooks takes it.
fn is_signed(request: &RecordedRequest, secret: &Value) -> bool {
    let header = |(name, value): &(String, String)| {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        (name, HeaderValue::from_str(value).expect("a value"))
    };
    let headers: HeaderMap = request.headers.iter().map(header).collect();
    Webhook::new(text(secret)).expect("a secret").verify(&request.body, &headers).is_ok()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}
