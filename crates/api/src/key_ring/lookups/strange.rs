//! Whether somebody makes ids up.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// For so long it is counted; then anew.
const COUNTED: Duration = Duration::from_secs(5);
/// So many may be missing at any time: keys that were deleted are still in use here and there.
const FEW: u64 = 16;
/// And one for so many that are found.
const ONE_OF: u64 = 4;

/// What became of ids that nobody had seen.
#[derive(Debug, Default)]
pub(super) struct Strange(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    began: Option<Instant>,
    found: u64,
    missing: u64,
}

impl Strange {
    /// Notes that one was found, or is missing.
    pub(super) fn note(&self, is_found: bool, now: Instant) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.began.is_none_or(|began| now.duration_since(began) >= COUNTED) {
            *counts = Counts { began: Some(now), ..Counts::default() };
        }
        if is_found {
            counts.found += 1;
        } else {
            counts.missing += 1;
        }
    }

    /// Whether so many are missing that they are not all mistakes.
    pub(super) fn are_made_up(&self, now: Instant) -> bool {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = counts.began.is_some_and(|began| now.duration_since(began) < 2 * COUNTED);
        is_recent && counts.missing > FEW.max(counts.found / ONE_OF)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_may_be_missing_and_more_where_many_are_found() {
        let (strange, now) = (Strange::default(), Instant::now());
        let note = |is_found: bool, many: u64| (0..many).for_each(|_| strange.note(is_found, now));
        note(false, FEW);
        assert!(!strange.are_made_up(now));
        note(false, 1);
        assert!(strange.are_made_up(now));
        note(true, ONE_OF * (FEW + 1));
        assert!(!strange.are_made_up(now));
        note(false, 1);
        assert!(strange.are_made_up(now) && !strange.are_made_up(now + 2 * COUNTED));
        strange.note(false, now + COUNTED);
        assert!(!strange.are_made_up(now + COUNTED), "counted anew");
    }
}
