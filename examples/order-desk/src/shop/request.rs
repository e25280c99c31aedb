//! Who calls the shop, and on whose behalf: the headers of a request.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;

use super::Shop;
use super::answer::Refusal;

/// The marks of a call that the shop stores with whatever it makes.
///
/// `Idempotency-Key` and `X-Run-Id` come from the runtime; `X-Message-Id` is a header that the
/// order desk's own `agent.json` adds, out of the run's context.
pub(super) struct CallMarks {
    pub(super) idempotency_key: Option<String>,
    pub(super) run_id: Option<String>,
    pub(super) message_id: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for CallMarks {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self {
            idempotency_key: header(&parts.headers, "idempotency-key"),
            run_id: header(&parts.headers, "x-run-id"),
            message_id: header(&parts.headers, "x-message-id"),
        })
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// Lets only callers through that show the shop's token.
pub(super) async fn only_known_callers(
    State(shop): State<Shop>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let shown = header(request.headers(), "authorization");
    if shown.as_deref().and_then(|value| value.strip_prefix("Bearer ")) != Some(&*shop.token) {
        return Err(Refusal::Unauthorized);
    }
    Ok(next.run(request).await)
}
