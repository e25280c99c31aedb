//! What was looked up in the database and is believed for some seconds; also that something isn't there.
//!
//! Anybody may ask with any id, so lookups are few at a time. Those of ids that were found before don't wait for those of ids
//! that nobody has seen: whoever makes ids up holds up nobody but those who come for the first time.

use std::sync::Arc;
use std::time::Duration;

use answerable_store::StoreError;
use moka::future::Cache;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use uuid::Uuid;

use crate::problem::Problem;

/// What is known is believed for so long, even if its change was never heard of.
const BELIEVED: Duration = Duration::from_secs(5);
/// What was believed and let somebody not in is looked up anew at most so often.
const DOUBTED: Duration = Duration::from_secs(1);
/// For so long it is remembered that an id was found.
const FAMILIAR: Duration = Duration::from_secs(3600);
/// Ids that are remembered, of each kind.
const REMEMBERED: u64 = 20_000;
/// Lookups at a time of ids that were found before, and of others.
const FAMILIAR_AT_ONCE: usize = 6;
const STRANGE_AT_ONCE: usize = 3;
/// How long a lookup waits for its turn: while the database is slow, and while somebody makes ids up.
const FAMILIAR_PATIENCE: Duration = Duration::from_secs(3);
const STRANGE_PATIENCE: Duration = Duration::from_millis(250);

/// What is known of things by their ids.
pub(super) struct Lookups<T> {
    found: Cache<Uuid, Arc<T>>,
    missing: Cache<Uuid, ()>,
    doubted: Cache<Uuid, ()>,
    familiar: Cache<Uuid, ()>,
    for_familiar: Semaphore,
    for_strange: Semaphore,
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
        let (turns, patience) = if self.familiar.contains_key(&id) {
            (&self.for_familiar, FAMILIAR_PATIENCE)
        } else {
            (&self.for_strange, STRANGE_PATIENCE)
        };
        let turn = timeout(patience, turns.acquire()).await;
        let Ok(Ok(_turn)) = turn else { return Err(Nothing::Refused(Problem::unavailable(1))) };
        match look.await {
            Ok(Some(found)) => {
                self.familiar.insert(id, ()).await;
                Ok(Arc::new(found))
            }
            Ok(None) => Err(Nothing::Missing),
            Err(error) => Err(Nothing::Refused(error.into())),
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
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;
    use tokio::sync::Notify;

    use super::*;

    fn id(nth: usize) -> Uuid {
        Uuid::from_u128(nth as u128 + 1)
    }

    #[tokio::test]
    async fn the_same_is_looked_up_once_and_what_is_missing_too() {
        let (lookups, asked) = (Lookups::new(), AtomicUsize::new(0));
        let look = |answer: Option<&'static str>| {
            let asked = &asked;
            async move {
                asked.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                Ok(answer)
            }
        };
        let found = join_all((0..50).map(|_| lookups.find(id(1), look(Some("here"))))).await;
        let found: Vec<_> = found.into_iter().map(|found| found.expect("no problem")).collect();
        assert!(found.iter().all(|known| known.found.as_deref() == Some(&"here")));
        // One of them has looked.
        assert_eq!((found.iter().filter(|known| known.is_new).count(), asked.load(Ordering::SeqCst)), (1, 1));
        for _ in 0..5 {
            assert!(lookups.find(id(2), look(None)).await.expect("no problem").found.is_none());
        }
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        lookups.forget_all();
        lookups.find(id(1), look(Some("here"))).await.expect("no problem");
        lookups.find(id(2), look(None)).await.expect("no problem");
        assert_eq!(asked.load(Ordering::SeqCst), 4);
        lookups.forget(id(1)).await;
        lookups.forget(id(2)).await;
        lookups.find(id(1), look(Some("here"))).await.expect("no problem");
        lookups.find(id(2), look(None)).await.expect("no problem");
        assert_eq!(asked.load(Ordering::SeqCst), 6);
        // What is doubted is looked up anew, but not again and again.
        for nth in [1, 2] {
            assert!(lookups.doubt(id(nth)).await);
            assert!(lookups.find(id(nth), look(None)).await.expect("no problem").is_new);
            assert!(!lookups.doubt(id(nth)).await);
            assert!(!lookups.find(id(nth), look(None)).await.expect("no problem").is_new);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_strange_ids_makes_few_lookups_and_holds_up_nobody_who_is_known() {
        let (lookups, out, most) = (Lookups::new(), AtomicUsize::new(0), AtomicUsize::new(0));
        assert!(lookups.find(id(1), async { Ok(Some(())) }).await.expect("no problem").found.is_some());
        lookups.forget_all();
        let let_go = Notify::new();
        let hang = || async {
            most.fetch_max(out.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let_go.notified().await;
            out.fetch_sub(1, Ordering::SeqCst);
            Ok(None)
        };
        let flood = join_all((10..210).map(|nth| lookups.find(id(nth), hang())));
        let known = async {
            tokio::time::sleep(STRANGE_PATIENCE / 2).await;
            let found = lookups.find(id(1), async { Ok(Some(())) }).await;
            tokio::time::sleep(STRANGE_PATIENCE * 4).await;
            let_go.notify_waiters();
            found
        };
        let (flood, known) = tokio::join!(flood, known);
        assert!(known.expect("no problem").found.is_some());
        let refused = flood.iter().filter(|answer| answer.as_ref().is_err_and(Problem::is_ours)).count();
        assert_eq!((most.load(Ordering::SeqCst), refused), (STRANGE_AT_ONCE, 200 - STRANGE_AT_ONCE));
    }
}
