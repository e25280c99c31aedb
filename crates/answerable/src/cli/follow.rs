//! Following a run's events to its end, over as many connections as it takes.

use std::time::{Duration, Instant};

use reqwest::{Response, StatusCode};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::output::{complain, has_colors, say};
use super::remote::{Api, Refusal};
use super::sse::SseReader;
use crate::Failure;
use crate::timeline::Timeline;

/// The server says something every 15 s; a line silent for longer is dead.
const LONGEST_SILENCE: Duration = Duration::from_secs(45);
/// How long a server may be away, as while it is started again.
const LONGEST_ABSENCE: Duration = Duration::from_secs(120);
/// A stream that was open this long was in order, even if nothing happened in the run.
const STEADY: Duration = Duration::from_secs(5);
/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// Prints a run's events after `after` as they come, as JSON lines or as a timeline, until the run has ended.
/// Then prints its summary (or the Run as JSON) and returns the Run.
pub(crate) async fn follow(api: &Api, run_id: &str, after: u64, json: bool) -> Result<Value, Failure> {
    let mut follower =
        Follower { seen: after, json, timeline: Timeline::new(has_colors()), complained: false };
    let mut away_since: Option<Instant> = None;
    loop {
        let begun = Instant::now();
        let failure = match follower.attempt(api, run_id).await? {
            Attempt::Ended => break,
            Attempt::Cut { progress } if progress || begun.elapsed() > STEADY => None,
            Attempt::Cut { .. } => {
                Some(Failure::new("the server closes the stream of events again and again"))
            }
            Attempt::Refused(refusal) if !may_pass(&refusal) => return Err(refusal.into()),
            Attempt::Refused(refusal) => {
                follower.complain_once(&refusal);
                Some(refusal.into())
            }
        };
        match failure {
            None => away_since = None,
            Some(failure) if away_since.get_or_insert(begun).elapsed() > LONGEST_ABSENCE => {
                return Err(failure);
            }
            Some(_) => {}
        }
        sleep(PAUSE).await;
    }
    let run = api.get(&["v1", "runs", run_id]).await?;
    say(&if json { run.to_string() } else { follower.timeline.summary(&run) })?;
    Ok(run)
}

enum Attempt {
    Ended,
    Cut { progress: bool },
    Refused(Refusal),
}

struct Follower {
    /// Sequence number of the last event printed.
    seen: u64,
    json: bool,
    timeline: Timeline,
    /// Whether the user knows already that the server is away.
    complained: bool,
}

impl Follower {
    /// Follows over one connection until it ends.
    async fn attempt(&mut self, api: &Api, run_id: &str) -> Result<Attempt, Failure> {
        let mut response = match api.events(run_id, self.seen).await {
            Ok(None) => return Ok(Attempt::Ended),
            Ok(Some(response)) => response,
            Err(refusal) => return Ok(Attempt::Refused(refusal)),
        };
        let mut reader = SseReader::default();
        let mut progress = false;
        while let Some(chunk) = next_chunk(&mut response).await {
            let events =
                reader.feed(&chunk).map_err(|_| Failure::new("an event of the stream is too long"))?;
            for event in events {
                let event: Value = serde_json::from_str(&event.data)
                    .map_err(|e| Failure::new(format!("an event of the stream is no JSON: {e}")))?;
                progress = true;
                self.complained = false;
                if self.print(&event)? {
                    return Ok(Attempt::Ended);
                }
            }
        }
        Ok(Attempt::Cut { progress })
    }

    fn complain_once(&mut self, refusal: &Refusal) {
        if !std::mem::replace(&mut self.complained, true) {
            complain(&format!("answerable: {refusal}; waiting for it to come back"));
        }
    }

    /// Prints an event unless it was printed before; true if it is the run's last.
    fn print(&mut self, event: &Value) -> Result<bool, Failure> {
        if let Some(seq) = event.get("seq").and_then(Value::as_u64) {
            if seq <= self.seen {
                return Ok(false);
            }
            self.seen = seq;
        }
        if self.json {
            say(&event.to_string())?;
        } else if let Some(line) = self.timeline.line(event) {
            say(&line)?;
        }
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        Ok(matches!(kind, "run.finished" | "run.failed" | "run.cancelled"))
    }
}

async fn next_chunk(response: &mut Response) -> Option<Vec<u8>> {
    let chunk = timeout(LONGEST_SILENCE, response.chunk()).await.ok()?.ok()??;
    Some(chunk.to_vec())
}

/// Whether the same request may be answered later: no server, an overloaded one, one that is starting.
fn may_pass(refusal: &Refusal) -> bool {
    refusal.status.is_none_or(|status| status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS)
}
