//! An answer that comes as a stream of events, with whatever else the server says before it.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Response;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use super::super::ears::{Ears, Heard};
use super::super::failure::Failure;
use super::super::message::{self, RpcError};
use super::line::Line;
use super::{MOST_ANSWER, OverHttp, answered, content_type, reply};
use crate::sse::SseDecoder;

/// Most bytes of the streams of one answer.
const MOST_BYTES: usize = 64 << 20;
/// How often a stream that broke is taken up again.
const MOST_RESUMES: usize = 100;
/// How long to wait before that, where the server doesn't say, and at most.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long the rest of a stream is read after the answer, so that its connection can be used again.
const REST: Duration = Duration::from_secs(2);
const MOST_REST: usize = 1 << 20;

/// Why no (more) answer comes out of a stream.
enum Ended {
    /// It ended or broke.
    Broken,
    Failed(Failure),
}

/// Takes events to who is concerned.
pub(super) struct Listener {
    pub(super) line: Arc<Line>,
    pub(super) ears: Ears,
    pub(super) replies: Arc<Semaphore>,
}

impl Listener {
    /// Hears the messages of an event; the answer to the request `id`, if it is among them.
    pub(super) fn hear(&self, data: &str, id: Option<u64>) -> Option<Result<Box<RawValue>, RpcError>> {
        let mut answer = None;
        for message in message::read(data).unwrap_or_default() {
            match self.ears.hear(message) {
                Heard::Answer(known, outcome) if id.is_some_and(|id| message::is_id(&known, id)) => {
                    answer = Some(outcome);
                }
                Heard::Reply(text) => reply(&self.line, &self.replies, text),
                Heard::Answer(..) | Heard::Nothing => {}
            }
        }
        answer
    }
}

impl OverHttp {
    pub(super) fn listener(&self) -> Listener {
        Listener { line: Arc::clone(&self.line), ears: self.ears.clone(), replies: Arc::clone(&self.replies) }
    }

    /// Reads a stream up to the answer. One that breaks is taken up again where its events have ids.
    pub(super) async fn read_stream(
        &self,
        mut response: Response,
        id: u64,
        deadline: Instant,
    ) -> Result<Box<RawValue>, Failure> {
        let (mut decoder, mut bytes) = (SseDecoder::within(MOST_ANSWER), 0);
        for _ in 0..MOST_RESUMES {
            match self.next_answer(&mut response, &mut decoder, &mut bytes, id, deadline).await {
                Ok(outcome) => {
                    tokio::spawn(drain(response, decoder, self.listener()));
                    return answered(outcome);
                }
                Err(Ended::Failed(failure)) => return Err(failure),
                Err(Ended::Broken) => {}
            }
            let Some(last) = decoder.last_id().map(str::to_owned) else { return Err(Failure::Cut) };
            let pause = decoder.retry_ms().map_or(PAUSE, Duration::from_millis).min(LONGEST_PAUSE);
            response = timeout_at(deadline, self.resume(&last, pause)).await.map_err(|_| Failure::Late)??;
            decoder = decoder.next_stream();
        }
        Err(Failure::Cut)
    }

    async fn next_answer(
        &self,
        response: &mut Response,
        decoder: &mut SseDecoder,
        bytes: &mut usize,
        id: u64,
        deadline: Instant,
    ) -> Result<Result<Box<RawValue>, RpcError>, Ended> {
        let listener = self.listener();
        loop {
            // A stream that never pauses would never let the timer have its turn.
            if Instant::now() >= deadline {
                return Err(Ended::Failed(Failure::Late));
            }
            let piece = match timeout_at(deadline, response.chunk()).await {
                Err(_) => return Err(Ended::Failed(Failure::Late)),
                Ok(Err(_)) => return Err(Ended::Broken),
                Ok(Ok(None)) => {
                    let last = decoder.finish().and_then(|event| listener.hear(&event.data, Some(id)));
                    return last.ok_or(Ended::Broken);
                }
                Ok(Ok(Some(piece))) => piece,
            };
            *bytes += piece.len();
            if *bytes > MOST_BYTES {
                return Err(Ended::Failed(Failure::TooLong));
            }
            for event in decoder.push(&piece).map_err(|_| Ended::Failed(Failure::TooLong))? {
                if let Some(outcome) = listener.hear(&event.data, Some(id)) {
                    return Ok(outcome);
                }
            }
        }
    }

    /// Asks for the rest of a stream. Where the server doesn't give it, nobody knows what became of the request.
    async fn resume(&self, last: &str, pause: Duration) -> Result<Response, Failure> {
        tokio::time::sleep(pause).await;
        let response = self.line.stream(Some(last)).await.map_err(|_| Failure::Cut)?;
        let is_stream =
            response.status().is_success() && content_type(&response).starts_with("text/event-stream");
        if is_stream { Ok(response) } else { Err(Failure::Cut) }
    }
}

/// Reads what comes after the answer, for a while.
async fn drain(mut response: Response, mut decoder: SseDecoder, listener: Listener) {
    let rest = async {
        let mut bytes = 0;
        while let Ok(Some(piece)) = response.chunk().await {
            bytes += piece.len();
            let Ok(events) = decoder.push(&piece) else { return };
            events.iter().for_each(|event| drop(listener.hear(&event.data, None)));
            if bytes > MOST_REST {
                return;
            }
        }
    };
    let _ = timeout(REST, rest).await;
}
