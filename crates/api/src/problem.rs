//! What the API answers: problems (RFC 9457), and the few kinds of success. The one module that names status codes.

mod answer;

use answerable_core::FieldError;
use answerable_store::{Full, StoreError};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

pub(crate) use answer::{Answer, attachment, nothing_left, page, problem_page};

/// Nobody knows when a tenant that has as much as it may have will have less; it is worth no sooner look.
pub(crate) const FULL_FOR_S: u64 = 60;

/// Codes of problems (contract, "Errors").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    Conflict,
    AlreadyDecided,
    Expired,
    PreconditionFailed,
    PayloadTooLarge,
    UnsupportedMediaType,
    BadHead,
    TargetTooLong,
    NoWholeBody,
    NoJson,
    InvalidRequest,
    IdempotencyConflict,
    RateLimited,
    QuotaExceeded,
    Internal,
    Unavailable,
}

impl Code {
    /// Status, name and title.
    fn words(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "unauthorized", "A valid key is needed"),
            Self::Forbidden => (StatusCode::FORBIDDEN, "forbidden", "The key may not do this"),
            Self::NotFound => (StatusCode::NOT_FOUND, "not_found", "Not found"),
            Self::MethodNotAllowed => {
                (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "Method not allowed")
            }
            Self::Conflict => (StatusCode::CONFLICT, "conflict", "It conflicts with the present state"),
            Self::AlreadyDecided => (StatusCode::CONFLICT, "already_decided", "It was decided otherwise"),
            Self::Expired => (StatusCode::GONE, "expired", "It is over"),
            Self::PreconditionFailed => {
                (StatusCode::PRECONDITION_FAILED, "precondition_failed", "It has another version")
            }
            Self::PayloadTooLarge => {
                (StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", "The body is too large")
            }
            Self::UnsupportedMediaType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "The body must be application/json",
            ),
            Self::BadHead => (StatusCode::BAD_REQUEST, "invalid_request", "The request makes no sense"),
            Self::TargetTooLong => {
                (StatusCode::URI_TOO_LONG, "invalid_request", "The request's target is too long")
            }
            Self::NoWholeBody => (StatusCode::BAD_REQUEST, "invalid_request", "The body did not come whole"),
            Self::NoJson => (StatusCode::BAD_REQUEST, "invalid_request", "The body is no JSON"),
            Self::InvalidRequest => {
                (StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", "The request is not valid")
            }
            Self::IdempotencyConflict => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency_conflict",
                "The key was used for another request",
            ),
            Self::RateLimited => (StatusCode::TOO_MANY_REQUESTS, "rate_limited", "Too many requests"),
            Self::QuotaExceeded => (StatusCode::TOO_MANY_REQUESTS, "quota_exceeded", "A quota is used up"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal", "The server failed"),
            Self::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Not available at the moment")
            }
        }
    }
}

/// Why a request is refused. Turned into its document by the outermost layer, which knows the request's id.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    code: Code,
    detail: Option<String>,
    errors: Vec<FieldError>,
    retry_after_s: Option<u64>,
    /// For the log alone.
    cause: Option<String>,
}

impl Problem {
    fn new(code: Code) -> Self {
        Self { code, detail: None, errors: Vec::new(), retry_after_s: None, cause: None }
    }

