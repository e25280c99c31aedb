//! Object storage in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use answerable_core::id::TenantId;
use answerable_ports::{BlobHash, BlobStore, StoreError};
use async_trait::async_trait;
use bytes::Bytes;

type Objects = BTreeMap<(TenantId, BlobHash), Bytes>;

#[derive(Default)]
pub(super) struct Shelf {
    objects: Mutex<Objects>,
    pub(super) is_away: AtomicBool,
}

impl Shelf {
    /// How many objects a tenant has.
    pub(super) fn count(&self, tenant: TenantId) -> usize {
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
    async fn put(&self, tenant: TenantId, hash: BlobHash, content: Bytes) -> Result<(), StoreError> {
        self.asked()?.insert((tenant, hash), content);
        Ok(())
    }

    async fn get(&self, tenant: TenantId, hash: BlobHash, _: u64) -> Result<Option<Bytes>, StoreError> {
        Ok(self.asked()?.get(&(tenant, hash)).cloned())
    }

    async fn remove(&self, tenant: TenantId, hash: BlobHash) -> Result<(), StoreError> {
        self.asked()?.remove(&(tenant, hash));
        Ok(())
    }

    async fn remove_all(&self, tenant: TenantId) -> Result<(), StoreError> {
        self.asked()?.retain(|(whose, _), _| *whose != tenant);
        Ok(())
    }
}
