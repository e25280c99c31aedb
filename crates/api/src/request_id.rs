//! Every request has an id: the caller's own, if it is a sane one. The outermost layer; it also writes out problems.

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::HeaderValue;
use http::request::Parts;

use crate::problem::Problem;
use crate::state::AppState;

const HEADER: &str = "x-request-id";

/// The id of a request.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) String);

impl RequestId {
    /// The id that a request brings, or a new one.
    pub(crate) fn of(request: &Request) -> Self {
        let own =
            request.headers().get(HEADER).and_then(|value| value.to_str().ok()).filter(|id| is_sane(id));
        Self(own.map_or_else(|| format!("req_{}", uuid::Uuid::now_v7().simple()), str::to_owned))
    }
}

fn is_sane(id: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    (1..=128).contains(&id.len()) && id.bytes().all(legal)
}

/// Names the request, and whatever problem comes of it.
pub(crate) async fn name_request(
    State(state): State<AppState>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = RequestId::of(&request);
    request.extensions_mut().insert(id.clone());
    let mut response = next.run(request).await;
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        problem.log(&id.0, || state.complains());
        problem.write_into(&mut response, &id.0);
    }
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        response.headers_mut().insert(HEADER, value);
    }
    response
}

impl<S: Sync> FromRequestParts<S> for RequestId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let id = parts.extensions.get::<Self>().cloned();
        id.ok_or_else(|| Problem::internal("a request came by another way than through its layer"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sane_ids() {
        for (id, wanted) in [("order-77.a", true), ("", false), ("a b", false), ("a\nb", false), ("é", false)]
        {
            assert_eq!(is_sane(id), wanted, "{id:?}");
        }
        assert!(is_sane(&"x".repeat(128)) && !is_sane(&"x".repeat(129)));
    }
}
