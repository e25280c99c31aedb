//! Places for so many things at a time: so many in all, and so many of one tenant, that none takes them all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use answerable_core::id::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Tenants that are remembered before those without a place are forgotten.
const MOST_TENANTS: usize = 1000;

/// The places.
#[derive(Debug)]
pub(super) struct Places {
    whole: Arc<Semaphore>,
    each: usize,
    tenants: Mutex<HashMap<TenantId, Arc<Semaphore>>>,
}

/// One that is taken; dropped, it is free again.
#[derive(Debug)]
pub(super) struct Place {
    _tenants: OwnedSemaphorePermit,
    _whole: OwnedSemaphorePermit,
}

impl Places {
    /// `whole` of them, at most `each` for a tenant.
    pub(super) fn new(whole: usize, each: usize) -> Self {
        Self { whole: Arc::new(Semaphore::new(whole)), each, tenants: Mutex::default() }
    }

    /// Takes one, as soon as there is one. `make_room` is told whose places are all taken, or that all are.
    pub(super) async fn take(&self, tenant: TenantId, make_room: impl Fn(Option<TenantId>)) -> Place {
        let tenants = taken(self.of(tenant), || make_room(Some(tenant))).await;
        let whole = taken(Arc::clone(&self.whole), || make_room(None)).await;
        Place { _tenants: tenants, _whole: whole }
    }

    fn of(&self, tenant: TenantId) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if tenants.len() >= MOST_TENANTS {
            // Whoever has a place, or waits for one, holds its tenant's.
            tenants.retain(|_, places| Arc::strong_count(places) > 1);
        }
        Arc::clone(tenants.entry(tenant).or_insert_with(|| Arc::new(Semaphore::new(self.each))))
    }
}

async fn taken(places: Arc<Semaphore>, make_room: impl Fn()) -> OwnedSemaphorePermit {
    loop {
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            return place;
        }
        make_room();
        // They are never closed.
        if let Ok(place) = Arc::clone(&places).acquire_owned().await {
            return place;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::time::{Duration, timeout};
    use uuid::Uuid;

    use super::*;

    fn tenant(number: u128) -> TenantId {
        TenantId(Uuid::from_u128(number))
    }

    #[tokio::test]
    async fn no_tenant_takes_all_of_them() {
        let (places, told) = (Places::new(3, 2), RefCell::new(Vec::new()));
        let take = |number| {
            let taken = places.take(tenant(number), |whose| told.borrow_mut().push(whose));
            async { timeout(Duration::from_millis(20), taken).await.ok() }
        };
        let first = take(1).await.expect("a place");
        let _second = take(1).await.expect("a place");
        assert!(take(1).await.is_none(), "it has its part");
        let _others = take(2).await.expect("a place");
        assert!(take(3).await.is_none(), "all are taken");
        assert_eq!(*told.borrow(), [Some(tenant(1)), None]);
        drop(first);
        assert!(take(3).await.is_some());
        assert!(take(1).await.is_some(), "a place that wasn't come by is none that is held");
    }

    #[tokio::test]
    async fn tenants_without_a_place_are_forgotten_and_others_are_not() {
        let places = Places::new(10, 1);
        let _held = places.take(tenant(0), |_| ()).await;
        for number in 1..=MOST_TENANTS as u128 * 2 {
            drop(places.take(tenant(number), |_| ()).await);
        }
        assert!(places.tenants.lock().expect("no panic").len() <= MOST_TENANTS);
        assert!(timeout(Duration::from_millis(20), places.take(tenant(0), |_| ())).await.is_err());
    }
}
