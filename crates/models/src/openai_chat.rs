//! The chat-completions wire, as OpenAI and the many servers that follow it speak it.
//!
//! ```text
//! POST {base_url}/chat/completions
//! Authorization: Bearer {api_key}
//! {"model", "messages": [{"role", "content", "tool_calls"?, "tool_call_id"?}],
//!  "tools": [{"type": "function", "function": {"name", "description", "parameters"}}],
//!  "stream": true, "stream_options": {"include_usage": true}, …}
//! ```
//! A whole answer is one object, `{"choices": [{"message", "finish_reason"}], "usage"}`. A streamed one is a row of
//! events, each with a piece of it, `{"choices": [{"delta", "finish_reason"}], "usage"?}`, and `[DONE]` at its end.
//! Either form is taken, whatever was asked for: servers differ. An `error` object may stand in both, under status 200.
//!
//! `request` renders, `reply` reads bytes into pieces, `assembly` (with `calls`, `extra`, `usage`) puts the pieces
//! together, `error` says what a refusal means.
//!
//! Switches (`options` of the provider): `stream` (true), `system_role` (`system`), `max_tokens_field` (`max_tokens`),
//! `parallel_tool_calls` (not sent), `send_reasoning` (false: unknown fields of earlier replies are not sent back;
//! true: just as they came, to the same provider and model).

mod assembly;
mod calls;
mod error;
mod extra;
mod reply;
mod request;
mod usage;

use std::time::Duration;

use answerable_core::model::{FailureKind, ModelFailure, ModelReply, ModelRequest};
use answerable_ports::{DeltaSink, ModelTarget};
use answerable_tools::{Fault, GuardedClient};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response};
use secrecy::ExposeSecret;
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::words::Words;
use crate::{failure, secrets};
use reply::{Broken, Reader};

/// The name of this wire in stored messages.
const WIRE: &str = "openai_chat";
/// How long the end of a stream is waited for after its last event, so that the connection can be used again.
const LINGER: Duration = Duration::from_millis(20);

/// One attempt.
pub(crate) async fn ask(
    client: &GuardedClient,
    target: &ModelTarget,
    request: &ModelRequest,
    timeout: Duration,
    deltas: &dyn DeltaSink,
) -> Result<ModelReply, ModelFailure> {
    let deadline = Instant::now() + timeout;
    let response = match timeout_at(deadline, http_request(client, target, request)?.send()).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(failure::unanswered(Fault::from(&error))),
        Err(_) => return Err(failure::late(timeout)),
    };
    if !response.status().is_success() {
        return Err(error::of_answer(response, deadline, target, request).await);
    }
    let mut reader = Reader::new(Words::new(secrets::of_replies(target), deltas));
    let read = read(response, deadline, &mut reader).await;
    let usage = reader.usage();
    read.and_then(|()| reader.finish()).map_err(|broken| match broken {
        Broken::Late => ModelFailure { usage, ..failure::late(timeout) },
        broken => ModelFailure { usage, ..error::of_broken(&broken, target, request) },
    })
}

fn http_request(
    client: &GuardedClient,
    target: &ModelTarget,
    request: &ModelRequest,
) -> Result<RequestBuilder, ModelFailure> {
    let unusable = |why: String| failure::of(FailureKind::Unusable, None, why);
    let url =
        address(&target.base_url).ok_or_else(|| unusable("the provider's address can't be read".into()))?;
    let builder =
        client.request(Method::POST, url.as_str()).map_err(|refused| unusable(refused.to_string()))?;
    let headers =
        headers(target, request).map_err(|name| unusable(format!("header {name} can't hold its value")))?;
    Ok(builder.headers(headers).body(request::body(request, &target.options).to_string()))
}

/// The address of completions; a query that the base has (some want a version there) stays behind it.
fn address(base_url: &str) -> Option<Url> {
    let mut url = Url::parse(base_url).ok()?;
    url.path_segments_mut().ok()?.pop_if_empty().extend(["chat", "completions"]);
    Some(url)
}

/// The provider's headers may replace ours. The error is the name of the one that is no header.
fn headers(target: &ModelTarget, request: &ModelRequest) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
    if let Some(key) = &target.api_key {
        headers.insert(
            AUTHORIZATION,
            secret_value("authorization", &format!("Bearer {}", key.expose_secret()))?,
        );
    }
    if let Some(traceparent) = &request.traceparent {
        headers.insert("traceparent", secret_value("traceparent", traceparent)?);
    }
    for (name, value) in &target.headers {
        let known = HeaderName::try_from(name.as_str()).map_err(|_| name.clone())?;
        headers.insert(known, secret_value(name, value.expose_secret())?);
    }
    Ok(headers)
}

fn secret_value(name: &str, value: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| name.to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Reads until the reply is whole or nothing more comes.
async fn read(mut response: Response, deadline: Instant, reader: &mut Reader<'_>) -> Result<(), Broken> {
    loop {
        // A stream that never pauses would never let the timer have its turn.
        if Instant::now() >= deadline {
            return Err(Broken::Late);
        }
        match timeout_at(deadline, response.chunk()).await {
            Err(_) => return Err(Broken::Late),
            Ok(Ok(Some(bytes))) => {
                if reader.feed(&bytes)? {
                    let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
                    let _ = tokio::time::timeout(LINGER, rest).await;
                    return Ok(());
                }
            }
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(_)) => return reader.line_is_lost(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (base, wanted) in [
            ("https://api.example/v1", "https://api.example/v1/chat/completions"),
            ("https://api.example/v1/", "https://api.example/v1/chat/completions"),
            ("https://api.example", "https://api.example/chat/completions"),
            ("https://a.example/d/x?api-version=1", "https://a.example/d/x/chat/completions?api-version=1"),
        ] {
            assert_eq!(address(base).expect("an address").as_str(), wanted);
        }
        assert!(address("").is_none() && address("mailto:x").is_none());
    }
}
