//! One try of a delivery.

use std::time::Duration;

use answerable_store::{AfterTry, Clock, Outgoing, Store, Tried};
use answerable_tools::{GuardedClient, retry_after, signature};
use reqwest::Method;

use crate::backoff::pause;

/// Time that an endpoint has to answer.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Tries once and writes down what came of it.
pub(crate) async fn attempt(store: &Store, client: &GuardedClient, outgoing: Outgoing) {
    let tried = send(store.clock(), client, &outgoing).await;
    if let Err(error) = store.delivery_tried(&outgoing, &tried).await {
        // Its claim runs out, and it is tried again under the same id.
        tracing::warn!(delivery_id = %outgoing.delivery_id, %error, "what came of a delivery is not stored");
    }
}

async fn send(clock: &Clock, client: &GuardedClient, outgoing: &Outgoing) -> Tried {
    let Some(secret) = &outgoing.secret else {
        return failed(clock, outgoing, None, "the signing secret can't be opened", None);
    };
    let timestamp = clock.now() / 1000;
    let id = outgoing.delivery_id.to_string();
    let Ok(signature) =
        signature::sign(std::slice::from_ref(secret), &id, timestamp, outgoing.body.as_bytes())
    else {
        return failed(clock, outgoing, None, "the signing secret makes no sense", None);
    };
    let request = match client.request(Method::POST, &outgoing.url) {
        Ok(request) => request,
        Err(_) => return failed(clock, outgoing, None, "this address may not be called", None),
    };
    let request = request
        .header("content-type", "application/json")
        .header("webhook-id", id)
        .header("webhook-timestamp", timestamp)
        .header("webhook-signature", signature)
        .timeout(TIMEOUT)
        .body(outgoing.body.clone());
    match request.send().await {
        Ok(answer) => {
            answered(clock, outgoing, answer.status().as_u16(), retry_after::read(answer.headers()))
        }
        Err(error) if error.is_timeout() => failed(clock, outgoing, None, "no answer in 15 s", None),
        Err(_) => failed(clock, outgoing, None, "no connection, or it was cut", None),
    }
}

/// 2xx is an arrival; a redirect isn't followed and is a failure like any other.
fn answered(clock: &Clock, outgoing: &Outgoing, status: u16, retry_after_ms: Option<u64>) -> Tried {
    match status {
        200..=299 => Tried { status: Some(status), error: None, then: AfterTry::Delivered },
        410 => Tried {
            status: Some(status),
            error: Some("the endpoint is gone; it is switched off".into()),
            then: AfterTry::Gone,
        },
        _ => failed(clock, outgoing, Some(status), "not accepted", retry_after_ms.map(Duration::from_millis)),
    }
}

fn failed(
    clock: &Clock,
    outgoing: &Outgoing,
    status: Option<u16>,
    error: &str,
    asked: Option<Duration>,
) -> Tried {
    let again = pause(outgoing.tries + 1, asked, rand::random());
    let then = again.map_or(AfterTry::Failed, |pause| AfterTry::Again(clock.utc() + pause));
    Tried { status, error: Some(error.to_owned()), then }
}
