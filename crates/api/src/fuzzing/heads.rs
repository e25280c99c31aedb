//! Heads of requests: queries, cursors, ids, paths of files, and headers that say something to the API.

use answerable_core::id::{AgentId, ApprovalId, GrantId, RunId, ScheduleId, TenantId, ThreadId, WebhookId};
use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use chrono::Datelike as _;
use futures::FutureExt as _;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method};
use uuid::Uuid;

use super::check_refusal;
use crate::auth;
use crate::body;
use crate::document;
use crate::file_path::FileName;
use crate::idempotency;
use crate::key_ring;
use crate::page::Page;
use crate::preconditions::Precondition;
use crate::prefer::{MAX_WAIT, PreferWait};
use crate::problem::Problem;
use crate::query::{self, Params};
use crate::request_id::RequestId;
use crate::sse;
use crate::trace_parent::TraceParent;

/// A workspace that the paths of files are read in.
const WORKSPACE: &str = "/v1/workspaces/wsp_01890000-0000-7000-8000-000000000000/files/";

/// A request's head is read or refused with what is wrong. The first line names the operation, as `GET /v1/runs`; the second is
/// the query, the third the path of a file, as they are sent; then come headers.
pub fn heads(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.split('\n');
    let (operation, query, file) = (lines.next(), lines.next(), lines.next());
    let (method, template) = operation.and_then(|line| line.split_once(' ')).unwrap_or(("GET", "/v1/runs"));
    let Ok(method) = method.parse::<Method>() else { return };
    let target = format!("{WORKSPACE}{}?{}", file.unwrap_or_default(), query.unwrap_or_default());
    let Ok(request) = Request::builder().uri(target).body(Body::empty()) else { return };
    let (mut parts, _) = request.into_parts();
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let pair = (name.parse::<HeaderName>(), HeaderValue::from_str(value.trim()));
        if let (Ok(name), Ok(value)) = pair {
            parts.headers.append(name, value);
        }
    }
    let params = Params::of(&parts);
    told(query::check(document::operation(&method, template), &params));
    parameters(&params);
    cursors(&mut parts);
    headers(&mut parts);
}

/// What was read; what was refused is judged.
fn told<T>(read: Result<T, Problem>) -> Option<T> {
    read.map_err(|problem| check_refusal(&problem)).ok()
}

fn extracted<T: FromRequestParts<()>>(parts: &mut Parts) -> Result<T, T::Rejection> {
    T::from_request_parts(parts, &()).now_or_never().expect("nothing is waited for")
}

fn parameters(params: &Params) {
    for (_, value) in params.with_prefix("") {
        one_spelling::<RunId>(value);
        one_spelling::<AgentId>(value);
        one_spelling::<ApprovalId>(value);
        one_spelling::<GrantId>(value);
        one_spelling::<ScheduleId>(value);
        one_spelling::<TenantId>(value);
        one_spelling::<ThreadId>(value);
        one_spelling::<WebhookId>(value);
    }
    for name in ["limit", "after", "from", "to", "status", "timeout"] {
        if let Some(Some(number)) = told(params.integer(name, 1, 200)) {
            assert!((1..=200).contains(&number));
        }
        if let Some(Some(at)) = told(params.time(name)) {
            assert!((1..=9999).contains(&at.year()), "{at}");
        }
        let _ = told(params.word(name, &["pending", "queued"]));
    }
}

/// An id that is taken is written in one way.
fn one_spelling<T: std::str::FromStr + ToString>(text: &str) {
    if let Ok(id) = text.parse::<T>() {
        assert_eq!(id.to_string(), text);
    }
}

fn cursors(parts: &mut Parts) {
    let Some(page) = told(extracted::<Page>(parts)) else { return };
    assert!((1..=200).contains(&page.limit) && page.fetch() == page.limit + 1);
    for list in ["runs", "threads", "secrets", ""] {
        if let Some(Some(place)) = told(page.after(list)) {
            assert!(!place.contains('\0'));
        }
        let _ = told(page.after_parsed::<Uuid>(list));
        let _ = told(page.after_parsed::<i64>(list));
        if let Some(Some((at, _))) = told(page.after_named(list)) {
            assert!((1..=9999).contains(&at.year()), "{at}");
        }
    }
}

fn headers(parts: &mut Parts) {
    if let Some(file) = told(extracted::<FileName>(parts).map_err(not_missing)) {
        assert!(!file.path.as_str().is_empty());
    }
    let _ = told(extracted::<Precondition>(parts));
    let Ok(PreferWait(wait)) = extracted::<PreferWait>(parts);
    assert!(wait.is_none_or(|wait| wait <= MAX_WAIT));
    let Ok(_) = extracted::<TraceParent>(parts);
    let _ = sse::is_wanted(&parts.headers);
    if let Some(Some(seq)) = told(sse::last_event_id(&parts.headers)) {
        assert!(seq >= 0);
    }
    let _ = body::is_json(&parts.headers);
    if let Some(Some(key)) = told(idempotency::key_of(&parts.headers)) {
        assert!(key.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
    }
    if let Some(Some(user)) = told(auth::acting_user(parts)) {
        assert!((1..=128).contains(&user.len()));
    }
    let key = parts.headers.get("authorization").and_then(|value| value.to_str().ok());
    let _ = key_ring::parse_key(key.and_then(|key| key.strip_prefix("Bearer ")).unwrap_or_default());
    let mut request = Request::new(Body::empty());
    *request.headers_mut() = parts.headers.clone();
    let id = RequestId::of(&request).0;
    assert!((1..=128).contains(&id.len()) && HeaderValue::from_str(&id).is_ok());
}

/// A workspace that can't be one is just not there, which is no refusal of what is sent.
fn not_missing(problem: Problem) -> Problem {
    if problem.status() == 404 { Problem::invalid_at("/path/workspace_id", "is no id") } else { problem }
}
