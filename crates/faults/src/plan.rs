//! What this process was told to suffer.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Guard, Point};

/// Faults of one process.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    deaths: Vec<Death>,
    without: Vec<String>,
}

/// A point to die at.
#[derive(Debug)]
struct Death {
    place: String,
    detail: Option<String>,
    passings: AtomicU64,
    at: u64,
}

/// The plan in this process's environment.
pub(crate) fn of_this_process() -> &'static Plan {
    static PLAN: OnceLock<Plan> = OnceLock::new();
    PLAN.get_or_init(|| {
        let read = |name| std::env::var(name).unwrap_or_default();
        Plan::parse(&read("ANSWERABLE_FAULT_CRASH"), &read("ANSWERABLE_FAULT_WITHOUT"))
    })
}

impl Plan {
    fn parse(crash: &str, without: &str) -> Self {
        let parts = |text: &str| {
            text.split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        Self { deaths: parts(crash).iter().map(|part| Death::parse(part)).collect(), without: parts(without) }
    }

    pub(crate) fn without(&self, guard: Guard) -> bool {
        self.without.iter().any(|name| name == guard.name())
    }

    pub(crate) fn pass(&self, point: Point, side: &str, detail: &str) {
        if self.deaths.iter().any(|death| death.is_due(point, side, detail)) {
            die();
        }
    }
}

impl Death {
    /// `PLACE[@DETAIL][:N]`.
    fn parse(text: &str) -> Self {
        let (rest, at) = match text.rsplit_once(':') {
            Some((rest, at)) => (rest, at.parse().unwrap_or(1)),
            None => (text, 1),
        };
        let (place, detail) = match rest.split_once('@') {
            Some((place, detail)) => (place, Some(detail.to_owned())),
            None => (rest, None),
        };
        Self { place: place.to_owned(), detail, passings: AtomicU64::new(0), at }
    }

    /// Counts a passing; true at the one that it was told.
    fn is_due(&self, point: Point, side: &str, detail: &str) -> bool {
        let here = self.place.split_once('.') == Some((point.name(), side))
            && self.detail.as_deref().is_none_or(|wanted| wanted == detail);
        here && self.passings.fetch_add(1, Ordering::Relaxed) + 1 == self.at
    }
}

/// Ends as a power cut would: no destructor runs, no buffer is flushed.
fn die() {
    // Can't fail for the own process; if it did, the test would see that nobody died.
    let _ = nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_waits_for_its_passing_and_its_detail() {
        let plan = Plan::parse("commit.after:3, effect.before@poison", "fence");
        let due = |point, side, detail| plan.deaths.iter().any(|death| death.is_due(point, side, detail));
        assert!(!due(Point::Commit, "before", ""));
        assert_eq!([(); 4].map(|()| due(Point::Commit, "after", "")), [false, false, true, false]);
        assert!(!due(Point::Effect, "before", "pay"));
        assert!(due(Point::Effect, "before", "poison"));
        assert!(plan.without(Guard::Fence) && !plan.without(Guard::ClaimLock));
    }
}
