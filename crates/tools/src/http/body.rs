//! Reads an answer's body within limits.

use bytes::{Bytes, BytesMut};
use reqwest::Response;
use tokio::time::{Instant, timeout_at};

/// A body as far as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) bytes: Bytes,
    /// It was longer than the limit; the rest was not read.
    pub(crate) is_cut: bool,
}

/// Why a body did not come whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    Late,
    Cut,
}

/// Reads at most `most` bytes until `deadline`.
pub(crate) async fn read(response: &mut Response, most: usize, deadline: Instant) -> Result<Body, Broken> {
    let mut bytes = BytesMut::new();
    loop {
        // A stream that never pauses would never let the timer have its turn.
        if Instant::now() >= deadline {
            return Err(Broken::Late);
        }
        match timeout_at(deadline, response.chunk()).await {
            Err(_) => return Err(Broken::Late),
            Ok(Err(_)) => return Err(Broken::Cut),
            Ok(Ok(None)) => return Ok(Body { bytes: bytes.freeze(), is_cut: false }),
            Ok(Ok(Some(piece))) => {
                let room = most - bytes.len();
                bytes.extend_from_slice(&piece[..piece.len().min(room)]);
                if piece.len() > room {
                    return Ok(Body { bytes: bytes.freeze(), is_cut: true });
                }
            }
        }
    }
}
