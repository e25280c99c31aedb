//! Runs that are being taken up: claimed, and not yet where they wait for a model or a tool. A server claims no faster than it
//! can take up, so that what waits in the queue can still be put in order, and keeps no tenant's runs waiting because another's
//! take long.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use answerable_core::id::TenantId;
use tokio::sync::Notify;

/// Runs of one tenant that are taken up at once, where that goes quickly; and where it doesn't, since more of them would only
/// wait for each other, and whoever comes next for all of them.
const MOST: usize = 16;
const LEAST: usize = 4;
/// Runs of all tenants, for each that one may have.
const TENANTS: usize = 2;
/// A run that took so long came too slowly.
const SLOW: Duration = Duration::from_millis(150);
/// And one that took no longer came quickly.
const QUICK: Duration = Duration::from_millis(75);
/// After this a run takes no room from other tenants' any more: it waits for something of its own tenant's.
const STUCK: Duration = Duration::from_secs(1);

/// Those that are being taken up.
#[derive(Debug)]
pub(crate) struct Starting {
    now: Mutex<Now>,
    freed: Notify,
}

#[derive(Debug)]
struct Now {
    /// When each of a tenant's began, in order.
    tenants: HashMap<TenantId, VecDeque<Instant>>,
    /// So many of one tenant, as it goes now.
    each: usize,
    /// The last claim left out some that may be due.
    left_out: bool,
}

/// One of them. Dropped, it is one no more.
#[derive(Debug)]
pub(crate) struct Start {
    among: Arc<Starting>,
    tenant: TenantId,
    began: Instant,
}

impl Default for Starting {
    fn default() -> Self {
        Self { now: Mutex::new(Now::of(LEAST)), freed: Notify::new() }
    }
}

impl Starting {
    /// For a claim where there are so many places: how many more may be taken up, and the tenants that have their part already.
    /// What is pressing is over soon, and waits for none of those that are being taken up.
    pub(crate) fn room(&self, places: usize, pressing: bool) -> (usize, Vec<TenantId>) {
        if pressing {
            return (places, Vec::new());
        }
        let (room, full) = self.lock().room(Instant::now());
        (room.min(places), full)
    }

    /// One more. There may be too many for a while: what a dead server left doesn't wait.
    pub(crate) fn begin(self: &Arc<Self>, tenant: TenantId) -> Start {
        let mut now = self.lock();
        let began = Instant::now();
        now.begun(tenant, began);
        drop(now);
        Start { among: Arc::clone(self), tenant, began }
    }

    /// Returns when there is room for some that were left out.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Now {
    fn of(each: usize) -> Self {
        Self { tenants: HashMap::new(), each, left_out: false }
    }

    fn begun(&mut self, tenant: TenantId, at: Instant) {
        self.tenants.entry(tenant).or_default().push_back(at);
    }

    /// Those that take room from others.
    fn all(&self, at: Instant) -> usize {
        let counts = |began: &&Instant| at.saturating_duration_since(**began) < STUCK;
        self.tenants.values().map(|own| own.iter().rev().take_while(counts).count()).sum()
    }

    fn room(&mut self, at: Instant) -> (usize, Vec<TenantId>) {
        let full = self.tenants.iter().filter(|(_, own)| own.len() >= self.each).map(|(tenant, _)| *tenant);
        let (full, room) = (full.collect::<Vec<_>>(), (self.each * TENANTS).saturating_sub(self.all(at)));
        self.left_out = room == 0 || !full.is_empty();
        (room, full)
    }

