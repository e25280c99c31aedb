//! The words of a reply between the stored events: after those that tell that the model was asked, before the one that
//! tells what came of it.

use std::time::Duration;

use answerable_store::{EventRecord, Hearing, Words};
use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::frame;

/// Words that come within this time after others are said together: a model may say a letter at a time.
const GATHER: Duration = Duration::from_millis(10);
/// Bytes of text in one event. A reader that is behind gets as many at once, and the run's board has no more than some of
/// these.
const AT_ONCE: usize = 16 << 10;

/// Age of a row whose attempt may have words under way.
const JUST_NOW: TimeDelta = TimeDelta::seconds(1);

/// An attempt on the model: its step and its number within that.
type Attempt = (u32, u32);

/// What a stream hears.
pub(super) struct Live {
    hearing: Hearing,
    /// Words that are next.
    held: Option<Words>,
    due_at: Instant,
    /// The newest of which it was said that it began.
    begun: Attempt,
    /// The newest of which it was said what came of it. Words of these come too late.
    over: Attempt,
}

/// The data of a `model.delta`.
#[derive(Serialize)]
struct ModelDelta<'w> {
    text: &'w str,
    step: u32,
    attempt: u32,
    offset: u64,
}

impl Live {
    /// `seen`: the newest event about the model of those that the reader has.
    pub(super) fn new(hearing: Hearing, seen: Option<&EventRecord>) -> Self {
        let mut live = Self { hearing, held: None, due_at: Instant::now(), begun: (0, 0), over: (0, 0) };
        if let Some(row) = seen {
            live.said(row);
        }
        live
    }

    /// Returns when there are words to say. May be dropped and called again.
    pub(super) async fn due(&mut self) {
        sleep_until(self.due_at).await;
        if self.held.is_none() {
            self.hearing.more().await;
        }
    }

    /// Nothing is due for a moment.
    pub(super) fn pause(&mut self) {
        self.due_at = Instant::now() + GATHER;
    }

    /// Whether the stream has told that the reply is asked for whose words are next.
    pub(super) fn is_begun(&mut self) -> bool {
        self.held = self.next();
        self.held.as_ref().is_none_or(|words| attempt(words) <= self.begun)
    }

    /// The next words as an event.
    pub(super) fn take(&mut self) -> Option<String> {
        let words = self.next()?;
        // Whoever is far behind needn't wait for more.
        if words.text.len() < AT_ONCE / 2 {
            self.pause();
        }
        self.frame(&words)
    }

    /// Waits for the last words of an attempt that ended just now: from another server they may come a moment later than
    /// the row can be read.
    pub(super) async fn last_words(&mut self, row: &EventRecord, now: DateTime<Utc>, until: Instant) {
        if let Some((step, attempt)) = outcome(row).filter(|_| now - row.at < JUST_NOW) {
            // If they don't, they are lost.
            let _ = timeout_at(until, self.hearing.whole(step, attempt)).await;
        }
    }

    /// The row is said next: what must be said before it.
    pub(super) fn before(&mut self, row: &EventRecord) -> String {
        let mut frames = String::new();
        if let Some(outcome) = outcome(row) {
            while let Some(words) = self.next() {
                if attempt(&words) > outcome {
                    // They stay until the row was said that tells of their beginning.
                    self.held = Some(words);
                    break;
                }
                frames.extend(self.frame(&words));
            }
        }
        self.said(row);
        frames
    }

    fn next(&mut self) -> Option<Words> {
        self.held.take().or_else(|| self.hearing.take(AT_ONCE))
    }

    /// `None`: there are none, or they come too late.
    fn frame(&mut self, words: &Words) -> Option<String> {
        let (step, attempt) = attempt(words);
        if words.text.is_empty() || (step, attempt) <= self.over {
            return None;
        }
        self.begun = self.begun.max((step, attempt));
        let delta = ModelDelta { text: &words.text, step, attempt, offset: words.offset };
        Some(frame("model.delta", None, &serde_json::to_string(&delta).ok()?))
    }

    fn said(&mut self, row: &EventRecord) {
        match (row.kind.as_str(), outcome(row)) {
            ("model.started", _) => {
                let step = step(row);
                self.begun = self.begun.max((step, 1));
                self.over = self.over.max((step, 0));
            }
            (kind, Some((step, attempt))) => {
                self.over = self.over.max((step, attempt));
                if kind == "model.failed" {
                    self.begun = self.begun.max((step, attempt + 1));
                }
            }
            _ => {}
        }
    }
}

