//! The time of a run that counts.

use serde::{Deserialize, Serialize};

use crate::Millis;

/// The time of a run that counts: working or queued, not waiting for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// Milliseconds before `since`.
    pub ran_ms: u64,
    /// It runs since then; `None`: it stands.
    pub since: Option<Millis>,
}

impl Clock {
    /// Milliseconds that count, up to `now`.
    pub fn elapsed_ms(self, now: Millis) -> u64 {
        let running = self.since.map_or(0, |since| u64::try_from(now - since).unwrap_or(0));
        self.ran_ms + running
    }

    /// Lets it stand.
    pub fn stop(&mut self, now: Millis) {
        *self = Self { ran_ms: self.elapsed_ms(now), since: None };
    }

    /// Lets it run.
    pub fn start(&mut self, now: Millis) {
        if self.since.is_none() {
            self.since = Some(now);
        }
    }

    /// When `limit_ms` will have passed, if it runs.
    pub fn due(self, limit_ms: u64) -> Option<Millis> {
        let left = i64::try_from(limit_ms.saturating_sub(self.ran_ms)).unwrap_or(i64::MAX);
        self.since.map(|since| since.saturating_add(left))
    }
}
