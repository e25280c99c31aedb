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
/// Bytes of a name that a refusal shows.
const LONGEST_NAME: usize = 100;

/// What a request's body is read as.
pub(crate) trait RequestBody: DeserializeOwned + Send {
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
        Ok(Self(read(request, state.config.max_body_bytes).await?.body))
    }
}

/// Reads a body, strictly.
pub(crate) async fn read<T: RequestBody>(request: Request, max_bytes: usize) -> Result<Hashed<T>, Problem> {
    let template =
        request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned()).unwrap_or_default();
    let operation = document::operation(request.method(), &template)
        .ok_or_else(|| Problem::internal(format!("the document lacks {} {template}", request.method())))?;
    let is_json = is_json(request.headers());
    if !is_json && !operation.body_is_optional() {
        return Err(Problem::unsupported_media_type());
    }
    judge(&collect(request, max_bytes).await?, is_json, operation)
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
        let chunk = chunk.map_err(|_| Problem::no_json("It broke off."))?;
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
    Problem::no_json("It did not come in time.")
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
mod tests {
    use super::*;

    #[test]
    fn content_types() {
        let is = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static(value));
            is_json(&headers)
        };
        assert!(
            is("application/json") && is("Application/JSON; charset=\"UTF-8\"") && is("application/json;x=1")
        );
        assert!(!is("text/plain") && !is("application/json; charset=latin1") && !is("application/jsonx"));
        assert!(!is_json(&HeaderMap::new()));
    }

    #[test]
    fn a_body_that_says_that_it_is_too_large_need_not_come() {
        let hopeless = |length: &'static str, expects: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_LENGTH, http::HeaderValue::from_static(length));
            if expects {
                headers.insert(header::EXPECT, http::HeaderValue::from_static("100-continue"));
            }
            is_hopeless(&headers, 1000)
        };
        assert!(!hopeless("1000", true) && hopeless("1001", true));
        assert!(!hopeless("4000", false) && hopeless("4001", false));
        assert!(hopeless("99999999999", false) && !hopeless("nonsense", true));
        assert!(!is_hopeless(&HeaderMap::new(), 1000));
    }

    #[test]
    fn a_body_has_time_by_its_length() {
        let times = [0, 64 * 1024, 4 << 20, 1 << 30].map(|length| PACE.time_for(length).as_secs());
        assert_eq!(times, [10, 11, 60, 60]);
    }

    #[tokio::test]
    async fn drops_of_a_body_are_not_waited_for_and_a_slow_one_is() {
        let pace =
            Pace { most: Duration::from_secs(20), behind: Duration::from_millis(300), per_second: 1000 };
        for (piece, is_enough) in [(1, false), (2000, true)] {
            let pieces = futures::stream::unfold(0, move |sent| async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                (sent < 20).then(|| (Ok::<_, std::io::Error>(vec![0; piece]), sent + 1))
            });
            let (began, request) = (Instant::now(), Request::new(axum::body::Body::from_stream(pieces)));
            let got = collect_at(pace, request, 1 << 20).await;
            assert_eq!(got.is_ok(), is_enough, "{piece} bytes every 50 ms");
            assert!(began.elapsed() < pace.most);
        }
    }

    #[test]
    fn message_content_is_mended_where_it_stands() {
        let mut value =
            json::parse(r#"{"input": [{"content": "a\u0000"}], "name": "b\ud800"}"#).expect("JSON");
        clean_at(&mut value, &["input", "*", "content"]);
        assert_eq!(value["input"][0]["content"], "a\u{fffd}");
        assert_eq!(json::find_unfit(&value).as_deref(), Some("/name"));
    }
}
