//! Requests a minute, by tenant, within this process: windows of a minute that begin with a tenant's first request.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use answerable_core::id::TenantId;

const WINDOW: Duration = Duration::from_secs(60);
/// Windows that may be kept before those that are over are thrown away.
const KEPT: usize = 4096;

/// Counts requests.
#[derive(Debug, Default)]
pub(crate) struct RequestLimits(Mutex<HashMap<TenantId, Window>>);

#[derive(Debug, Clone, Copy)]
struct Window {
    began: Instant,
    count: u64,
}

impl RequestLimits {
    /// Counts a request.
    ///
    /// # Errors
    /// `max` were made in this minute; it ends in so many seconds.
    pub(crate) fn count(&self, tenant: TenantId, max: u64) -> Result<(), u64> {
        self.count_at(tenant, max, Instant::now())
    }

    fn count_at(&self, tenant: TenantId, max: u64, now: Instant) -> Result<(), u64> {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if windows.len() >= KEPT {
            windows.retain(|_, window| now.duration_since(window.began) < WINDOW);
        }
        let window = windows.entry(tenant).or_insert(Window { began: now, count: 0 });
        if now.duration_since(window.began) >= WINDOW {
            *window = Window { began: now, count: 0 };
        }
        if window.count >= max {
            let left = WINDOW.saturating_sub(now.duration_since(window.began));
            return Err(left.as_secs() + 1);
        }
        window.count += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_so_many_a_minute_and_each_tenant_its_own() {
        let (limits, now) = (RequestLimits::default(), Instant::now());
        let (a, b) = (TenantId(uuid::Uuid::from_u128(1)), TenantId(uuid::Uuid::from_u128(2)));
        for _ in 0..12 {
            assert_eq!(limits.count_at(a, 12, now), Ok(()));
        }
        assert_eq!(limits.count_at(a, 12, now + Duration::from_secs(50)), Err(11));
        assert_eq!(limits.count_at(b, 12, now), Ok(()));
        assert_eq!(limits.count_at(a, 12, now + WINDOW), Ok(()));
    }
}
