//! Heads of requests that nobody can read in two ways, and that are short enough.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::problem::Problem;

/// Longest target of a request, in bytes.
const LONGEST_TARGET: usize = 16 * 1024;

/// What is wrong with a request's head, as whoever takes connections notes it in the request's extensions: whoever stands
/// before this server may have read it otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadHead(pub &'static str);

/// Refuses such requests before anything else looks at them.
pub(crate) async fn refuse_bad_heads(request: Request, next: Next) -> Response {
    if let Some(BadHead(fault)) = request.extensions().get() {
        return Problem::bad_head(*fault).into_response();
    }
    if request.uri().path_and_query().is_some_and(|target| target.as_str().len() > LONGEST_TARGET) {
        return Problem::target_too_long(LONGEST_TARGET).into_response();
    }
    next.run(request).await
}
