//! Streamable HTTP: each message is a POST, each answer JSON or a stream of events.

mod line;
mod listen;
mod refused;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use self::line::{Line, SESSION_ID};
use super::ears::{Ears, Heard};
use super::failure::Failure;
use super::message::{self, RpcError};
use crate::egress::GuardedClient;
use crate::http::body::{self, Broken};
use crate::mask::Mask;
use crate::sent::Sent;

/// Most bytes of one answer.
pub(super) const MOST_ANSWER: usize = 16 << 20;
/// Longest id of a session, in bytes.
const LONGEST_SESSION_ID: usize = 1024;
/// How long a message that nobody waits for may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most replies to the server's own requests that are under way at a time; more are left out.
const MOST_REPLIES: usize = 8;

/// A session over streamable HTTP.
#[derive(Debug)]
pub(super) struct OverHttp {
    line: Arc<Line>,
    ears: Ears,
    replies: Arc<Semaphore>,
    listening: std::sync::OnceLock<Listening>,
}

/// Ends listening with its session.
#[derive(Debug)]
struct Listening(AbortHandle);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl OverHttp {
    /// A line to `url` on which every request bears `headers`.
    pub(super) fn new(
        client: GuardedClient,
        url: String,
        headers: HeaderMap,
        mask: Mask,
        ears: Ears,
    ) -> Self {
        Self {
            line: Arc::new(Line::new(client, url, headers, mask)),
            ears,
            replies: Arc::new(Semaphore::new(MOST_REPLIES)),
            listening: std::sync::OnceLock::new(),
        }
    }

    /// Asks, and waits for the answer. `trace` is the `traceparent` of a call.
    pub(super) async fn ask(
        &self,
        id: u64,
        text: String,
        trace: Option<&str>,
        deadline: Instant,
        sent: &Sent,
    ) -> Result<Box<RawValue>, Failure> {
        let response = self.line.post(Bytes::from(text), trace, deadline, sent).await?;
        self.keep_session(&response)?;
        let is_stream = content_type(&response).starts_with("text/event-stream");
        if is_stream {
            self.read_stream(response, id, deadline).await
        } else {
            self.read_json(response, id, deadline).await
        }
    }

    /// Sends what has no answer.
    pub(super) async fn tell(&self, text: String, deadline: Instant) -> Result<(), Failure> {
        self.line.post(Bytes::from(text), None, deadline, &Sent::default()).await.map(drop)
    }

    /// From now on every request names this version.
    pub(super) fn speak(&self, version: &str) {
        self.line.speak(version);
    }

    /// Hears what the server tells by itself, for as long as this lives.
    pub(super) fn listen(&self) {
        let task = tokio::spawn(listen::listen(
            Arc::clone(&self.line),
            self.ears.clone(),
            Arc::clone(&self.replies),
        ));
        self.listening.get_or_init(|| Listening(task.abort_handle()));
    }

    /// Tells the server, in a task of its own, that the session is over.
    pub(super) fn close(&self) {
        let Ok(runtime) = Handle::try_current() else { return };
        let line = Arc::clone(&self.line);
        runtime.spawn(async move {
            let _ = timeout(PATIENCE, line.end()).await;
        });
    }

    /// The first answer names the session, if the server has such.
    fn keep_session(&self, response: &Response) -> Result<(), Failure> {
        let Some(id) = response.headers().get(SESSION_ID) else { return Ok(()) };
        if id.len() > LONGEST_SESSION_ID || id.to_str().is_err() {
            return Err(Failure::Garbled("the server's session has a name that can't be sent"));
        }
        self.line.join(id);
        Ok(())
    }

    async fn read_json(
        &self,
        mut response: Response,
        id: u64,
        deadline: Instant,
    ) -> Result<Box<RawValue>, Failure> {
        let body = body::read(&mut response, MOST_ANSWER, deadline).await.map_err(broken)?;
        if body.is_cut {
            return Err(Failure::TooLong);
        }
        let text = String::from_utf8_lossy(&body.bytes);
        let messages =
            message::read(&text).map_err(|_| Failure::Garbled("what the server answered is no answer"))?;
        let mut answer = None;
        for message in messages {
            match self.ears.hear(message) {
                // The only request of this exchange is ours, so an error for none is for ours.
                Heard::Answer(known, outcome)
                    if message::is_id(&known, id) || (known.is_null() && outcome.is_err()) =>
                {
                    answer = Some(outcome);
                }
                Heard::Reply(text) => reply(&self.line, &self.replies, text),
                Heard::Answer(..) | Heard::Nothing => {}
            }
        }
        answered(answer.ok_or(Failure::Garbled("what the server answered is for another request"))?)
    }
}

/// A result, or the error in its place.
fn answered(outcome: Result<Box<RawValue>, RpcError>) -> Result<Box<RawValue>, Failure> {
    outcome.map_err(|error| Failure::Rpc { code: error.code, message: error.message })
}

fn broken(broken: Broken) -> Failure {
    match broken {
        Broken::Late => Failure::Late,
        Broken::Cut => Failure::Cut,
    }
}

/// Answers the server's own request, in a task that nothing waits for.
fn reply(line: &Arc<Line>, replies: &Arc<Semaphore>, text: String) {
    let Ok(permit) = Arc::clone(replies).try_acquire_owned() else { return };
    let line = Arc::clone(line);
    tokio::spawn(async move {
        let _permit = permit;
        let _ = line.post(Bytes::from(text), None, Instant::now() + PATIENCE, &Sent::default()).await;
    });
}

fn content_type(response: &Response) -> String {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().trim().to_ascii_lowercase()
}
