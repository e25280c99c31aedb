//! Requests a minute, by tenant, over all servers. A server takes about a second's worth of them at a time out of the
//! database and answers so many without asking; what it didn't need by then it gives back, so that none is lost. Small limits
//! are taken one by one.

mod minute;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use answerable_core::id::TenantId;
use answerable_store::{RequestsTaken, RequestsUnused, Store};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::time::{Instant, sleep_until, timeout};

use crate::held::Left;
use crate::problem::Problem;
use minute::{KEPT, Minute};

/// Tenants that may be remembered before those whose minute is over are forgotten.
const REMEMBERED: usize = 4096;
/// They are looked through at most so often, unless they have become twice as many.
const LOOKED_THROUGH: Duration = Duration::from_secs(1);
/// A request waits so long for those of its tenant that ask before it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether a request is within the limit, and what is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// It is counted.
    Within(Left),
    /// There is nothing left. It isn't counted.
    Beyond(Left),
}

/// Counts requests.
#[derive(Debug, Default)]
pub(crate) struct RequestLimits(Mutex<Minutes>);

impl RequestLimits {
    /// Counts a request of a tenant that has `most` in a minute.
    ///
    /// # Errors
    /// The database had to be asked and is away, or the tenant is gone.
    pub(crate) async fn count(&self, store: &Store, tenant: TenantId, most: u64) -> Result<Counted, Problem> {
        self.count_from(Stored { store: store.clone(), tenant }, tenant, most).await
    }

    async fn count_from(&self, source: impl Source, tenant: TenantId, most: u64) -> Result<Counted, Problem> {
        let minute = self.minute(tenant);
        let mine = timeout(PATIENCE, Arc::clone(&minute).lock_owned()).await;
        let mut known = mine.map_err(|_| Problem::unavailable(1))?;
        let now = Instant::now();
        if let Some(counted) = known.spend(most, now) {
            return Ok(counted);
        }
        if known.is_failing(now) {
            return Err(Problem::unavailable(1));
        }
        let asking = Asking { source, most };
        // A task of its own: what was taken is used even if this request is given up.
        let counted = tokio::spawn(asking.take(known, minute)).await;
        counted.map_err(|error| Problem::internal(error.to_string()))?
    }

    fn minute(&self, tenant: TenantId) -> Arc<AsyncMutex<Minute>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).of(tenant, Instant::now())
    }
}

/// The minutes of tenants.
#[derive(Debug, Default)]
struct Minutes {
    known: HashMap<TenantId, Arc<AsyncMutex<Minute>>>,
    /// When they were looked through last, and how many stayed.
    looked_through: Option<(Instant, usize)>,
}

impl Minutes {
    fn of(&mut self, tenant: TenantId, now: Instant) -> Arc<AsyncMutex<Minute>> {
        if self.known.len() >= REMEMBERED && self.is_due(now) {
            let is_on =
                |minute: &AsyncMutex<Minute>| minute.try_lock().map_or(true, |known| known.is_on(now));
            self.known.retain(|_, minute| Arc::strong_count(minute) > 1 || is_on(minute));
            self.looked_through = Some((now, self.known.len()));
        }
        Arc::clone(self.known.entry(tenant).or_default())
    }

    fn is_due(&self, now: Instant) -> bool {
        self.looked_through.is_none_or(|(then, stayed)| {
            now.duration_since(then) >= LOOKED_THROUGH || self.known.len() >= 2 * stayed.max(REMEMBERED)
        })
    }
}

/// Where a tenant's requests are taken from.
trait Source: Send + Sync + 'static {
    /// Takes up to `wanted` of `most`, and gives back what was not needed. `None`: the tenant is gone.
    fn take(
        &self,
        most: u64,
        wanted: u64,
        unused: Option<RequestsUnused>,
    ) -> impl Future<Output = Result<Option<RequestsTaken>, Problem>> + Send;
}

/// The database.
struct Stored {
    store: Store,
    tenant: TenantId,
}

impl Source for Stored {
    async fn take(
        &self,
        most: u64,
        wanted: u64,
        unused: Option<RequestsUnused>,
    ) -> Result<Option<RequestsTaken>, Problem> {
        let mut tx = self.store.tenant(self.tenant).await?;
        let taken = tx.requests_take(most, wanted, unused).await?;
        tx.commit().await?;
        Ok(taken)
    }
}

/// A question to where they are taken from.
struct Asking<S> {
    source: S,
    most: u64,
}

impl<S: Source> Asking<S> {
    async fn take(
        self,
        mut known: OwnedMutexGuard<Minute>,
        minute: Arc<AsyncMutex<Minute>>,
    ) -> Result<Counted, Problem> {
        let (asked, unused) = (Instant::now(), known.unused());
        let taken = self.source.take(self.most, (self.most / 60).max(1), unused).await;
        let taken = taken.inspect_err(|_| known.fail(Instant::now()))?.ok_or_else(Problem::unauthorized)?;
        known.put(self.most, &taken, asked);
        if taken.granted > 0 {
            // It is this request's own, however long the answer took.
            known.own -= 1;
            let counted = Counted::Within(known.left(asked));
            if known.own > 0 {
                tokio::spawn(self.give_back(minute, asked + KEPT));
            }
            return Ok(counted);
        }
        Ok(Counted::Beyond(known.left(asked)))
    }

    /// Gives back what is not needed by then. If more was taken meanwhile, its own task does.
    async fn give_back(self, minute: Arc<AsyncMutex<Minute>>, then: Instant) {
        sleep_until(then).await;
        let mut known = minute.lock().await;
        if known.kept_until.is_some_and(|until| until > then) {
            return;
        }
        if let Some(unused) = known.unused()
            && let Err(problem) = self.source.take(self.most, 0, Some(unused)).await
        {
            tracing::debug!(cause = problem.said(), "requests that were not needed are lost for this minute");
        }
    }
}

#[cfg(test)]
mod tests;
