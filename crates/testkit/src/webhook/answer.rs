//! Answers of a receiver, sound ones and others.

use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use futures::{StreamExt as _, stream};

/// What a receiver answers to one delivery.
#[derive(Clone, Debug)]
pub struct HookAnswer {
    status: u16,
    pub(super) delay: Duration,
    headers: Vec<(String, String)>,
    body: HookBody,
    /// Whether it comes at all.
    pub(super) comes: bool,
}

#[derive(Clone, Debug)]
enum HookBody {
    Whole(Bytes),
    /// This again and again.
    Endless(Bytes),
    /// This, and then nothing more, without an end.
    Stuck(Bytes),
}

impl HookAnswer {
    /// This status at once, without a body.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self {
            status,
            delay: Duration::ZERO,
            headers: vec![],
            body: HookBody::Whole(Bytes::new()),
            comes: true,
        }
    }

    /// No answer at all.
    #[must_use]
    pub fn never() -> Self {
        Self { comes: false, ..Self::status(200) }
    }

    /// The same after a while.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The same with a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same with a body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = HookBody::Whole(body.into());
        self
    }

    /// The same with a body that repeats this without end.
    #[must_use]
    pub fn endless(mut self, piece: impl Into<Bytes>) -> Self {
        self.body = HookBody::Endless(piece.into());
        self
    }

    /// The same with a body that begins like this and goes no further.
    #[must_use]
    pub fn stuck(mut self, piece: impl Into<Bytes>) -> Self {
        self.body = HookBody::Stuck(piece.into());
        self
    }

    pub(super) fn response(self) -> Response {
        let body = match self.body {
            HookBody::Whole(bytes) => Body::from(bytes),
            HookBody::Endless(piece) => {
                Body::from_stream(stream::repeat_with(move || Ok::<_, io::Error>(piece.clone())))
            }
            HookBody::Stuck(piece) => {
                Body::from_stream(stream::iter([Ok::<_, io::Error>(piece)]).chain(stream::pending()))
            }
        };
        let mut response = Response::builder().status(self.status);
        for (name, value) in self.headers {
            response = response.header(name, value);
        }
        response.body(body).unwrap_or_else(|_| plain(StatusCode::INTERNAL_SERVER_ERROR))
    }
}

pub(super) fn plain(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
