//! Large answers: few at a time, for they are in memory until they have been taken, and who reads may be slow.

use axum::body::{Body, HttpBody as _};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, header};

use crate::held::{Who, shed};
use crate::problem::Problem;
use crate::state::AppState;

/// Bytes from which an answer is large.
const LARGE: u64 = 256 * 1024;
/// Large answers that are on their way at a time.
pub(crate) const AT_ONCE: usize = 64;
/// Those that wait for a place, in memory as well.
pub(crate) const IN_LINE: usize = 16;
/// Bytes that are handed on at a time: the place is kept until the last of them are.
const PIECE: usize = 64 * 1024;

/// The same answer, with a place among the large ones if it is one, or a problem if there is none. Only for answers of
/// requests that changed nothing.
pub(crate) async fn with_place(state: &AppState, who: Who, response: Response) -> Response {
    let Some(length) = response.body().size_hint().exact().filter(|length| *length >= LARGE) else {
        return response;
    };
    let place = match state.take_large(who).await {
        Ok(place) => place,
        Err(why) => return shed(state, why).into_response(),
    };
    let (mut head, body) = response.into_parts();
    let bytes = match axum::body::to_bytes(body, usize::MAX).await {
        Ok(bytes) => bytes,
        Err(error) => return Problem::internal(error.to_string()).into_response(),
    };
    head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    let pieces = stream::unfold((bytes, place), |(mut bytes, place)| async move {
        let piece: Bytes = bytes.split_to(PIECE.min(bytes.len()));
        (!piece.is_empty()).then(|| (Ok::<_, std::convert::Infallible>(piece), (bytes, place)))
    });
    Response::from_parts(head, Body::from_stream(pieces))
}
