//! Object storage in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use answerable_core::id::TenantId;
use answerable_ports::{BlobName, BlobStore, StoreError};
use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Notify;

type Objects = BTreeMap<(TenantId, BlobName), Bytes>;

#[derive(Default)]
pub(crate) struct Shelf {
    objects: Mutex<Objects>,
    pub(super) is_away: AtomicBool,
    /// Takes time for putting, and counts those that are under way: now, and at most until now.
    pub(super) is_slow: AtomicBool,
    putting: AtomicUsize,
    pub(super) most_putting: AtomicUsize,
    /// Waits before it takes anything away.
    pub(super) removals: Gate,
}

/// A gate that is open until it is shut.
#[derive(Default)]
pub(crate) struct Gate {
    is_shut: AtomicBool,
    reached: Notify,
    opened: Notify,
}

impl Gate {
    pub(super) fn shut(&self) {
        self.is_shut.store(true, Ordering::Relaxed);
    }

    /// Somebody waits.
    pub(super) async fn reached(&self) {
        self.reached.notified().await;
    }

    /// Whoever waits goes on.
    pub(super) fn open(&self) {
        self.is_shut.store(false, Ordering::Relaxed);
        self.opened.notify_waiters();
    }

    async fn pass(&self) {
        let opened = self.opened.notified();
        if self.is_shut.load(Ordering::Relaxed) {
            self.reached.notify_one();
            opened.await;
        }
    }
}

impl Shelf {
    /// How many objects a tenant has.
    pub(crate) fn count(&self, tenant: TenantId) -> usize {
        let objects = self.objects.lock().expect("nobody panicked");
        objects.keys().filter(|(whose, _)| *whose == tenant).count()
    }

    /// Something goes wrong with all of them.
    pub(super) fn damage(&self) {
        let mut objects = self.objects.lock().expect("nobody panicked");
        objects.values_mut().for_each(|content| *content = Bytes::from_static(b"damaged"));
    }

    fn asked(&self) -> Result<MutexGuard<'_, Objects>, StoreError> {
        if self.is_away.load(Ordering::Relaxed) {
            return Err(StoreError::Away("the shelf".into()));
        }
        Ok(self.objects.lock().expect("nobody panicked"))
    }
}

#[async_trait]
impl BlobStore for Shelf {
    async fn put(&self, tenant: TenantId, name: BlobName, content: Bytes) -> Result<(), StoreError> {
        let putting = self.putting.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_putting.fetch_max(putting, Ordering::Relaxed);
        if self.is_slow.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.putting.fetch_sub(1, Ordering::Relaxed);
        self.asked()?.insert((tenant, name), content);
        Ok(())
    }

    async fn get(&self, tenant: TenantId, name: BlobName, _: u64) -> Result<Option<Bytes>, StoreError> {
        Ok(self.asked()?.get(&(tenant, name)).cloned())
    }

    async fn remove(&self, tenant: TenantId, name: BlobName) -> Result<(), StoreError> {
        self.removals.pass().await;
        self.asked()?.remove(&(tenant, name));
        Ok(())
    }

    async fn remove_all(&self, tenant: TenantId) -> Result<(), StoreError> {
        self.asked()?.retain(|(whose, _), _| *whose != tenant);
        Ok(())
    }
}
