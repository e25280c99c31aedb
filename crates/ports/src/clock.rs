//! The time of the database, which all servers share. A server whose own clock is wrong must not end runs before their
//! time, or hold them back; so it asks the database now and then, and counts on by a clock that never jumps.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use answerable_core::Millis;
use chrono::{DateTime, Utc};

/// What was heard is good for so long.
const FRESH_FOR: Duration = Duration::from_secs(2);
/// An answer that took longer says too little.
const PATIENCE: Duration = Duration::from_secs(1);
/// Differences up to this are the line's, not the clock's.
const TOLERANCE_MS: i64 = 20;
/// Greater ones mean that the database's clock was set.
const STEP_MS: i64 = 500;

/// The database's time, as far as it is known here. Clones share what they know. Until the database was asked it is this
/// machine's.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Known>);

#[derive(Debug)]
struct Known {
    began: Instant,
    /// The database's time at `began`.
    at_beginning: AtomicI64,
    /// When it was heard of last, in ms since `began`; 0: never.
    heard: AtomicU64,
    /// When it was found to have been set, in ms since `began`; 0: never.
    set: AtomicU64,
}

impl Default for Clock {
    fn default() -> Self {
        Self(Arc::new(Known {
            began: Instant::now(),
            at_beginning: AtomicI64::new(Utc::now().timestamp_millis()),
            heard: AtomicU64::new(0),
            set: AtomicU64::new(0),
        }))
    }
}

impl Clock {
    /// Milliseconds since the Unix epoch.
    pub fn now(&self) -> Millis {
        self.0.at_beginning.load(Ordering::Relaxed) + self.passed()
    }

    /// The same as a date.
    pub fn utc(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.now()).unwrap_or_default()
    }

    /// Whether the database should be asked again.
    pub fn is_stale(&self) -> bool {
        let heard = self.0.heard.load(Ordering::Relaxed);
        heard == 0 || self.0.began.elapsed().saturating_sub(Duration::from_millis(heard)) >= FRESH_FOR
    }

    /// The database said `time` to a question that was asked at `asked`.
    pub fn heard(&self, time: Millis, asked: Instant) {
        let took = asked.elapsed();
        if took > PATIENCE {
            return;
        }
        // It was said somewhere between the question and now.
        let half_ms = i64::try_from(took.as_millis() / 2).unwrap_or(0);
        let estimate = time + half_ms;
        let off = (estimate - self.now()).abs();
        if off > half_ms + TOLERANCE_MS {
            self.0.at_beginning.store(estimate - self.passed(), Ordering::Relaxed);
        }
        let now = u64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        let was_heard = self.0.heard.swap(now, Ordering::Relaxed) > 0;
        if was_heard && off > half_ms + STEP_MS {
            self.0.set.store(now, Ordering::Relaxed);
        }
    }

    /// Whether the database's clock was not set within this time: if it was, leases seem to be over that are not, until
    /// whoever lives has renewed them.
    pub fn is_steady_for(&self, time: Duration) -> bool {
        let set = self.0.set.load(Ordering::Relaxed);
        set == 0 || self.0.began.elapsed().saturating_sub(Duration::from_millis(set)) >= time
    }

    fn passed(&self) -> i64 {
        i64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_by_what_the_database_says_and_counts_on() {
        let clock = Clock::default();
        assert!(clock.is_stale(), "it was never told");
        let hour = 3_600_000;
        let own = clock.now();
        clock.heard(own + hour, Instant::now());
        assert!((clock.now() - own - hour).abs() < 1_000, "an hour ahead of its own");
        assert!(!clock.is_stale());
        let before = clock.now();
        clock.heard(before + TOLERANCE_MS / 2, Instant::now());
        assert!(clock.now() - before < TOLERANCE_MS / 2, "a difference of the line moves nothing");
        let long_ago = Instant::now().checked_sub(PATIENCE * 2).expect("a machine that runs for two seconds");
        clock.heard(before - hour, long_ago);
        assert!(clock.now() >= before, "an answer that took so long says nothing");
        assert!(clock.is_steady_for(Duration::from_secs(60)), "the first word is no step");
        clock.heard(before - hour, Instant::now());
        assert!(!clock.is_steady_for(Duration::from_secs(60)));
        assert!(clock.is_steady_for(Duration::ZERO));
        assert!(clock.now() < before, "the database's clock was set back");
    }
}
