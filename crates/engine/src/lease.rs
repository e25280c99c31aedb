//! Leases that this process holds: renewed together by a task that nothing else can block, and given up by itself when
//! they can't be renewed in time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use answerable_faults::{self as faults, Guard};
use answerable_ports::Lease;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::env::Env;

/// Shortest time that a renewal is given, also when there is none left.
const LEAST_PATIENCE: Duration = Duration::from_millis(50);
/// Pause between two words that this server lives. After some such pauses without one it is taken for silent, and another
/// sees to what is urgent.
const WORD_EVERY: Duration = Duration::from_millis(400);
/// Pause between two looks of a call that must not leave while the lease may be another's.
const FRESH_LOOK: Duration = Duration::from_millis(20);

/// Held leases.
#[derive(Debug)]
pub(crate) struct Leases {
    lease_for: Duration,
    held: Mutex<HashMap<Lease, Arc<Hold>>>,
    /// A lease was taken on that is old already: the next renewal can't wait for its turn.
    pressing: Notify,
}

/// What is known of one of them.
#[derive(Debug)]
pub(crate) struct Hold {
    /// Cancelled when the lease is lost.
    pub(crate) lost: CancellationToken,
    /// Whether the run's tenant is suspended, by the last renewal: nothing more may be begun here then.
    pub(crate) rests: watch::Sender<bool>,
    /// When its claim was asked for.
    pub(crate) claimed: Instant,
    /// It is good for its span from then on: when the claim or the last renewal was asked for, not when it was heard.
    since: Mutex<Instant>,
    fresh_for: Duration,
}

/// One held lease; dropped, it is renewed no more.
pub(crate) struct Held {
    env: Arc<Env>,
    lease: Lease,
    pub(crate) hold: Arc<Hold>,
}

impl Leases {
    pub(crate) fn new(lease_for: Duration) -> Self {
        Self { lease_for, held: Mutex::default(), pressing: Notify::new() }
    }

    /// Time from a claim or renewal after which this process stops its own work: before the lease runs out, so that nobody
    /// else has begun.
    fn fresh_for(&self) -> Duration {
        if faults::without(Guard::SelfFence) { Duration::MAX } else { self.lease_for * 2 / 3 }
    }

    /// Whether what was asked for at `asked` may still be relied on.
    pub(crate) fn is_fresh(&self, asked: Instant) -> bool {
        asked.elapsed() < self.fresh_for()
    }

    /// Runs whose leases are held.
    pub(crate) fn runs(&self) -> Vec<Uuid> {
        self.lock().keys().map(|lease| lease.run_id.0).collect()
    }

    fn all(&self) -> Vec<Lease> {
        self.lock().keys().copied().collect()
    }

    fn renewed(&self, lease: &Lease, asked: Instant) {
        if let Some(hold) = self.lock().get(lease) {
            *hold.since.lock().unwrap_or_else(PoisonError::into_inner) = asked;
        }
    }

    /// A lost lease is not held any more, whatever its task still has to do: it must not be renewed.
    pub(crate) fn lose(&self, lease: &Lease) {
        if let Some(hold) = self.lock().remove(lease) {
            hold.lost.cancel();
        }
    }

    /// Whether the run is to be handed back as soon as nothing of it is out.
    fn rests(&self, lease: &Lease, rests: bool) {
        if let Some(hold) = self.lock().get(lease) {
            hold.rests.send_if_modified(|before| std::mem::replace(before, rests) != rests);
        }
    }

    /// Gives up what could not be renewed in time; gives how many.
    fn lose_stale(&self) -> usize {
        let stale: Vec<Lease> =
            self.lock().iter().filter(|(_, hold)| !hold.is_fresh()).map(|(lease, _)| *lease).collect();
        stale.iter().for_each(|lease| self.lose(lease));
        stale.len()
    }

    /// Time from one renewal to the next.
    fn beat(&self) -> Duration {
        self.lease_for / 4
    }

