//! The shop's refusals, as HTTP answers.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Why the shop refuses a request.
#[derive(Debug)]
pub(super) enum Refusal {
    /// 401: no token, or another one.
    Unauthorized,
    /// 404: there is no such customer, product or order.
    NotFound(String),
    /// 409: what is asked for does not fit the shop's state.
    Conflict(String),
    /// 422: what is asked for makes no sense.
    Invalid(String),
    /// 500: the database failed. The caller can't know whether the order was made.
    Database,
}

impl Refusal {
    fn parts(self) -> (StatusCode, String) {
        match self {
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "show the shop's token".into()),
            Self::NotFound(what) => (StatusCode::NOT_FOUND, what),
            Self::Conflict(what) => (StatusCode::CONFLICT, what),
            Self::Invalid(what) => (StatusCode::UNPROCESSABLE_ENTITY, what),
            Self::Database => (StatusCode::INTERNAL_SERVER_ERROR, "the shop has a problem".into()),
        }
    }
}

impl From<sqlx::Error> for Refusal {
    fn from(error: sqlx::Error) -> Self {
        use std::io::Write;
        // A log line that can't be written must not change the answer.
        let _ = writeln!(std::io::stderr(), "shop: {error}");
        Self::Database
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, message) = self.parts();
        (status, Json(json!({ "error": message }))).into_response()
    }
}
