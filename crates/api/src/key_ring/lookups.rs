//! What was looked up in the database and is believed for some seconds; also that something isn't there.
//!
//! Anybody may ask with any id, so lookups are few at a time. Those of ids that were found before don't wait for those of ids
//! that nobody has seen: whoever makes ids up holds up nobody but those who come for the first time. These wait long where few
//! ids are made up, as after a start, when nobody has been seen.

mod strange;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use answerable_store::StoreError;
use moka::future::Cache;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::problem::Problem;
use strange::Strange;

/// What is known is believed for so long, even if its change was never heard of.
pub(crate) const BELIEVED: Duration = Duration::from_secs(5);
/// What was believed and let somebody not in is looked up anew at most so often.
const DOUBTED: Duration = Duration::from_secs(1);
/// For so long it is remembered that an id was found.
const FAMILIAR: Duration = Duration::from_secs(3600);
/// Ids that are remembered, of each kind.
const REMEMBERED: u64 = 20_000;
/// Lookups at a time of ids that were found before, and of others.
const FAMILIAR_AT_ONCE: usize = 6;
const STRANGE_AT_ONCE: usize = 3;
/// How long a lookup waits for its turn: usually, and one of a strange id while somebody makes ids up.
const PATIENCE: Duration = Duration::from_secs(3);
const STRANGE_PATIENCE: Duration = Duration::from_millis(250);

/// What is known of things by their ids.
pub(super) struct Lookups<T> {
    found: Cache<Uuid, Arc<T>>,
    missing: Cache<Uuid, ()>,
    doubted: Cache<Uuid, ()>,
    familiar: Cache<Uuid, ()>,
    for_familiar: Semaphore,
    for_strange: Semaphore,
    strange: Strange,
}

/// What is known of an id.
pub(super) struct Known<T> {
    pub(super) found: Option<Arc<T>>,
    /// It was looked up for whoever asks, and not believed.
    pub(super) is_new: bool,
}

/// Why a lookup found nothing.
enum Nothing {
    Missing,
    Refused(Problem),
}

impl<T: Send + Sync + 'static> Lookups<T> {
    pub(super) fn new() -> Self {
        Self {
            found: Cache::builder().max_capacity(REMEMBERED).time_to_live(BELIEVED).build(),
            missing: Cache::builder().max_capacity(REMEMBERED).time_to_live(BELIEVED).build(),
            doubted: Cache::builder().max_capacity(REMEMBERED).time_to_live(DOUBTED).build(),
            familiar: Cache::builder().max_capacity(REMEMBERED).time_to_live(FAMILIAR).build(),
            for_familiar: Semaphore::new(FAMILIAR_AT_ONCE),
            for_strange: Semaphore::new(STRANGE_AT_ONCE),
            strange: Strange::default(),
        }
    }

    /// What is known of an id, by `look` if nothing is. However many ask for the same, it is looked up once.
    pub(super) async fn find(
        &self,
        id: Uuid,
        look: impl Future<Output = Result<Option<T>, StoreError>>,
    ) -> Result<Known<T>, Problem> {
        if self.missing.contains_key(&id) {
            return Ok(Known { found: None, is_new: false });
        }
        let mut is_new = false;
        let look = async {
            is_new = true;
            self.look_up(id, look).await
        };
        let found = self.found.try_get_with(id, look).await;
        match found.as_ref().map_err(|nothing| &**nothing) {
            Ok(found) => Ok(Known { found: Some(Arc::clone(found)), is_new }),
            Err(Nothing::Missing) => {
                self.missing.insert(id, ()).await;
                Ok(Known { found: None, is_new })
            }
            Err(Nothing::Refused(problem)) => Err(problem.clone()),
        }
    }

    async fn look_up(
        &self,
        id: Uuid,
        look: impl Future<Output = Result<Option<T>, StoreError>>,
    ) -> Result<Arc<T>, Nothing> {
        let is_familiar = self.familiar.contains_key(&id);
        let Some(_turn) = self.turn(is_familiar).await else {
            return Err(Nothing::Refused(Problem::unavailable(1)));
        };
        let looked = look.await;
        if let (false, Ok(found)) = (is_familiar, &looked) {
            self.strange.note(found.is_some(), Instant::now());
        }
        match looked {
            Ok(Some(found)) => {
                self.familiar.insert(id, ()).await;
                Ok(Arc::new(found))
            }
            Ok(None) => Err(Nothing::Missing),
            Err(error) => Err(Nothing::Refused(error.into())),
        }
    }

    /// A turn to look up, if there is one in time.
    async fn turn(&self, is_familiar: bool) -> Option<SemaphorePermit<'_>> {
        if is_familiar {
            return timeout(PATIENCE, self.for_familiar.acquire()).await.ok()?.ok();
        }
        let (mut turn, until) = (pin!(self.for_strange.acquire()), Instant::now() + PATIENCE);
        loop {
            match timeout(STRANGE_PATIENCE, turn.as_mut()).await {
                Ok(turn) => return turn.ok(),
                Err(_) if Instant::now() >= until || self.strange.are_made_up(Instant::now()) => return None,
                Err(_) => {}
            }
        }
    }

    /// Forgets what is believed of an id, unless that was just done.
    pub(super) async fn doubt(&self, id: Uuid) -> bool {
        let is_first = self.doubted.entry(id).or_insert(()).await.is_fresh();
        if is_first {
            self.forget(id).await;
        }
        is_first
    }

    /// Forgets one.
    pub(super) async fn forget(&self, id: Uuid) {
        self.found.invalidate(&id).await;
        self.missing.invalidate(&id).await;
    }

    /// Forgets all; that they were found is remembered.
    pub(super) fn forget_all(&self) {
        self.found.invalidate_all();
        self.missing.invalidate_all();
    }
}

#[cfg(test)]
mod tests;
