//! Successes: the few kinds of them.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use super::Problem;

/// A success, ready to be sent and to be kept for the same request sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    status: u16,
    location: Option<String>,
    body: Option<String>,
    replayed: bool,
    secret: bool,
}

impl Answer {
    fn new(status: StatusCode, body: &impl Serialize) -> Result<Self, Problem> {
        let body = serde_json::to_string(body).map_err(|error| Problem::internal(error.to_string()))?;
        Ok(Self { status: status.as_u16(), location: None, body: Some(body), replayed: false, secret: false })
    }

    /// 200.
    pub(crate) fn ok(body: &impl Serialize) -> Result<Self, Problem> {
        Self::new(StatusCode::OK, body)
    }

    /// 201, with the path of what was created.
    pub(crate) fn created(location: impl Into<String>, body: &impl Serialize) -> Result<Self, Problem> {
        Ok(Self { location: Some(location.into()), ..Self::new(StatusCode::CREATED, body)? })
    }

    /// 202.
    pub(crate) fn accepted(body: &impl Serialize) -> Result<Self, Problem> {
        Self::new(StatusCode::ACCEPTED, body)
    }

    /// 204.
    pub(crate) fn no_content() -> Self {
        let status = StatusCode::NO_CONTENT.as_u16();
        Self { status, location: None, body: None, replayed: false, secret: false }
    }

    /// The same, with a secret in it: kept encrypted only.
    #[must_use]
    pub(crate) fn with_secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// The same with another body: what it told of is shown as it is now.
    pub(crate) fn showing(mut self, body: &impl Serialize) -> Result<Self, Problem> {
        self.body = Some(serde_json::to_string(body).map_err(|error| Problem::internal(error.to_string()))?);
        Ok(self)
    }

    /// As it is kept.
    pub(crate) fn kept(&self) -> answerable_store::KeptAnswer {
        let status = i16::try_from(self.status).unwrap_or(200);
        let (location, body) = (self.location.clone(), self.body.clone());
        answerable_store::KeptAnswer { status, location, body, secret: self.secret, run_id: None }
    }

    /// One that was kept, marked as such.
    pub(crate) fn replay(kept: answerable_store::KeptAnswer) -> Self {
        let status = u16::try_from(kept.status).unwrap_or(200);
        Self { status, location: kept.location, body: kept.body, replayed: true, secret: kept.secret }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::OK);
        let mut response = Response::new(self.body.map_or_else(Body::empty, Body::from));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        if status != StatusCode::NO_CONTENT {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(location) = self.location.and_then(|location| HeaderValue::from_str(&location).ok()) {
            headers.insert(header::LOCATION, location);
        }
        if self.replayed {
            headers.insert("idempotent-replayed", HeaderValue::from_static("true"));
        }
        response
    }
}

/// 200 with a text of the server's own.
pub(crate) fn page(content_type: &'static str, text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A problem as a page, for people who read one. Only for what is no fault of the server's: that is logged where documents
/// are written.
pub(crate) fn problem_page(problem: Problem, content_type: &'static str, text: impl Into<Body>) -> Response {
    let mut response = problem.into_response();
    response.extensions_mut().remove::<Problem>();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    *response.body_mut() = text.into();
    response
}

/// 200 with bytes that somebody else wrote: no browser may take them for a page of this server.
pub(crate) fn attachment(media_type: &str, bytes: impl Into<Body>) -> Response {
    let plain = HeaderValue::from_static("application/octet-stream");
    let mut response = Response::new(bytes.into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(media_type).unwrap_or(plain));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// 204 without anything: a stream that has nothing left to say.
pub(crate) fn nothing_left() -> Response {
    StatusCode::NO_CONTENT.into_response()
}
