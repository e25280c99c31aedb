//! What a server knows of a tenant's minute.

use std::time::Duration;

use answerable_store::{RequestsTaken, RequestsUnused};
use chrono::{DateTime, Utc};
use tokio::time::Instant;

use super::Counted;
use crate::held::Left;

/// A server keeps what it took for so long, and asks no sooner again when there was nothing left.
pub(super) const KEPT: Duration = Duration::from_secs(1);
/// Nor after a question that failed: whoever waits for the answer to the next one is told now.
const FAILS: Duration = Duration::from_secs(1);

/// What a server knows of a tenant's minute.
#[derive(Debug, Default)]
pub(super) struct Minute {
    most: u64,
    /// Requests that it may answer without asking, until then.
    pub(super) own: u64,
    pub(super) kept_until: Option<Instant>,
    /// Those that were left to all servers when it asked last.
    others: u64,
    /// The minute, by its beginning, and when it ends by this server's clock.
    began: Option<DateTime<Utc>>,
    ends: Option<Instant>,
    /// The database was asked in vain, and isn't asked again until then.
    fails_until: Option<Instant>,
}

impl Minute {
    pub(super) fn is_on(&self, now: Instant) -> bool {
        self.ends.is_some_and(|ends| now < ends)
    }

    /// Counts a request, if that can be told without asking.
    pub(super) fn spend(&mut self, most: u64, now: Instant) -> Option<Counted> {
        let is_known =
            self.most == most && self.is_on(now) && self.kept_until.is_some_and(|until| now < until);
        if !is_known {
            return None;
        }
        match (self.own, self.others) {
            (0, 0) => Some(Counted::Beyond(self.left(now))),
            (0, _) => None,
            _ => {
                self.own -= 1;
                Some(Counted::Within(self.left(now)))
            }
        }
    }

    /// Whether it was just asked for in vain.
    pub(super) fn is_failing(&self, now: Instant) -> bool {
        self.fails_until.is_some_and(|until| now < until)
    }

    /// Notes that it was asked for in vain.
    pub(super) fn fail(&mut self, now: Instant) {
        self.fails_until = Some(now + FAILS);
    }

    pub(super) fn left(&self, now: Instant) -> Left {
        let ends_in = self.ends.map_or(Duration::ZERO, |ends| ends.saturating_duration_since(now));
        Left { limit: self.most, remaining: self.own.saturating_add(self.others), ends_in }
    }

    /// What was taken and not needed; it is no longer this server's.
    pub(super) fn unused(&mut self) -> Option<RequestsUnused> {
        let count = std::mem::take(&mut self.own);
        self.began.filter(|_| count > 0).map(|began| RequestsUnused { count, began })
    }

    /// Notes what was taken, by a question of `asked`: by the clock here, the minute ends no later than by the database's.
    pub(super) fn put(&mut self, most: u64, taken: &RequestsTaken, asked: Instant) {
        *self = Self {
            most,
            own: taken.granted,
            kept_until: Some(asked + KEPT),
            others: taken.remaining,
            began: Some(taken.began),
            ends: Some(asked + taken.ends_in),
            fails_until: None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(granted: u64, remaining: u64) -> RequestsTaken {
        RequestsTaken { granted, remaining, began: DateTime::UNIX_EPOCH, ends_in: Duration::from_secs(40) }
    }

    fn left(remaining: u64, seconds: u64) -> Left {
        Left { limit: 600, remaining, ends_in: Duration::from_secs(seconds) }
    }

    #[test]
    fn what_was_taken_is_spent_without_asking_for_a_second() {
        let (mut minute, now) = (Minute::default(), Instant::now());
        assert_eq!(minute.spend(600, now), None);
        minute.put(600, &taken(2, 90), now);
        assert_eq!(minute.spend(600, now), Some(Counted::Within(left(91, 40))));
        assert_eq!(minute.spend(600, now + KEPT), None, "it is to be given back");
        assert_eq!(minute.spend(601, now), None, "by another limit");
        let unused = RequestsUnused { count: 1, began: DateTime::UNIX_EPOCH };
        assert_eq!((minute.unused(), minute.unused()), (Some(unused), None));
        assert_eq!(minute.spend(600, now), None);
    }

    #[test]
    fn who_was_refused_is_refused_for_a_second_or_until_the_minute_ends() {
        let (mut minute, now) = (Minute::default(), Instant::now());
        minute.put(600, &taken(0, 0), now);
        let beyond = |seconds| Some(Counted::Beyond(left(0, seconds)));
        assert_eq!(minute.spend(600, now), beyond(40));
        assert_eq!(minute.spend(600, now + KEPT), None, "another server may have given some back");
        let ending = RequestsTaken { ends_in: KEPT / 2, ..taken(0, 0) };
        minute.put(600, &ending, now);
        assert!(minute.spend(600, now + KEPT / 4).is_some());
        assert_eq!(minute.spend(600, now + KEPT / 2), None);
    }
}
