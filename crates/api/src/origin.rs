//! Who asks, and from where, for the record of who did what.

use std::net::SocketAddr;

use answerable_core::audit::{Actor, Origin, Place};
use answerable_core::id::TenantId;
use answerable_core::json::clean_text;
use answerable_core::text;
use answerable_store::TenantTx;
use http::HeaderMap;
use http::request::Parts;

use crate::auth::Standing;
use crate::problem::Problem;
use crate::request_id::RequestId;
use crate::state::AppState;

/// Longest part of a header that is kept, in characters.
const LONGEST: usize = 256;

/// The other end of the connection that a request came by, as whoever takes connections notes it in the request's
/// extensions.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// Begins a transaction that does something in a tenant in the name of who asks. The tenant isn't deleted before it ends, so
/// that neither waits for the other with its locks; where it is gone already, so are its keys and links. Who asked before
/// their body came in may have lost what they asked with meanwhile, so `standing` is looked at again.
pub(crate) async fn begin(
    state: &AppState,
    tenant: TenantId,
    origin: &Origin,
    standing: Option<&Standing>,
) -> Result<TenantTx, Problem> {
    if let Some(standing) = standing {
        standing.check(state).await?;
    }
    let mut tx = state.store.tenant(tenant).await?;
    tx.asked_by(origin.clone());
    if tx.tenant_hold().await? {
        return Ok(tx);
    }
    match origin.actor {
        Actor::Key { .. } | Actor::Person { .. } => Err(Problem::unauthorized()),
        _ => Err(Problem::not_found()),
    }
}

/// Who asks, noted in the request for whatever else reads it.
pub(crate) fn note(parts: &mut Parts, actor: Actor) -> Origin {
    let peer = parts.extensions.get::<Peer>().map(|peer| peer.0.ip().to_canonical().to_string());
    let place = Place {
        address: peer,
        forwarded_for: said(&parts.headers, "x-forwarded-for"),
        user_agent: said(&parts.headers, "user-agent"),
        request_id: parts.extensions.get::<RequestId>().map(|id| id.0.clone()),
    };
    let origin = Origin { actor, place };
    parts.extensions.insert(origin.clone());
    origin
}

/// What a header says, in short; nobody vouches for it.
fn said(headers: &HeaderMap, name: &str) -> Option<String> {
    let values: Vec<_> =
        headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    let all = clean_text(&values.join(", "));
    (!all.is_empty()).then(|| text::head(&all, LONGEST).to_owned())
}

#[cfg(test)]
mod tests {
    use axum::extract::Request;
    use http::HeaderValue;

    use super::*;

    #[test]
    fn claims_are_short_and_told_apart_from_what_is_known() {
        let mut request = Request::new(());
        request.extensions_mut().insert(Peer("[::ffff:10.0.0.7]:4711".parse().expect("an address")));
        let headers = request.headers_mut();
        headers.append("x-forwarded-for", HeaderValue::from_static("192.0.2.1, 192.0.2.2"));
        headers.append("x-forwarded-for", HeaderValue::from_static("192.0.2.3"));
        headers.insert("user-agent", HeaderValue::from_bytes(&[b'a', 0xff, b'b']).expect("a value"));
        let (mut parts, ()) = request.into_parts();
        let place = note(&mut parts, Actor::Link).place;
        assert_eq!(place.address.as_deref(), Some("10.0.0.7"));
        assert_eq!(place.forwarded_for.as_deref(), Some("192.0.2.1, 192.0.2.2, 192.0.2.3"));
        assert_eq!(place.user_agent.as_deref(), Some("a\u{fffd}b"));
        assert_eq!(parts.extensions.get::<Origin>().map(|origin| &origin.actor), Some(&Actor::Link));
        let long = HeaderValue::from_str(&"é".repeat(300)).expect("a value");
        parts.headers.insert("user-agent", long);
        let place = note(&mut parts, Actor::Link).place;
        assert_eq!(place.user_agent.map(|agent| agent.chars().count()), Some(LONGEST));
    }
}
