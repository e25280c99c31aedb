//! Faults on demand: answers that come late, lines that are cut after the commit, 503s.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Query, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Shop;
use super::answer::Refusal;
use super::line::Line;

const MAX_BODY: usize = 64 * 1024;
const MAX_ARMED: usize = 1000;

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// The work is done and committed; the answer leaves `delay_ms` later.
    Late,
    /// The work is done and committed; the connection breaks instead of an answer.
    Cut,
    /// Nothing is done; the answer is 503, with `Retry-After` if `retry_after_s` is given.
    Unavailable,
}

/// A fault that waits for its request.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fault {
    /// The request it waits for, as `METHOD /path`, for example `POST /orders`.
    pub(crate) endpoint: String,
    pub(crate) kind: Kind,
    /// How many requests it hits.
    #[serde(default = "once")]
    pub(crate) times: u32,
    #[serde(default)]
    pub(crate) delay_ms: u64,
    #[serde(default)]
    pub(crate) retry_after_s: Option<u64>,
    /// Only requests whose body (or query) has these values, so that other callers are spared.
    #[serde(default)]
    pub(crate) when: Map<String, Value>,
}

fn once() -> u32 {
    1
}

/// The faults that are armed.
#[derive(Clone, Default)]
pub(super) struct Faults(Arc<Mutex<Vec<Fault>>>);

impl Faults {
    fn arm(&self, fault: Fault) -> Result<usize, Refusal> {
        let mut armed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if armed.len() >= MAX_ARMED {
            return Err(Refusal::Conflict("too many faults are armed".into()));
        }
        armed.push(fault);
        Ok(armed.len())
    }

    /// Takes the first fault that waits for such a request, and counts it down.
    fn take(&self, endpoint: &str, request: &Map<String, Value>) -> Option<Fault> {
        let mut armed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = armed.iter().position(|fault| fault.endpoint == endpoint && fault.fits(request))?;
        armed[at].times = armed[at].times.saturating_sub(1);
        let fault = armed[at].clone();
        if fault.times == 0 {
            armed.remove(at);
        }
        Some(fault)
    }
}

impl Fault {
    fn fits(&self, request: &Map<String, Value>) -> bool {
        self.when
            .iter()
            .all(|(name, wanted)| request.get(name).is_some_and(|got| plain(got) == plain(wanted)))
    }
}

/// A value as a query would spell it, so that bodies and queries compare alike.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `POST /admin/faults`: arms a fault.
pub(super) async fn arm(
    State(shop): State<Shop>,
    Json(fault): Json<Fault>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let armed = shop.faults.arm(fault)?;
    Ok((StatusCode::CREATED, Json(json!({ "armed": armed }))))
}

/// The layer around the shop's endpoints that plays what is armed.
pub(super) async fn play(
    State(shop): State<Shop>,
    ConnectInfo(line): ConnectInfo<Line>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(bytes) = to_bytes(body, MAX_BODY).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let said = said(&parts.method, &parts.uri, &bytes);
    let fault = shop.faults.take(&format!("{} {}", parts.method, parts.uri.path()), &said);
    let request = Request::from_parts(parts, Body::from(bytes));
    let Some(fault) = fault else { return next.run(request).await };
    match fault.kind {
        Kind::Unavailable => unavailable(fault.retry_after_s),
        Kind::Late => {
            let answer = next.run(request).await;
            tokio::time::sleep(Duration::from_millis(fault.delay_ms)).await;
            answer
        }
        Kind::Cut => {
            let answer = next.run(request).await;
            line.cut();
            answer
        }
    }
}

fn said(method: &Method, uri: &Uri, body: &[u8]) -> Map<String, Value> {
    if method == Method::GET {
        let query =
            Query::<BTreeMap<String, String>>::try_from_uri(uri).map(|query| query.0).unwrap_or_default();
        query.into_iter().map(|(name, value)| (name, value.into())).collect()
    } else {
        serde_json::from_slice(body).unwrap_or_default()
    }
}

fn unavailable(retry_after_s: Option<u64>) -> Response {
    let mut answer =
        (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "error": "the shop is closed for a moment" })))
            .into_response();
    if let Some(seconds) = retry_after_s {
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}
