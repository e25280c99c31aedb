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

    /// Leaves out the time from `from` to `until`, as far as it has not been counted yet.
    pub fn rest(&mut self, from: Millis, until: Millis) {
        if let Some(since) = self.since.filter(|since| *since < until) {
            self.ran_ms = self.elapsed_ms(from.max(since));
            self.since = Some(until);
        }
    }

    /// When `limit_ms` will have passed, if it runs.
    pub fn due(self, limit_ms: u64) -> Option<Millis> {
        let left = i64::try_from(limit_ms.saturating_sub(self.ran_ms)).unwrap_or(i64::MAX);
        self.since.map(|since| since.saturating_add(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_is_left_out_once() {
        let mut clock = Clock { ran_ms: 10, since: Some(100) };
        clock.rest(150, 400);
        assert_eq!((clock, clock.elapsed_ms(420)), (Clock { ran_ms: 60, since: Some(400) }, 80));
        clock.rest(150, 400);
        assert_eq!(clock.elapsed_ms(420), 80);
        // It began to run in the midst of another one.
        clock.rest(390, 500);
        assert_eq!(clock.elapsed_ms(510), 70);
    }

    #[test]
    fn a_clock_that_stands_knows_no_rest() {
        let mut clock = Clock { ran_ms: 10, since: None };
        clock.rest(0, 400);
        assert_eq!(clock.elapsed_ms(500), 10);
    }
}
