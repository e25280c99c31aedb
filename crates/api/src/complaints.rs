//! Complaints that would come with every request are made now and then, and say how many were not made.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Least time between two complaints.
const EVERY: Duration = Duration::from_secs(10);

/// Says when a complaint is due.
#[derive(Debug, Default)]
pub(crate) struct Complaints(Mutex<Made>);

#[derive(Debug, Default)]
struct Made {
    last: Option<Instant>,
    unsaid: u64,
}

impl Complaints {
    /// `Some` if this one is to be made, with the number of those since the last that were not.
    pub(crate) fn due(&self) -> Option<u64> {
        self.due_at(Instant::now())
    }

    fn due_at(&self, now: Instant) -> Option<u64> {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if made.last.is_some_and(|last| now.duration_since(last) < EVERY) {
            made.unsaid += 1;
            return None;
        }
        made.last = Some(now);
        Some(std::mem::take(&mut made.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_while_tells_of_the_others() {
        let (complaints, now) = (Complaints::default(), Instant::now());
        assert_eq!(complaints.due_at(now), Some(0));
        assert_eq!(complaints.due_at(now), None);
        assert_eq!(complaints.due_at(now + EVERY / 2), None);
        assert_eq!(complaints.due_at(now + EVERY), Some(2));
        assert_eq!(complaints.due_at(now + EVERY * 2), Some(0));
    }
}
