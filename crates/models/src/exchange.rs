//! One request and its answer over HTTP, the same for all wires: through the guarded client, within the time given.

use answerable_core::model::{FailureKind, ModelFailure, ModelReply, ModelRequest};
use answerable_ports::{ModelTarget, Patience};
use answerable_tools::{Fault, GuardedClient};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response};
use secrecy::ExposeSecret;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::assembly::{Assembly, Broken, Late, Told};
use crate::reader::Reader;
use crate::{failure, refusal};

/// How long the end of a stream is waited for after its last event, so that the connection can be used again.
const LINGER: Duration = Duration::from_millis(20);

/// Bytes that are read without letting others have the thread.
const AT_ONCE: usize = 16 << 10;

/// A request as a wire writes it.
pub(crate) struct Outgoing {
    /// Path below the provider's base address.
    pub(crate) path: String,
    /// Header that holds the key.
    pub(crate) key_header: String,
    /// Headers of the wire.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Body.
    pub(crate) body: Value,
    /// A stream was asked for.
    pub(crate) streams: bool,
}

/// Sends a request and puts its answer together.
pub(crate) async fn ask<A: Assembly>(
    client: &GuardedClient,
    (target, request): (&ModelTarget, &ModelRequest),
    outgoing: Outgoing,
    assembly: A,
    patience: Patience,
) -> Result<ModelReply, ModelFailure> {
    let mut watch = Watch::begin(&patience, outgoing.streams);
    let sent = http_request(client, target, request, outgoing)?.send();
    let response = match timeout_at(watch.deadline, sent).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(failure::unanswered(Fault::from(&error))),
        Err(_) => return Err(failure::late(watch.late, &patience)),
    };
    if !response.status().is_success() {
        return Err(refusal::of_answer(response, watch.whole, target, request).await);
    }
    let mut reader = Reader::new(assembly);
    let read = read(response, &mut watch, &mut reader).await.and_then(|()| reader.end());
    let (told, said) = reader.tokens();
    read.and_then(|()| reader.finish()).map_err(|broken| {
        let failed = match broken {
            Broken::Late(late) => failure::late(late, &patience),
            broken => refusal::of_broken(&broken, target, request),
        };
        ModelFailure { usage: failure::usage(told, said, request), ..failed }
    })
}

/// Which time is running. A comment or a ping stops none.
struct Watch {
    whole: Instant,
    idle: Option<Duration>,
    deadline: Instant,
    late: Late,
}

impl Watch {
    fn begin(patience: &Patience, streams: bool) -> Self {
        let now = Instant::now();
        let whole = now + patience.total;
        let first = now + patience.first;
        let idle = streams.then_some(patience.idle);
        if streams && first < whole {
            Self { whole, idle, deadline: first, late: Late::First }
        } else {
            Self { whole, idle, deadline: whole, late: Late::Whole }
        }
    }

    /// Something was said.
    fn heard(&mut self) {
        let next = self.idle.map(|idle| Instant::now() + idle).filter(|next| *next < self.whole);
        (self.deadline, self.late) = next.map_or((self.whole, Late::Whole), |next| (next, Late::Next));
    }
}

/// Reads until the reply is whole or nothing more comes.
async fn read<A: Assembly>(
    mut response: Response,
    watch: &mut Watch,
    reader: &mut Reader<A>,
) -> Result<(), Broken> {
    loop {
        // A stream that never pauses would never let the timer have its turn.
        if Instant::now() >= watch.deadline {
            return Err(Broken::Late(watch.late));
        }
        match timeout_at(watch.deadline, response.chunk()).await {
            Err(_) => return Err(Broken::Late(watch.late)),
            Ok(Ok(Some(bytes))) => {
                if take(&bytes, watch, reader).await? {
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

/// Takes some bytes; true when all has come. Many events may stand in them, and others want the thread, too.
async fn take<A: Assembly>(bytes: &[u8], watch: &mut Watch, reader: &mut Reader<A>) -> Result<bool, Broken> {
    for piece in bytes.chunks(AT_ONCE) {
        match reader.feed(piece)? {
            Told::Nothing => {}
            Told::Piece => watch.heard(),
            Told::End => return Ok(true),
        }
        if bytes.len() > AT_ONCE {
            tokio::task::yield_now().await;
        }
        if Instant::now() >= watch.deadline {
            return Err(Broken::Late(watch.late));
        }
    }
    Ok(false)
}

fn http_request(
    client: &GuardedClient,
    target: &ModelTarget,
    request: &ModelRequest,
    outgoing: Outgoing,
) -> Result<RequestBuilder, ModelFailure> {
    let unusable = |why: String| failure::of(FailureKind::Unusable, None, why);
    let url = address(&target.base_url, &outgoing.path)
        .ok_or_else(|| unusable("the provider's address can't be read".into()))?;
    let builder =
        client.request(Method::POST, url.as_str()).map_err(|refused| unusable(refused.to_string()))?;
    let headers = headers(target, request, &outgoing)
        .map_err(|name| unusable(format!("header {name} can't hold its value")))?;
    Ok(builder.headers(headers).body(outgoing.body.to_string()))
}

/// The address that is asked; a query that the base has (some want a version there) stays behind it.
fn address(base_url: &str, path: &str) -> Option<Url> {
    let mut url = Url::parse(base_url).ok()?;
    url.path_segments_mut().ok()?.pop_if_empty().extend(path.split('/'));
    Some(url)
}

/// The provider's headers may replace ours. The error is the name of the one that is no header.
fn headers(target: &ModelTarget, request: &ModelRequest, outgoing: &Outgoing) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
    for (name, value) in &outgoing.headers {
        headers.insert(*name, secret_value(name, value)?);
    }
    if let Some(key) = &target.api_key {
        let name = HeaderName::try_from(&outgoing.key_header).map_err(|_| outgoing.key_header.clone())?;
        let key = key.expose_secret();
        let value = if name == AUTHORIZATION { format!("Bearer {key}") } else { key.to_owned() };
        headers.insert(name, secret_value(&outgoing.key_header, &value)?);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (base, path, wanted) in [
            ("https://api.example/v1", "chat/completions", "https://api.example/v1/chat/completions"),
            ("https://api.example/v1/", "chat/completions", "https://api.example/v1/chat/completions"),
            ("https://api.example", "messages", "https://api.example/messages"),
            (
                "https://a.example/d/x?api-version=1",
                "responses",
                "https://a.example/d/x/responses?api-version=1",
            ),
        ] {
            assert_eq!(address(base, path).expect("an address").as_str(), wanted);
        }
        assert!(address("", "x").is_none() && address("mailto:x", "x").is_none());
    }

    #[test]
    fn times_run_one_after_another() {
        let second = Duration::from_secs(1);
        let patience = Patience { total: 10 * second, first: second, idle: 2 * second };
        let mut watch = Watch::begin(&patience, true);
        assert_eq!(watch.late, Late::First);
        watch.heard();
        assert_eq!(watch.late, Late::Next);
        let mut whole = Watch::begin(&patience, false);
        assert_eq!(whole.late, Late::Whole, "an answer in one piece has no first word");
        whole.heard();
        assert_eq!(whole.late, Late::Whole);
        let mut even = Watch::begin(&Patience::total(second), true);
        even.heard();
        assert_eq!(even.late, Late::Whole);
    }
}
