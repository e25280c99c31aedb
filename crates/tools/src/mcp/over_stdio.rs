//! The pipes of a process that the operator's configuration names.

mod process;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use secrecy::SecretString;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};

use super::ears::{Ears, Heard};
use super::failure::Failure;
use super::message::{self, RpcError};
use crate::mask::Mask;
use crate::sent::Sent;

/// A command that speaks the protocol over its pipes.
#[derive(Debug, Clone)]
pub struct StdioCommand {
    /// The program: a path, or a name that is looked for in `PATH`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment: these, and `PATH` where it isn't among them. Nothing else of the server's own.
    pub env: BTreeMap<String, SecretString>,
    /// The folder that it runs in; absent: the root.
    pub cwd: Option<PathBuf>,
}

/// Messages that wait to be written to one process.
const QUEUE: usize = 64;
/// A process that leaves so many requests in a row unheard is replaced.
const MOST_UNHEARD: u32 = 3;

/// A session over pipes.
#[derive(Debug)]
pub(super) struct OverStdio {
    lines: mpsc::Sender<Line>,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
}

/// A message on its way.
struct Line {
    text: String,
    sent: Sent,
}

type Outcome = Result<Box<RawValue>, RpcError>;

/// Who waits for what.
#[derive(Debug, Default)]
struct Waiting {
    by_id: HashMap<u64, oneshot::Sender<Outcome>>,
    /// Some requests went unanswered that nobody waits for any more.
    has_strays: bool,
}

impl Waiting {
    /// Who waits for the answer that bears this id. An error without one is for the only request that it can be for.
    fn take(&mut self, id: &Value, outcome: &Outcome) -> Option<oneshot::Sender<Outcome>> {
        if id.is_null() && outcome.is_err() && self.by_id.len() == 1 && !self.has_strays {
            return self.by_id.drain().next().map(|(_, waits)| waits);
        }
        let id = id.as_u64().or_else(|| id.as_str().and_then(|text| text.parse().ok()));
        self.by_id.remove(&id?)
    }
}

/// What those who ask and those who read know together.
#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    is_over: AtomicBool,
    /// Requests that went unheard since the last answer.
    unheard: AtomicU32,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No answer comes any more.
    fn end(&self) {
        let mut waiting = self.waiting();
        self.is_over.store(true, Ordering::Release);
        waiting.by_id.clear();
    }

    /// Hears a line of the process; what is to be sent back.
    fn hear(&self, line: &str, ears: &Ears) -> Vec<String> {
        let mut replies = Vec::new();
        for message in message::read(line).unwrap_or_default() {
            match ears.hear(message) {
                Heard::Answer(id, outcome) => {
                    self.unheard.store(0, Ordering::Release);
                    let waits = self.waiting().take(&id, &outcome);
                    if let Some(waits) = waits {
                        // Who asked may have gone.
                        let _ = waits.send(outcome);
                    }
                }
                Heard::Reply(text) => replies.push(text),
                Heard::Nothing => {}
            }
        }
        replies
    }
}

/// Nobody waits for this answer any more.
struct Awaited<'s> {
    shared: &'s Shared,
    id: u64,
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        let mut waiting = self.shared.waiting();
        waiting.has_strays |= waiting.by_id.remove(&self.id).is_some();
    }
}

impl OverStdio {
    /// Starts the command. `place` is given back when its processes are gone.
    pub(super) fn start(
        command: &StdioCommand,
        name: &str,
        mask: Mask,
        ears: Ears,
        place: Box<dyn Send + Sync>,
    ) -> Result<Self, Failure> {
        let (lines, queue) = mpsc::channel(QUEUE);
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(Shared::default());
        let parts =
            process::Parts { name: name.to_owned(), mask, ears, place, shared: Arc::clone(&shared), stopped };
        process::start(command, queue, lines.downgrade(), parts).map_err(|error| {
            // The operator's business, not the model's: it names files of this machine.
            tracing::warn!(server = name, %error, "an MCP server's command can't be started");
            Failure::NotSent("the server's command can't be started; nothing was sent".into())
        })?;
        Ok(Self { lines, shared, stop })
    }

    /// Asks, and waits for the answer.
    pub(super) async fn ask(
        &self,
        id: u64,
        text: String,
        deadline: Instant,
        sent: &Sent,
    ) -> Result<Box<RawValue>, Failure> {
        let (answer, answered) = oneshot::channel();
        {
            let mut waiting = self.shared.waiting();
            if self.is_over() {
                return Err(gone());
            }
            waiting.by_id.insert(id, answer);
        }
        let _awaited = Awaited { shared: &self.shared, id };
        let line = Line { text, sent: sent.clone() };
        match timeout_at(deadline, self.lines.send(line)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(gone()),
            Err(_) => {
                return Err(Failure::NotSent("the server takes no more messages; nothing was sent".into()));
            }
        }
        match timeout_at(deadline, answered).await {
            Ok(Ok(outcome)) => {
                outcome.map_err(|error| Failure::Rpc { code: error.code, message: error.message })
            }
            Ok(Err(_)) if sent.give_up() => Err(gone()),
            Ok(Err(_)) => Err(Failure::Cut),
            Err(_) if sent.give_up() => {
                Err(Failure::NotSent("the server takes no more messages; nothing was sent".into()))
            }
            Err(_) => Err(Failure::Late),
        }
    }

    /// Sends what has no answer.
    pub(super) async fn tell(&self, text: String, deadline: Instant) -> Result<(), Failure> {
        let line = Line { text, sent: Sent::default() };
        match timeout_at(deadline, self.lines.send(line)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(gone()),
        }
    }

    /// Whether the process is gone.
    pub(super) fn is_over(&self) -> bool {
        self.shared.is_over.load(Ordering::Acquire)
    }

    /// A request got no answer in its time.
    pub(super) fn note_unheard(&self) {
        self.shared.unheard.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether it has left so many requests unheard that nobody should ask it any more. Whoever waits still may.
    pub(super) fn is_stuck(&self) -> bool {
        self.shared.unheard.load(Ordering::Acquire) >= MOST_UNHEARD
    }

    /// Ends the process: its input first, then by force.
    pub(super) fn close(&self) {
        self.stop.send_replace(true);
    }
}

fn gone() -> Failure {
    Failure::NotSent("the server's process is gone; nothing was sent".into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_without_an_id_is_for_the_only_one_that_waits() {
        let error = r#"{"id":null,"error":{"code":-32700,"message":"what?"}}"#;
        let shared = Shared::default();
        let wait = |id: u64| {
            let (answer, answered) = oneshot::channel();
            shared.waiting().by_id.insert(id, answer);
            answered
        };
        let hear = |line: &str| shared.hear(line, &Ears::default());
        let (mut first, mut second) = (wait(1), wait(2));
        hear(error);
        assert!(first.try_recv().is_err() && second.try_recv().is_err(), "it may be for either");
        hear(r#"{"id":"1","result":{}}"#);
        hear(r#"{"id":null,"result":{}}"#);
        assert!(matches!(first.try_recv(), Ok(Ok(_))) && second.try_recv().is_err());
        hear(error);
        assert!(matches!(second.try_recv(), Ok(Err(error)) if error.code == -32700));
        // One that nobody waits for any more may be meant.
        let _gone = wait(3);
        drop(Awaited { shared: &shared, id: 3 });
        let mut fourth = wait(4);
        hear(error);
        assert!(fourth.try_recv().is_err());
        assert!(shared.waiting().take(&json!(4), &Ok(RawValue::NULL.to_owned())).is_some());
    }
}
