//! Large answers: few at a time, for they are in memory until they have been taken, and who reads may be slow.

use std::any::Any;

use answerable_ports::{Crowded, Share, Shares};
use axum::body::{Body, HttpBody as _};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, header};

use crate::held::{Held, PATIENCE, Who, shed};
use crate::problem::Problem;
use crate::state::AppState;

/// Answers that are on their way at a time, by how large they are.
struct Size {
    /// Bytes from which an answer is of it.
    from: u64,
    at_once: usize,
    /// Those that wait for a place, in memory as well.
    in_line: usize,
}

const LARGE: Size = Size { from: 256 * 1024, at_once: 64, in_line: 16 };
/// A connection keeps less than that by itself.
const MIDDLING: Size = Size { from: 32 * 1024, at_once: 512, in_line: 64 };
/// Bytes that are handed on at a time: the place is kept until the last of them are.
const PIECE: usize = 16 * 1024;

/// Places of large answers. Clones share them.
#[derive(Clone)]
pub(crate) struct Places {
    large: Shares<Who>,
    middling: Shares<Who>,
}

impl Places {
    /// All free.
    pub(crate) fn new() -> Self {
        let places = |size: Size| Shares::new(size.at_once, size.in_line);
        Self { large: places(LARGE), middling: places(MIDDLING) }
    }

    async fn take(&self, who: Who, length: u64) -> Result<Share<Who>, Crowded> {
        let places = if length >= LARGE.from { &self.large } else { &self.middling };
        places.take_within(who, PATIENCE).await
    }
}

/// The same answer, with a place among the large ones if it is one. Where there is none, a request that only reads gets a
/// problem instead. What others have done is told in any case: such an answer keeps what its request holds.
pub(crate) async fn with_place(
    state: &AppState,
    (who, held): (Who, &Held),
    reads: bool,
    response: Response,
) -> Response {
    let Some(length) = response.body().size_hint().exact().filter(|length| *length >= MIDDLING.from) else {
        return response;
    };
    let place: Box<dyn Any + Send> = match state.large.take(who, length).await {
        Ok(place) => Box::new(place),
        Err(why) if reads => return shed(state, why).into_response(),
        Err(_) => Box::new(held.kept()),
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
