//! Headers of every answer: no browser may guess at it, frame it, tell others of it or keep it. There is no CORS: no page of
//! another origin reads anything here.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderName, HeaderValue, header};

use crate::state::AppState;

/// What holds unless a handler says otherwise.
const SEAL: [(HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::CACHE_CONTROL, "no-store"),
];
/// A year, where the server is reached by HTTPS.
const HTTPS_ONLY: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Seals an answer.
pub(crate) async fn seal(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in SEAL {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if state.config.public_url.starts_with("https:") {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HTTPS_ONLY);
    }
    response
}
