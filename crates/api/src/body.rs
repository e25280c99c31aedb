//! Bodies of requests: within the limit, JSON in UTF-8, an object as the document has it.

use std::time::Duration;

use answerable_core::{FieldError, field_error, json, text};
use axum::extract::{FromRequest, MatchedPath, Request};
use futures::StreamExt as _;
use http::{HeaderMap, header};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, timeout_at};

use crate::document::{self, Operation};
use crate::held::Held;
use crate::problem::Problem;
use crate::state::AppState;

/// How slowly a body may come in: its request has a place among those that are dealt with, and drops of a body must not hold
/// it for long.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// Time for the whole.
    most: Duration,
    /// It may be so far behind `per_second`.
    behind: Duration,
    /// Bytes that come in each second.
    per_second: u64,
}

const PACE: Pace =
    Pace { most: Duration::from_secs(60), behind: Duration::from_secs(10), per_second: 64 * 1024 };
/// Of a body that is too large, so many times the limit is read and thrown away, so that its sender hears the answer.
const PATIENCE: usize = 4;
/// Bytes from which a body takes a while to judge.
const LONG: usize = 64 * 1024;
/// Bytes of a name that a refusal shows.
const LONGEST_NAME: usize = 100;

/// What a request's body is read as.
pub(crate) trait RequestBody: DeserializeOwned + Send + 'static {
    /// Fields of message content, as pointers (`*` for any place of a list): there NUL and lone surrogates are replaced,
    /// everywhere else they are refused.
    const CONTENT: &'static [&'static str] = &[];
}

/// A body.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

/// A body, and a hash that is the same for the same body written otherwise.
pub(crate) struct Hashed<T> {
    pub(crate) body: T,
    pub(crate) hash: [u8; 32],
}

impl<T: RequestBody> FromRequest<AppState> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        Ok(Self(read(request, state).await?.body))
    }
}

/// Reads a body, strictly.
pub(crate) async fn read<T: RequestBody>(request: Request, state: &AppState) -> Result<Hashed<T>, Problem> {
    let template =
        request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned()).unwrap_or_default();
    let operation = document::operation(request.method(), &template)
        .ok_or_else(|| Problem::internal(format!("the document lacks {} {template}", request.method())))?;
    let is_json = is_json(request.headers());
    if !is_json && !operation.body_is_optional() {
        return Err(Problem::unsupported_media_type());
    }
    let who = request.extensions().get::<Held>().and_then(Held::who);
    let bytes = collect(request, state.config.max_body_bytes).await?;
    if bytes.len() < LONG {
        return judge(&bytes, is_json, operation);
    }
    // Off the threads that serve others, and few at a time: the turn goes on with the work if the client hangs up.
    let turn = state.long_body(who).await?;
    let judging = tokio::task::spawn_blocking(move || {
        let judged = judge(&bytes, is_json, operation);
        drop(turn);
        judged
    });
    judging.await.map_err(|error| Problem::internal(format!("a body could not be judged: {error}")))?
}

/// Reads a body of which every byte is there.
pub(crate) fn judge<T: RequestBody>(
    bytes: &[u8],
    is_json: bool,
    operation: &Operation,
) -> Result<Hashed<T>, Problem> {
    if bytes.is_empty() && operation.body_is_optional() {
        return shape(serde_json::json!({}), operation);
    }
    if !is_json {
        return Err(Problem::unsupported_media_type());
    }
    let body = std::str::from_utf8(bytes).map_err(|_| Problem::no_json("It is not UTF-8."))?;
    // The parser's words hold names and places, never values.
    let value = json::parse(body).map_err(|error| Problem::no_json(error.to_string()))?;
    if let Some(name) = json::repeated_name(body) {
        let name = json::clean_text(text::head(&name, LONGEST_NAME));
        return Err(Problem::no_json(format!("An object has the name {name:?} twice.")));
    }
    shape(value, operation)
}

pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut parts = value.split(';').map(str::trim);
    let fits = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    fits && parts.all(|parameter| match parameter.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
            value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => true,
    })
}

/// A body's bytes, as they come.
pub(crate) async fn collect(request: Request, max_bytes: usize) -> Result<Vec<u8>, Problem> {
    collect_at(PACE, request, max_bytes).await
}

async fn collect_at(pace: Pace, request: Request, max_bytes: usize) -> Result<Vec<u8>, Problem> {
    if is_hopeless(request.headers(), max_bytes) {
        return Err(Problem::payload_too_large(max_bytes));
    }
    let mut stream = request.into_body().into_data_stream();
    let (mut bytes, mut length, began) = (Vec::new(), 0_usize, Instant::now());
    while let Some(chunk) =
        timeout_at(began + pace.time_for(length), stream.next()).await.map_err(|_| late())?
    {
        let chunk = chunk.map_err(|_| Problem::no_whole_body("It broke off."))?;
        length += chunk.len();
        if length > max_bytes.saturating_mul(PATIENCE) {
            break;
        }
        if length <= max_bytes {
            bytes.extend_from_slice(&chunk);
        }
    }
    if length > max_bytes { Err(Problem::payload_too_large(max_bytes)) } else { Ok(bytes) }
}

fn late() -> Problem {
    Problem::no_whole_body("It did not come in time.")
}

impl Pace {
    /// Time within which more must come than so many bytes.
    fn time_for(self, length: usize) -> Duration {
        let in_time = Duration::from_millis((length as u64).saturating_mul(1000) / self.per_second);
        (self.behind + in_time).min(self.most)
    }
}

/// Whether a body need not come at all: it says that it is too large, and either its sender waits for leave to send it,
/// or even reading past it would be too much.
fn is_hopeless(headers: &HeaderMap, max_bytes: usize) -> bool {
    let length =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let over = |limit: usize| length.is_some_and(|length| length > limit as u64);
    over(max_bytes.saturating_mul(PATIENCE)) || (over(max_bytes) && headers.contains_key(header::EXPECT))
}

/// Judges a parsed body by the document and reads it as `T`.
fn shape<T: RequestBody>(mut value: Value, operation: &Operation) -> Result<Hashed<T>, Problem> {
    if !value.is_object() {
        return Err(Problem::invalid_at("", "the body must be an object"));
    }
    let hash = Sha256::digest(json::canonical(&value).as_bytes()).into();
    for pointer in T::CONTENT {
        clean_at(&mut value, &pointer.split('/').skip(1).collect::<Vec<_>>());
    }
    if let Some(pointer) = json::find_unfit(&value) {
        return Err(Problem::invalid_at(pointer, "may hold neither NUL nor an unpaired surrogate"));
    }
    let faults = operation.faults(&value);
    if !faults.is_empty() {
        return Err(Problem::invalid(faults));
    }
    let body = field_error::read(value).map_err(|fault: FieldError| {
        // What serde says may repeat a value, and a value may be a secret.
        Problem::invalid_at(fault.pointer, "has the wrong type or form")
    })?;
    Ok(Hashed { body, hash })
}

fn clean_at(value: &mut Value, path: &[&str]) {
    match path {
        [] => *value = json::clean(std::mem::take(value)),
        ["*", rest @ ..] => value.as_array_mut().into_iter().flatten().for_each(|item| clean_at(item, rest)),
        [name, rest @ ..] => {
            if let Some(item) = value.get_mut(name) {
                clean_at(item, rest);
            }
        }
    }
}

/// A command that says nothing.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

impl RequestBody for Nothing {}

#[cfg(test)]
mod tests;
