//! Whether something answers: told when it changes, not at each try.

use std::time::{Duration, Instant};

/// The first pause after a failure.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause of our own.
const LONGEST: Duration = Duration::from_secs(30);
/// The longest that somebody may ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(120);

/// What is known of the other side.
#[derive(Debug, Default)]
pub(crate) struct Health {
    away: Option<Away>,
}

#[derive(Debug)]
struct Away {
    since: Instant,
    tries: u32,
}

impl Health {
    /// A try failed; `true`: it is the first.
    pub(crate) fn failed(&mut self) -> bool {
        self.failed_at(Instant::now())
    }

    fn failed_at(&mut self, now: Instant) -> bool {
        let away = self.away.get_or_insert(Away { since: now, tries: 0 });
        away.tries = away.tries.saturating_add(1);
        away.tries == 1
    }

    /// A try went well; gives for how long none did, if it was away.
    pub(crate) fn worked(&mut self) -> Option<Duration> {
        self.worked_at(Instant::now())
    }

    fn worked_at(&mut self, now: Instant) -> Option<Duration> {
        self.away.take().map(|away| now.duration_since(away.since))
    }

    /// The pause before the next try: it doubles with each failure. `spread` in 0.0..1.0 moves it by up to a quarter either
    /// way.
    pub(crate) fn pause(&self, asked: Option<Duration>, spread: f64) -> Duration {
        let tries = self.away.as_ref().map_or(0, |away| away.tries.saturating_sub(1));
        let own =
            FIRST.saturating_mul(1 << tries.min(5)).min(LONGEST).mul_f64(0.75 + 0.5 * spread.clamp(0.0, 1.0));
        asked.map_or(own, |asked| asked.min(LONGEST_ASKED).max(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_once() {
        let (mut health, begin) = (Health::default(), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(health.worked(), None);
        assert_eq!([0, 2, 4].map(|seconds| health.failed_at(after(seconds))), [true, false, false]);
        assert_eq!(health.worked_at(after(7)), Some(Duration::from_secs(7)));
        assert_eq!(health.worked(), None);
        assert!(health.failed());
    }

    #[test]
    fn pauses_double_up_to_half_a_minute() {
        let mut health = Health::default();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            health.failed();
            pauses.push(health.pause(None, 0.5).as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
        health.worked();
        health.failed();
        assert_eq!(health.pause(None, 0.0), Duration::from_millis(750));
        assert_eq!(health.pause(None, 1.0), Duration::from_millis(1250));
    }

    #[test]
    fn a_collector_may_ask_for_more_but_not_for_ever() {
        let mut health = Health::default();
        health.failed();
        let asked = |seconds| health.pause(Some(Duration::from_secs(seconds)), 0.5).as_secs();
        assert_eq!((asked(0), asked(50), asked(86_400)), (1, 50, 120));
    }
}