    fn saying(code: Code, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..Self::new(code) }
    }

    /// 401: no key, or none that is valid.
    pub(crate) fn unauthorized() -> Self {
        Self::new(Code::Unauthorized)
    }

    /// 403: the key may not do this.
    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::saying(Code::Forbidden, detail)
    }

    /// 404: no such thing, or not this tenant's; both sound the same.
    pub(crate) fn not_found() -> Self {
        Self::new(Code::NotFound)
    }

    /// 405.
    pub(crate) fn method_not_allowed() -> Self {
        Self::new(Code::MethodNotAllowed)
    }

    /// 409: it doesn't go with the present state.
    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::saying(Code::Conflict, detail)
    }

    /// 409: somebody decided otherwise.
    pub(crate) fn already_decided(detail: impl Into<String>) -> Self {
        Self::saying(Code::AlreadyDecided, detail)
    }

    /// 410: it expired, was cancelled, or its run has ended.
    pub(crate) fn expired(detail: impl Into<String>) -> Self {
        Self::saying(Code::Expired, detail)
    }

    /// 412: it is not what the request takes it for.
    pub(crate) fn precondition_failed(detail: impl Into<String>) -> Self {
        Self::saying(Code::PreconditionFailed, detail)
    }

    /// 413: more than `max_bytes`.
    pub(crate) fn payload_too_large(max_bytes: usize) -> Self {
        Self::saying(Code::PayloadTooLarge, format!("A body has at most {max_bytes} bytes."))
    }

    /// 415: not declared as JSON.
    pub(crate) fn unsupported_media_type() -> Self {
        Self::new(Code::UnsupportedMediaType)
    }

    /// 400: what stands before the body can be read in more than one way, or not at all.
    pub(crate) fn bad_head(detail: impl Into<String>) -> Self {
        Self::saying(Code::BadHead, detail)
    }

    /// 414: path and query have more than `max_bytes`.
    pub(crate) fn target_too_long(max_bytes: usize) -> Self {
        Self::saying(Code::TargetTooLong, format!("Path and query have at most {max_bytes} bytes."))
    }

    /// 400: the body broke off, or came too slowly.
    pub(crate) fn no_whole_body(detail: impl Into<String>) -> Self {
        Self::saying(Code::NoWholeBody, detail)
    }

    /// 400: the body is no JSON.
    pub(crate) fn no_json(detail: impl Into<String>) -> Self {
        Self::saying(Code::NoJson, detail)
    }

    /// 422: these are wrong.
    pub(crate) fn invalid(errors: Vec<FieldError>) -> Self {
        Self { errors, ..Self::new(Code::InvalidRequest) }
    }

    /// 422: this one is wrong. `pointer` goes into the body, or is `/query/NAME`, `/header/NAME`, `/path/NAME`.
    pub(crate) fn invalid_at(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self::invalid(vec![FieldError::new(pointer, message)])
    }

    /// 422: the key stands for another request.
    pub(crate) fn idempotency_conflict() -> Self {
        Self::new(Code::IdempotencyConflict)
    }

    /// 429: too many requests in this minute.
    pub(crate) fn rate_limited(retry_after_s: u64) -> Self {
        Self::new(Code::RateLimited).after(retry_after_s)
    }

    /// 429: a quota of the tenant is used up.
    pub(crate) fn quota_exceeded(detail: impl Into<String>, retry_after_s: u64) -> Self {
        Self::saying(Code::QuotaExceeded, detail).after(retry_after_s)
    }

    /// 429: the tenant has as much of something as it may have.
    pub(crate) fn full(full: Full) -> Self {
        Self::quota_exceeded(full.to_string(), FULL_FOR_S)
    }

    /// 500; the cause goes into the log, never into the answer.
    pub(crate) fn internal(cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into()), ..Self::new(Code::Internal) }
    }

    /// 503: the database is away, or the server is draining.
    pub(crate) fn unavailable(retry_after_s: u64) -> Self {
        Self::new(Code::Unavailable).after(retry_after_s)
    }

    /// 503: somebody whom this server asks for the caller is away.
    pub(crate) fn away(detail: impl Into<String>) -> Self {
        Self::saying(Code::Unavailable, detail).after(5)
    }

    /// The same with `Retry-After`, in seconds.
    #[must_use]
    pub(crate) fn after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// Whether it is the server's own fault, or what is stored makes no sense.
    pub(crate) fn is_internal(&self) -> bool {
        self.code == Code::Internal
    }

    /// Whether it is the server's own fault, or the database's.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.code, Code::Internal | Code::Unavailable)
    }

    /// What it says to people.
    pub(crate) fn said(&self) -> String {
        let faults = self.errors.iter().map(|fault| format!("{} {}.", fault.pointer, fault.message));
        let said: Vec<String> = self.detail.iter().cloned().chain(faults).collect();
        if said.is_empty() { format!("{}.", self.code.words().2) } else { said.join(" ") }
    }

    /// Its status as a number, for results within a body.
    pub(crate) fn status(&self) -> u16 {
        self.code.words().0.as_u16()
    }

    /// The same of a document in which what is at fault stands at `prefix`.
    #[must_use]
    pub(crate) fn under(mut self, prefix: &str) -> Self {
        self.errors = self.errors.into_iter().map(|fault| fault.under(prefix)).collect();
        self
    }

    /// What is kept of it where nobody waits for an answer.
    pub(crate) fn in_short(&self) -> Value {
        json!({"code": self.code.words().1, "message": self.said()})
    }

    /// The document.
    pub(crate) fn document(&self, request_id: &str) -> Value {
        let (status, code, title) = self.code.words();
        let mut document = json!({
            "type": format!("/problems/{code}"), "title": title, "status": status.as_u16(), "code": code,
            "request_id": request_id,
        });
        if let Some(detail) = &self.detail {
            document["detail"] = detail.as_str().into();
        }
        if !self.errors.is_empty() {
            document["errors"] = json!(self.errors);
        }
        document
    }

    /// Logs what is the server's own fault; once, where the answer leaves. A database that is away would be told of with
    /// every request, so `complains` says whether it is due, and how many were not told of.
    pub(crate) fn log(&self, request_id: &str, complains: impl FnOnce() -> Option<u64>) {
        let cause = self.cause.as_deref().unwrap_or_default();
        match self.code {
            Code::Internal => tracing::error!(request_id, cause, "a request failed"),
            Code::Unavailable if !cause.is_empty() => match complains() {
                Some(others) => tracing::warn!(request_id, cause, others, "a request could not be served"),
                None => tracing::debug!(request_id, cause, "a request could not be served"),
            },
            _ => {}
        }
    }

    /// Writes the document into a response that carries this problem.
    pub(crate) fn write_into(&self, response: &mut Response, request_id: &str) {
        let body = self.document(request_id).to_string();
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response.headers_mut().remove(header::CONTENT_LENGTH);
        *response.body_mut() = Body::from(body);
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Away(cause) => Self { cause: Some(cause), ..Self::unavailable(2) },
            StoreError::Broken(cause) => Self::internal(cause),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.code.words().0.into_response();
        let headers = response.headers_mut();
        if self.code == Code::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        response.extensions_mut().insert(self);
        response
    }
}
