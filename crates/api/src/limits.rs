//! Requests a minute, by tenant, over all servers. A server takes about a second's worth of them at a time out of the
//! database and answers so many without asking; what it didn't need by then it gives back, so that none is lost. Small limits
//! are taken one by one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use answerable_core::id::TenantId;
use answerable_store::{RequestsTaken, RequestsUnused, Store};
use chrono::{DateTime, Utc};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::time::{Instant, sleep_until};

use crate::held::Left;
use crate::problem::Problem;

/// A server keeps what it took for so long, and asks no sooner again when there was nothing left.
const KEPT: Duration = Duration::from_secs(1);
/// Tenants that may be remembered before those whose minute is over are forgotten.
const REMEMBERED: usize = 4096;

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
pub(crate) struct RequestLimits(Mutex<HashMap<TenantId, Arc<AsyncMutex<Minute>>>>);

impl RequestLimits {
    /// Counts a request of a tenant that has `most` in a minute.
    ///
    /// # Errors
    /// The database had to be asked and is away, or the tenant is gone.
    pub(crate) async fn count(&self, store: &Store, tenant: TenantId, most: u64) -> Result<Counted, Problem> {
        let minute = self.minute(tenant);
        let mut known = Arc::clone(&minute).lock_owned().await;
        if let Some(counted) = known.spend(most, Instant::now()) {
            return Ok(counted);
        }
        let asking = Asking { store: store.clone(), tenant, most };
        // A task of its own: what was taken is used even if this request is given up.
        let counted = tokio::spawn(asking.take(known, minute)).await;
        counted.map_err(|error| Problem::internal(error.to_string()))?
    }

    fn minute(&self, tenant: TenantId) -> Arc<AsyncMutex<Minute>> {
        let mut minutes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if minutes.len() >= REMEMBERED {
            let now = Instant::now();
            minutes.retain(|_, minute| minute.try_lock().map_or(true, |known| known.is_on(now)));
        }
        Arc::clone(minutes.entry(tenant).or_default())
    }
}

/// What a server knows of a tenant's minute.
#[derive(Debug, Default)]
struct Minute {
    most: u64,
    /// Requests that it may answer without asking, until then.
    own: u64,
    kept_until: Option<Instant>,
    /// Those that were left to all servers when it asked last.
    others: u64,
    /// The minute, by its beginning, and when it ends by this server's clock.
    began: Option<DateTime<Utc>>,
    ends: Option<Instant>,
}

impl Minute {
    fn is_on(&self, now: Instant) -> bool {
        self.ends.is_some_and(|ends| now < ends)
    }

    /// Counts a request, if that can be told without asking.
    fn spend(&mut self, most: u64, now: Instant) -> Option<Counted> {
        let is_known =
            self.most == most && self.is_on(now) && self.kept_until.is_some_and(|until| now < until);
        if !is_known {
            return None;
        }
        match (self.own, self.others) {
            (0, 0) => Some(Counted::Beyond(self.left(now))),
            (0, _) => None,
            _ => {
                self.own -= 1;
                Some(Counted::Within(self.left(now)))
            }
        }
    }

    fn left(&self, now: Instant) -> Left {
        let ends_in = self.ends.map_or(Duration::ZERO, |ends| ends.saturating_duration_since(now));
        Left { limit: self.most, remaining: self.own.saturating_add(self.others), ends_in }
    }

    /// What was taken and not needed; it is no longer this server's.
    fn unused(&mut self) -> Option<RequestsUnused> {
        let count = std::mem::take(&mut self.own);
        self.began.filter(|_| count > 0).map(|began| RequestsUnused { count, began })
    }

    /// Notes what was taken, by a question of `asked`: by the clock here, the minute ends no later than by the database's.
    fn put(&mut self, most: u64, taken: &RequestsTaken, asked: Instant) {
        *self = Self {
            most,
            own: taken.granted,
            kept_until: Some(asked + KEPT),
            others: taken.remaining,
            began: Some(taken.began),
            ends: Some(asked + taken.ends_in),
        };
    }
}

/// A question to the database.
struct Asking {
    store: Store,
    tenant: TenantId,
    most: u64,
}

impl Asking {
    async fn take(
        self,
        mut known: OwnedMutexGuard<Minute>,
        minute: Arc<AsyncMutex<Minute>>,
    ) -> Result<Counted, Problem> {
        let (asked, unused) = (Instant::now(), known.unused());
        let taken = self.ask((self.most / 60).max(1), unused).await?.ok_or_else(Problem::unauthorized)?;
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
            && let Err(problem) = self.ask(0, Some(unused)).await
        {
            tracing::debug!(cause = problem.said(), "requests that were not needed are lost for this minute");
        }
    }

    async fn ask(
        &self,
        wanted: u64,
        unused: Option<RequestsUnused>,
    ) -> Result<Option<RequestsTaken>, Problem> {
        let mut tx = self.store.tenant(self.tenant).await?;
        let taken = tx.requests_take(self.most, wanted, unused).await?;
        tx.commit().await?;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(granted: u64, remaining: u64) -> RequestsTaken {
        RequestsTaken { granted, remaining, began: DateTime::UNIX_EPOCH, ends_in: Duration::from_secs(40) }
    }

    fn left(remaining: u64, seconds: u64) -> Left {
        Left { limit: 600, remaining, ends_in: Duration::from_secs(seconds) }
    }

    #[test]
    fn what_was_taken_is_spent_without_asking_for_a_second() {
        let (mut minute, now) = (Minute::default(), Instant::now());
        assert_eq!(minute.spend(600, now), None);
        minute.put(600, &taken(2, 90), now);
        assert_eq!(minute.spend(600, now), Some(Counted::Within(left(91, 40))));
        assert_eq!(minute.spend(600, now + KEPT), None, "it is to be given back");
        assert_eq!(minute.spend(601, now), None, "by another limit");
        let unused = RequestsUnused { count: 1, began: DateTime::UNIX_EPOCH };
        assert_eq!((minute.unused(), minute.unused()), (Some(unused), None));
        assert_eq!(minute.spend(600, now), None);
    }

    #[test]
    fn who_was_refused_is_refused_for_a_second_or_until_the_minute_ends() {
        let (mut minute, now) = (Minute::default(), Instant::now());
        minute.put(600, &taken(0, 0), now);
        let beyond = |seconds| Some(Counted::Beyond(left(0, seconds)));
        assert_eq!(minute.spend(600, now), beyond(40));
        assert_eq!(minute.spend(600, now + KEPT), None, "another server may have given some back");
        let ending = RequestsTaken { ends_in: KEPT / 2, ..taken(0, 0) };
        minute.put(600, &ending, now);
        assert!(minute.spend(600, now + KEPT / 4).is_some());
        assert_eq!(minute.spend(600, now + KEPT / 2), None);
    }
}
