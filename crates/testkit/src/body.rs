//! Bodies in pieces, which may break off.

use std::io;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use futures::stream;

/// An answer whose body is sent piece by piece and, if asked, breaks off after `cut` bytes.
///
/// # Panics
/// For a status or a header that HTTP does not know: the script is wrong then.
pub(crate) fn answer(
    status: u16,
    headers: &[(String, String)],
    pieces: Vec<Bytes>,
    cut: Option<usize>,
) -> Response {
    let mut response = Response::new(match cut {
        None => Body::from_stream(stream::iter(pieces.into_iter().map(Ok::<_, io::Error>))),
        Some(bytes) => broken(&pieces.concat(), bytes),
    });
    let Ok(code) = StatusCode::from_u16(status) else { panic!("there is no status {status}") };
    *response.status_mut() = code;
    for (name, value) in headers {
        let parsed = (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value.as_str()));
        let (Ok(known), Ok(value)) = parsed else { panic!("no header can be {name}: {value}") };
        response.headers_mut().insert(known, value);
    }
    response
}

/// The first bytes of a body, then a broken line.
fn broken(whole: &[u8], bytes: usize) -> Body {
    let head = Bytes::copy_from_slice(whole.get(..bytes).unwrap_or(whole));
    Body::from_stream(stream::unfold(Some(head), async |state| match state {
        Some(head) if head.is_empty() => {
            // What was sent before goes out while this waits for its next turn.
            tokio::task::yield_now().await;
            Some((Err(io::Error::from(io::ErrorKind::ConnectionReset)), None))
        }
        Some(head) => Some((Ok(head), Some(Bytes::new()))),
        None => None,
    }))
}