fn attempt(words: &Words) -> Attempt {
    (words.reply.step, words.reply.attempt)
}

fn step(row: &EventRecord) -> u32 {
    row.step.and_then(|step| u32::try_from(step).ok()).unwrap_or(0)
}

/// The attempt whose end a row tells of.
fn outcome(row: &EventRecord) -> Option<Attempt> {
    let ends = matches!(row.kind.as_str(), "model.completed" | "model.failed");
    let number = row.data.get("attempt").filter(|_| ends)?.as_u64()?;
    Some((step(row), u32::try_from(number).ok()?))
}

#[cfg(test)]
mod tests {
    use answerable_core::id::RunId;
    use answerable_store::{Reply, Signals, Speaker};
    use chrono::Utc;
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;

    const RUN: RunId = RunId(Uuid::from_u128(1));

    fn row(kind: &str, step: i32, data: Value) -> EventRecord {
        EventRecord {
            seq: 1,
            event_id: Uuid::nil(),
            kind: kind.into(),
            step: Some(step),
            data,
            at: Utc::now(),
        }
    }

    fn speaker(signals: &Signals, step: u32, attempt: u32) -> Speaker {
        signals.speaker(RUN, Reply { epoch: 1, step, attempt })
    }

    fn delta(text: &str, step: u32, attempt: u32, offset: u64) -> String {
        format!(
            "event: model.delta\ndata: {{\"text\":\"{text}\",\"step\":{step},\"attempt\":{attempt},\"offset\":{offset}}}\n\n"
        )
    }

    #[test]
    fn words_stand_between_the_rows_that_tell_of_their_reply() {
        let signals = Signals::new().0;
        let mut live = Live::new(signals.hear(RUN), None);
        speaker(&signals, 1, 1).say("Hel");
        assert!(!live.is_begun());
        assert_eq!(live.before(&row("model.started", 1, json!({}))), "");
        assert!(live.is_begun());
        assert_eq!(live.take(), Some(delta("Hel", 1, 1, 0)));
        speaker(&signals, 1, 1).say("lo");
        assert_eq!(live.before(&row("context.built", 1, json!({}))), "");
        assert_eq!(live.before(&row("model.failed", 1, json!({"attempt": 1}))), delta("lo", 1, 1, 3));
        assert_eq!(live.take(), None);
        speaker(&signals, 1, 2).say("Good day");
        assert!(live.is_begun());
        assert_eq!(
            live.before(&row("model.completed", 1, json!({"attempt": 2}))),
            delta("Good day", 1, 2, 0)
        );
    }

    #[test]
    fn words_of_a_later_attempt_wait_for_its_row_and_late_ones_are_not_said() {
        let signals = Signals::new().0;
        let mut live = Live::new(signals.hear(RUN), Some(&row("model.started", 1, json!({}))));
        speaker(&signals, 2, 1).say("two");
        assert!(!live.is_begun());
        assert_eq!(live.before(&row("model.completed", 1, json!({"attempt": 1}))), "");
        assert!(!live.is_begun());
        assert_eq!(live.before(&row("model.started", 2, json!({}))), "");
        assert_eq!(live.take(), Some(delta("two", 2, 1, 0)));
        assert_eq!(live.before(&row("model.completed", 2, json!({"attempt": 1}))), "");
        speaker(&signals, 2, 1).say("!");
        assert_eq!(live.take(), None);
    }

    #[test]
    fn a_resumed_stream_says_nothing_of_a_reply_that_is_over() {
        let signals = Signals::new().0;
        let speaker = speaker(&signals, 3, 2);
        speaker.say("over");
        let seen = row("model.completed", 3, json!({"attempt": 2}));
        assert_eq!(Live::new(signals.hear(RUN), Some(&seen)).take(), None);
        // One that is not over begins with what was said so far.
        let seen = row("model.failed", 3, json!({"attempt": 1}));
        let mut live = Live::new(signals.hear(RUN), Some(&seen));
        assert!(live.is_begun());
        assert_eq!(live.take(), Some(delta("over", 3, 2, 0)));
    }
}