    /// Time until the first of them must be given up.
    fn until_stale(&self) -> Duration {
        let left = self.lock().values().map(|hold| hold.left()).min();
        left.unwrap_or(self.lease_for)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Lease, Arc<Hold>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hold {
    fn left(&self) -> Duration {
        let since = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
        self.fresh_for.saturating_sub(since.elapsed())
    }

    fn is_fresh(&self) -> bool {
        !self.left().is_zero()
    }

    /// Waits until the lease is surely this process's. One that stood still may have lost it meanwhile and not know: then
    /// this waits until it is told, or is dropped.
    pub(crate) async fn sure(&self) {
        while self.lost.is_cancelled() || !self.is_fresh() {
            tokio::time::sleep(FRESH_LOOK).await;
        }
    }
}

/// Takes note of a lease that was claimed, and asked for at `asked`.
pub(crate) fn hold(env: &Arc<Env>, lease: Lease, asked: Instant) -> Held {
    let hold = Arc::new(Hold {
        lost: CancellationToken::new(),
        rests: watch::Sender::new(false),
        claimed: asked,
        since: Mutex::new(asked),
        fresh_for: env.leases.fresh_for(),
    });
    env.leases.lock().insert(lease, Arc::clone(&hold));
    if asked.elapsed() > env.leases.beat() {
        env.leases.pressing.notify_one();
    }
    Held { env: Arc::clone(env), lease, hold }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.env.leases.lock().remove(&self.lease);
    }
}

/// Renews all leases several times within their span, until `stop`. Those that can't be renewed for two thirds of it are
/// given up. In between, and without any, it says that this server lives.
pub(crate) async fn heartbeat(env: Arc<Env>, stop: CancellationToken) {
    let mut renewed = Instant::now();
    loop {
        let due = env.leases.beat().saturating_sub(renewed.elapsed()).min(env.leases.until_stale());
        let is_due = tokio::select! {
            () = stop.cancelled() => return,
            () = env.leases.pressing.notified() => true,
            () = tokio::time::sleep(due.min(WORD_EVERY)) => due <= WORD_EVERY,
        };
        if is_due {
            renewed = Instant::now();
            renew(&env, &env.leases.all()).await;
        } else {
            renew(&env, &[]).await;
        }
        let stale = env.leases.lose_stale();
        if stale > 0 {
            tracing::warn!(leases = stale, "leases run out; this server stops its own work on their runs");
        }
    }
}

/// Renews. A process that stood still asks as well, for a moment: as long as nobody took its runs they are its own, and until
/// it knows, no call leaves ([`Hold::sure`]).
async fn renew(env: &Env, leases: &[Lease]) {
    let (began, span) = (Instant::now(), env.leases.lease_for);
    let patience = (span / 3).min(env.leases.until_stale()).max(LEAST_PATIENCE);
    let renewal = env.store.renew(env.config.server, leases, span);
    match tokio::time::timeout(patience, renewal).await {
        Ok(Ok(renewal)) => {
            for lease in &renewal.renewed {
                env.leases.renewed(lease, began);
                env.leases.rests(lease, renewal.suspended.contains(lease));
            }
            renewal.lost.iter().for_each(|lease| env.leases.lose(lease));
        }
        Ok(Err(error)) => tracing::warn!(%error, leases = leases.len(), "leases could not be renewed"),
        Err(_) => tracing::warn!(leases = leases.len(), "renewing leases takes too long"),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn nothing_leaves_while_the_lease_may_be_anothers() {
        let fresh_for = Duration::from_secs(60);
        let long_ago = Instant::now().checked_sub(fresh_for).expect("a machine that runs for a minute");
        let (lost, rests, since) =
            (CancellationToken::new(), watch::Sender::new(false), Mutex::new(long_ago));
        let hold = Hold { lost, rests, claimed: long_ago, since, fresh_for };
        assert!(hold.sure().now_or_never().is_none(), "it stood still for a minute");
        *hold.since.lock().expect("no panic") = Instant::now();
        assert!(hold.sure().now_or_never().is_some(), "it was renewed");
        hold.lost.cancel();
        assert!(hold.sure().now_or_never().is_none(), "it is lost");
    }

    #[test]
    fn what_was_not_renewed_in_time_is_given_up_alone() {
        let leases = Leases::new(Duration::from_secs(9));
        let lease = |epoch| Lease {
            tenant_id: answerable_core::id::TenantId(Uuid::nil()),
            run_id: answerable_core::id::RunId(Uuid::nil()),
            epoch,
        };
        let long_ago = Instant::now().checked_sub(Duration::from_secs(7)).expect("a machine that runs");
        for (epoch, since) in [(1, long_ago), (2, Instant::now())] {
            let hold = Hold {
                lost: CancellationToken::new(),
                rests: watch::Sender::new(false),
                claimed: since,
                since: Mutex::new(since),
                fresh_for: leases.fresh_for(),
            };
            leases.lock().insert(lease(epoch), Arc::new(hold));
        }
        assert!(leases.until_stale().is_zero());
        let old = Arc::clone(&leases.lock()[&lease(1)]);
        assert_eq!(leases.lose_stale(), 1);
        assert!(old.lost.is_cancelled());
        assert_eq!(leases.all(), [lease(2)]);
        assert!(leases.until_stale() > Duration::from_secs(5));
        assert_eq!(leases.lose_stale(), 0);
    }
}