    /// One of the tenant's that began then is taken up. Whether it is time to claim some that were left out: one tenant's come
    /// in twos and more, for each claim holds up those of other servers.
    fn ended(&mut self, tenant: TenantId, began: Instant, at: Instant) -> bool {
        let was_full = self.all(at) >= self.each * TENANTS;
        let left = self.tenants.get_mut(&tenant).map_or(0, |own| {
            if let Some(place) = own.iter().position(|other| *other == began) {
                own.remove(place);
            }
            own.len()
        });
        if left == 0 {
            self.tenants.remove(&tenant);
        }
        let took = at.saturating_duration_since(began);
        if took > SLOW {
            self.each = (self.each - 1).max(LEAST);
        } else if took <= QUICK && self.left_out {
            self.each = (self.each + 1).min(MOST);
        }
        let is_time = self.left_out && (was_full || left <= self.each / 2);
        self.left_out &= !is_time;
        is_time
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        let is_time = self.among.lock().ended(self.tenant, self.began, Instant::now());
        if is_time {
            self.among.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use uuid::Uuid;

    use super::*;

    const ALL: usize = LEAST * TENANTS;

    fn tenant(number: u128) -> TenantId {
        TenantId(Uuid::from_u128(number))
    }

    #[test]
    fn one_tenant_has_half_and_all_have_all() {
        let starting = Arc::new(Starting::default());
        let [a, b] = [tenant(1), tenant(2)];
        let mut begun: Vec<Start> = (0..LEAST - 1).map(|_| starting.begin(a)).collect();
        assert_eq!(starting.room(99, false), (ALL - LEAST + 1, Vec::new()));
        begun.push(starting.begin(a));
        assert_eq!(starting.room(99, false), (ALL - LEAST, vec![a]));
        assert_eq!(starting.room(1, false), (1, vec![a]));
        let others: Vec<Start> = (0..LEAST).map(|_| starting.begin(b)).collect();
        assert_eq!(starting.room(99, false).0, 0);
        assert_eq!(starting.room(9, true), (9, Vec::new()), "what is pressing");
        assert!(starting.freed().now_or_never().is_none());
        begun.pop();
        assert!(starting.freed().now_or_never().is_some(), "anybody may wait for this");
        drop((begun, others));
        let (room, full) = starting.room(99, false);
        assert!(room >= ALL && full.is_empty());
    }

    #[test]
    fn one_tenants_come_in_twos() {
        let starting = Arc::new(Starting::default());
        let mut begun: Vec<Start> = (0..LEAST).map(|_| starting.begin(tenant(1))).collect();
        assert_eq!(starting.room(99, false).1, [tenant(1)]);
        begun.pop();
        assert!(starting.freed().now_or_never().is_none());
        begun.pop();
        assert!(starting.freed().now_or_never().is_some());
        drop(begun);
        assert!(starting.freed().now_or_never().is_none(), "it has been told");
    }

    #[test]
    fn nobody_is_told_who_left_nobody_out() {
        let starting = Arc::new(Starting::default());
        starting.room(99, false);
        drop(starting.begin(tenant(1)));
        assert!(starting.freed().now_or_never().is_none());
    }

    #[test]
    fn what_is_stuck_takes_room_from_nobody_else() {
        let [a, b, c] = [tenant(1), tenant(2), tenant(3)];
        let began = Instant::now();
        let mut now = Now::of(LEAST);
        for stuck in [a, b] {
            (0..LEAST).for_each(|_| now.begun(stuck, began));
        }
        assert_eq!(now.room(began).0, 0);
        assert_eq!(now.room(began + STUCK - Duration::from_millis(1)).0, 0);
        let later = began + STUCK;
        let (room, mut full) = now.room(later);
        full.sort();
        assert_eq!((room, full), (ALL, vec![a, b]), "they have no more of their own");
        now.begun(c, later);
        assert_eq!(now.room(later).0, ALL - 1);
        now.ended(a, began, later + STUCK);
        assert_eq!(now.room(later), (ALL - 1, vec![b]));
    }

    #[test]
    fn more_are_taken_up_where_it_goes_quickly_and_fewer_where_it_does_not() {
        let began = Instant::now();
        let mut now = Now::of(LEAST);
        let mut one_takes = |took| {
            now.left_out = true;
            now.ended(tenant(1), began, began + took);
            now.each
        };
        assert_eq!((0..100).map(|_| one_takes(QUICK)).last(), Some(MOST));
        assert_eq!(one_takes((QUICK + SLOW) / 2), MOST, "neither quick nor slow");
        assert_eq!((0..100).map(|_| one_takes(SLOW * 2)).last(), Some(LEAST));
        let mut idle = Now::of(LEAST);
        assert!(!idle.ended(tenant(1), began, began + QUICK));
        assert_eq!(idle.each, LEAST, "nobody was left out for want of room");
    }
}
