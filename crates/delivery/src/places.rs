//! Places for tries that are out at once, so that endpoints that don't answer never take them all.

use std::sync::Arc;

use answerable_store::{Health, PlacesLeft};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Limits;

/// The places of this server. Half of them are for endpoints of which nobody knows how they are, a quarter for those that
/// fail; the last quarter is always there for those that answer.
pub(crate) struct Places {
    all: Arc<Semaphore>,
    new: Arc<Semaphore>,
    failing: Arc<Semaphore>,
    each: i64,
    of_tenant: i64,
}

/// A place that a try has; dropped, it is free again.
pub(crate) struct Place(#[expect(dead_code, reason = "held, not read")] Vec<OwnedSemaphorePermit>);

impl Places {
    pub(crate) fn of(limits: &Limits) -> Self {
        let places = |share: usize| Arc::new(Semaphore::new((limits.at_once / share).max(1)));
        Self {
            all: places(1),
            new: places(2),
            failing: places(4),
            each: limits.each,
            of_tenant: limits.of_tenant,
        }
    }

    /// What is left, if anything is.
    pub(crate) fn left(&self) -> Option<PlacesLeft> {
        let free = |places: &Semaphore| i64::try_from(places.available_permits()).unwrap_or(0);
        let left = PlacesLeft {
            all: free(&self.all),
            new: free(&self.new),
            failing: free(&self.failing),
            each: self.each,
            of_tenant: self.of_tenant,
        };
        (left.all > 0).then_some(left)
    }

    /// Takes a place for a try to such an endpoint. No more are taken than were left when deliveries were claimed for them.
    pub(crate) fn take(&self, health: Health) -> Place {
        let of_health = match health {
            Health::Answers => None,
            Health::New => Some(&self.new),
            Health::Fails => Some(&self.failing),
        };
        let taken = [Some(&self.all), of_health].into_iter().flatten();
        Place(taken.filter_map(|places| Arc::clone(places).try_acquire_owned().ok()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_is_kept_for_those_that_answer() {
        let places = Places::of(&Limits { at_once: 8, ..Limits::default() });
        let left = || places.left().map(|left| (left.all, left.new, left.failing));
        let new: Vec<Place> = (0..4).map(|_| places.take(Health::New)).collect();
        let failing: Vec<Place> = (0..2).map(|_| places.take(Health::Fails)).collect();
        assert_eq!(left(), Some((2, 0, 0)));
        let answering = [places.take(Health::Answers), places.take(Health::Answers)];
        assert_eq!(left(), None);
        drop(failing);
        assert_eq!(left(), Some((2, 0, 2)));
        drop((new, answering));
        assert_eq!(left(), Some((8, 4, 2)));
    }
}
