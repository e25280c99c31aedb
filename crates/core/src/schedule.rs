//! Schedules: when a run of one is due next, and what becomes of a due time.
//!
//! [`cron`] reads the five fields and walks the calendar, [`clock`] says which moments those times of a zone's clock are.
//! All of it is pure: the same expression, zone and moment always give the same answer.

mod clock;
mod cron;
mod field;

use std::time::Duration;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use crate::FieldError;
use cron::Cron;

/// A due time that is further past than this when it is seen isn't made up for.
const GRACE: Duration = Duration::from_secs(60);
/// One that was seen in time has its turn within this, where much is due at once; then it isn't made up for either.
const LATEST: Duration = Duration::from_secs(15 * 60);

/// When something recurs: a cron expression, on the clock of a time zone.
///
/// Where clocks are put forward, a time that they skip is the moment at which they are; where they are put back, a time
/// that comes twice is the first of the two. But an expression whose hour is `*` goes by the time that passes: it neither
/// makes up for an hour that a clock skips, nor leaves one out that comes twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recurrence {
    cron: Cron,
    zone: Tz,
}

impl Recurrence {
    /// Reads an expression of five fields, or a name such as `@daily`, and the IANA name of a time zone.
    ///
    /// # Errors
    /// What is wrong, at `/cron` and `/timezone`.
    pub fn read(cron: &str, timezone: &str) -> Result<Self, Vec<FieldError>> {
        let cron = Cron::read(cron).map_err(|words| FieldError::new("/cron", words));
        let zone = timezone.parse::<Tz>().map_err(|_| {
            FieldError::new("/timezone", "is no name of an IANA time zone, as Europe/Berlin is")
        });
        match (cron, zone) {
            (Ok(cron), Ok(zone)) => Ok(Self { cron, zone }),
            (cron, zone) => Err(cron.err().into_iter().chain(zone.err()).collect()),
        }
    }

    /// The first moment after `after` at which it is due. `None`: time ends before.
    pub fn next_after(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        clock::next_after(&self.cron, self.zone, after)
    }
}

/// What becomes of a due time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// A run of it is due.
    Now,
    /// It was let pass; so is everything up to now.
    Missed,
}

impl Due {
    /// What becomes at `now` of what was due at `at`, and seen to be at `seen`.
    pub fn of(at: DateTime<Utc>, seen: DateTime<Utc>, now: DateTime<Utc>) -> Self {
        let is_over = |moment: DateTime<Utc>, most| (moment - at).to_std().is_ok_and(|late| late > most);
        if is_over(seen, GRACE) || is_over(now, LATEST) { Self::Missed } else { Self::Now }
    }

    /// After which moment the next due time is looked for.
    pub fn passes_until(self, at: DateTime<Utc>, now: DateTime<Utc>) -> DateTime<Utc> {
        match self {
            Self::Now => at,
            Self::Missed => now.max(at),
        }
    }
}

#[cfg(test)]
mod tests;
