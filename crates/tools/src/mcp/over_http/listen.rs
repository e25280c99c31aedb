//! The stream of what a server tells by itself. Not every server has one.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Response;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use super::super::ears::Ears;
use super::super::failure::Failure;
use super::content_type;
use super::line::Line;
use super::stream::Listener;
use crate::sse::SseDecoder;

/// Statuses after which it is not asked for again. 405: it has none. 401 and 403: not for us. 400 and 404: the session is
/// over, as whoever calls next will find out. Any other may pass.
const FINAL: [u16; 5] = [400, 401, 403, 404, 405];
/// Most bytes of an event: what a server tells by itself is short.
const MOST_EVENT: usize = 1 << 20;
/// How long to wait before the stream is asked for again, at first; doubled up to the longest while it doesn't last.
const PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// A stream that lasted so long was a good one.
const LASTED: Duration = Duration::from_secs(60);
/// A stream that says nothing for so long, not even that it is there, is asked for anew.
const SILENCE: Duration = Duration::from_secs(600);
/// How long its head may take.
const HEAD: Duration = Duration::from_secs(30);

/// Listens until the server says that it has no such stream, or until it is stopped.
pub(super) async fn listen(line: Arc<Line>, ears: Ears, replies: Arc<Semaphore>) {
    let listener = Listener { line: Arc::clone(&line), ears, replies };
    let (mut last, mut pause) = (None, PAUSE);
    loop {
        let begun = Instant::now();
        match timeout(HEAD, line.stream(last.as_deref())).await {
            Ok(Ok(response)) if is_stream(&response) => last = hear(response, &listener).await.or(last),
            Ok(Ok(response)) if FINAL.contains(&response.status().as_u16()) => return,
            Ok(Err(Failure::Forbidden(_))) => return,
            Ok(_) | Err(_) => {}
        }
        if begun.elapsed() > LASTED {
            pause = PAUSE;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn is_stream(response: &Response) -> bool {
    response.status().is_success() && content_type(response).starts_with("text/event-stream")
}

/// Hears a stream to its end; the id of its last event.
async fn hear(mut response: Response, listener: &Listener) -> Option<String> {
    let mut decoder = SseDecoder::within(MOST_EVENT);
    while let Ok(Ok(Some(piece))) = timeout(SILENCE, response.chunk()).await {
        let Ok(events) = decoder.push(&piece) else { break };
        events.iter().for_each(|event| drop(listener.hear(&event.data, None)));
    }
    decoder.last_id().map(str::to_owned)
}
