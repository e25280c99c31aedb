//! Runs that are being taken up: claimed, and not yet where they wait for a model or a tool. A server claims no faster than it
//! can take up, so that what waits in the queue can still be put in order, and keeps no tenant's runs waiting because another's
//! take long.

use std::collections::HashMap;
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

/// Those that are being taken up.
#[derive(Debug)]
pub(crate) struct Starting {
    now: Mutex<Now>,
    freed: Notify,
}

#[derive(Debug)]
struct Now {
    tenants: HashMap<TenantId, usize>,
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
    /// For a claim: how many more may be taken up, and the tenants that have their part already.
    pub(crate) fn room(&self) -> (usize, Vec<TenantId>) {
        let mut now = self.lock();
        let full =
            now.tenants.iter().filter(|(_, starting)| **starting >= now.each).map(|(tenant, _)| *tenant);
        let (full, room) = (full.collect::<Vec<_>>(), (now.each * TENANTS).saturating_sub(now.all()));
        now.left_out = room == 0 || !full.is_empty();
        (room, full)
    }

    /// One more. There may be too many for a while: what a dead server left doesn't wait.
    pub(crate) fn begin(self: &Arc<Self>, tenant: TenantId) -> Start {
        *self.lock().tenants.entry(tenant).or_default() += 1;
        Start { among: Arc::clone(self), tenant, began: Instant::now() }
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

    fn all(&self) -> usize {
        self.tenants.values().sum()
    }

    /// One of the tenant's took so long. Whether it is time to claim some that were left out: one tenant's come in twos and
    /// more, for each claim holds up those of other servers.
    fn ended(&mut self, tenant: TenantId, took: Duration) -> bool {
        let was_full = self.all() >= self.each * TENANTS;
        let own = self.tenants.get(&tenant).map_or(0, |own| own.saturating_sub(1));
        match own {
            0 => drop(self.tenants.remove(&tenant)),
            _ => drop(self.tenants.insert(tenant, own)),
        }
        if took > SLOW {
            self.each = (self.each - 1).max(LEAST);
        } else if took <= QUICK && self.left_out {
            self.each = (self.each + 1).min(MOST);
        }
        let is_time = self.left_out && (was_full || own <= self.each / 2);
        self.left_out &= !is_time;
        is_time
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        let is_time = self.among.lock().ended(self.tenant, self.began.elapsed());
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
        assert_eq!(starting.room(), (ALL - LEAST + 1, Vec::new()));
        begun.push(starting.begin(a));
        assert_eq!(starting.room(), (ALL - LEAST, vec![a]));
        let others: Vec<Start> = (0..LEAST).map(|_| starting.begin(b)).collect();
        assert_eq!(starting.room().0, 0);
        assert!(starting.freed().now_or_never().is_none());
        begun.pop();
        assert!(starting.freed().now_or_never().is_some(), "anybody may wait for this");
        drop((begun, others));
        let (room, full) = starting.room();
        assert!(room >= ALL && full.is_empty());
    }

    #[test]
    fn one_tenants_come_in_twos() {
        let starting = Arc::new(Starting::default());
        let mut begun: Vec<Start> = (0..LEAST).map(|_| starting.begin(tenant(1))).collect();
        assert_eq!(starting.room().1, [tenant(1)]);
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
        starting.room();
        drop(starting.begin(tenant(1)));
        assert!(starting.freed().now_or_never().is_none());
    }

    #[test]
    fn more_are_taken_up_where_it_goes_quickly_and_fewer_where_it_does_not() {
        let mut now = Now::of(LEAST);
        let mut one_takes = |took| {
            now.left_out = true;
            now.ended(tenant(1), took);
            now.each
        };
        assert_eq!((0..100).map(|_| one_takes(QUICK)).last(), Some(MOST));
        assert_eq!(one_takes((QUICK + SLOW) / 2), MOST, "neither quick nor slow");
        assert_eq!((0..100).map(|_| one_takes(SLOW * 2)).last(), Some(LEAST));
        let mut idle = Now::of(LEAST);
        assert!(!idle.ended(tenant(1), QUICK));
        assert_eq!(idle.each, LEAST, "nobody was left out for want of room");
    }
}
