//! The rule in plain words: whose runs are next.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering as Order};

use uuid::Uuid;

/// A tenant.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) id: Uuid,
    pub(super) weight: i64,
    pub(super) max: Option<i64>,
    pub(super) suspended: bool,
}

/// A run's place in the queue. Times are seconds from now.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    pub(super) owner: Uuid,
    pub(super) id: Uuid,
    pub(super) ord: i64,
    pub(super) thread: Option<i32>,
    pub(super) key: Option<String>,
    pub(super) priority: i16,
    pub(super) wakes: Option<f64>,
    pub(super) expires: Option<f64>,
    pub(super) started: bool,
    pub(super) ended: bool,
    pub(super) urgent: bool,
    pub(super) needs: i16,
    pub(super) held: bool,
}

impl Queued {
    /// A run that waits for nothing but a place.
    pub(super) fn plain(owner: Uuid) -> Self {
        static ORD: AtomicI64 = AtomicI64::new(1);
        Self {
            owner,
            id: Uuid::now_v7(),
            ord: ORD.fetch_add(1, Order::Relaxed),
            thread: None,
            key: None,
            priority: 0,
            wakes: Some(-60.0),
            expires: None,
            started: false,
            ended: false,
            urgent: false,
            needs: 1,
            held: false,
        }
    }

    fn is_over(&self) -> bool {
        self.expires.is_some_and(|expires| expires <= 0.0)
    }

    fn is_pressing(&self) -> bool {
        self.urgent || self.is_over()
    }

    /// An earlier run of its thread or under its key isn't over.
    fn is_blocked(&self, all: &[Self]) -> bool {
        let earlier = |other: &&Self| other.owner == self.owner && other.ord < self.ord && !other.ended;
        !self.started
            && all.iter().filter(earlier).any(|other| {
                (self.thread.is_some() && other.thread == self.thread)
                    || (self.key.is_some() && other.key == self.key)
            })
    }

    fn is_due(&self, all: &[Self], understood: i16) -> bool {
        let its_time = self.urgent || self.wakes.is_some_and(|wakes| wakes <= 0.0);
        let is_free = self.is_pressing() || !self.is_blocked(all);
        its_time && is_free && !self.held && !self.ended && self.needs <= understood
    }

    /// Whether it may start where it is claimed.
    pub(super) fn may_start(&self, all: &[Self]) -> bool {
        self.started || (!self.urgent && !self.is_blocked(all))
    }

    /// Of one tenant, in the order in which they are taken.
    fn before(&self, other: &Self) -> Ordering {
        let time = |run: &Self| run.wakes.unwrap_or(f64::INFINITY);
        (other.is_pressing().cmp(&self.is_pressing()))
            .then(other.priority.cmp(&self.priority))
            .then(time(self).total_cmp(&time(other)))
            .then(self.ord.cmp(&other.ord))
    }
}

/// What a claim wants.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) limit: usize,
    pub(super) pressing: bool,
    pub(super) except: Vec<Uuid>,
    pub(super) understood: i16,
}

/// The runs that a server takes who has served nobody yet.
pub(super) fn next(owners: &[Owner], runs: &[Queued], wanted: &Wanted) -> BTreeSet<Uuid> {
    let mut candidates = Vec::new();
    for owner in owners.iter().filter(|owner| !owner.suspended && !wanted.except.contains(&owner.id)) {
        let own = || runs.iter().filter(|run| run.owner == owner.id);
        let held = own().filter(|run| run.held && !run.ended).count();
        let mut due: Vec<&Queued> = own().filter(|run| run.is_due(runs, wanted.understood)).collect();
        due.retain(|run| !wanted.pressing || run.is_pressing());
        due.sort_by(|a, b| a.before(b));
        for (run, place) in due.into_iter().zip(held + 1..) {
            let fits = owner.max.is_none_or(|max| i64::try_from(place).is_ok_and(|place| place <= max));
            if run.is_pressing() || fits {
                candidates.push((owner, run, place));
            }
        }
    }
    // A first place for everybody; then whoever has the fewest for its weight; then who has waited longest.
    candidates.sort_by(|(one, a, first), (other, b, second)| {
        let share = |owner: &Owner, place: usize| {
            if place > 1 { place as f64 / owner.weight as f64 } else { 0.0 }
        };
        let waits = |run: &Queued| run.wakes.unwrap_or(f64::INFINITY);
        (*first > 1)
            .cmp(&(*second > 1))
            .then(share(one, *first).total_cmp(&share(other, *second)))
            .then(waits(a).total_cmp(&waits(b)))
    });
    candidates.into_iter().take(wanted.limit).map(|(_, run, _)| run.id).collect()
}
