//! Whether somebody may still be here: asked with each request, and again as long as an answer is held open.

use std::sync::Arc;
use std::time::Duration;

use answerable_core::Millis;
use answerable_core::id::TenantId;
use answerable_store::KeyFacts;
use subtle::ConstantTimeEq;
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::principal::{Person, Principal};
use crate::key_ring::BELIEVED;
use crate::problem::Problem;
use crate::state::AppState;

/// Who waits looks so often whether it may go on, beside when it is told that something has changed.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// What was opened ends within so long, and what is being asked is refused, though no server hears of the revocation.
const ENDS_WITHIN: Duration = Duration::from_secs(8);
const _: () = assert!(
    BELIEVED.as_millis() + LOOK_EVERY.as_millis() < ENDS_WITHIN.as_millis(),
    "a key that was revoked is good for too long"
);
/// For so long who waits goes on where that can't be told.
const UNSURE: Duration = Duration::from_secs(30);

/// What somebody has proved, in a form that can be looked at again.
#[derive(Debug, Clone)]
pub(crate) enum Standing {
    /// A secret of a key.
    Key {
        /// The key.
        key_id: Uuid,
        /// Hash of the secret.
        secret_hash: [u8; 32],
    },
    /// A name.
    Person {
        /// The tenant that they act for.
        tenant: TenantId,
        /// Their name.
        user: Arc<str>,
        /// What they may do.
        scopes: Arc<[String]>,
        /// It is good until then.
        until: Millis,
    },
}

impl Standing {
    /// Who it is, if what they have proved is good now.
    ///
    /// # Errors
    /// What a request of theirs would be answered: it is good no longer, or their tenant is suspended.
    pub(crate) async fn check(&self, state: &AppState) -> Result<Principal, Problem> {
        let principal = match self {
            Self::Key { key_id, secret_hash } => {
                let now = state.store.clock().now();
                let judge = |facts| good(facts, secret_hash, now);
                Principal::Key(state.keys.judge(state, *key_id, judge).await?)
            }
            Self::Person { tenant, user, scopes, until } => {
                if *until <= state.store.clock().now() {
                    return Err(Problem::unauthorized());
                }
                let tenant = state.keys.tenant(state, *tenant).await?.ok_or_else(Problem::unauthorized)?;
                Principal::Person(Person { tenant, user: user.clone(), scopes: scopes.clone() })
            }
        };
        if principal.tenant().suspended {
            return Err(Problem::forbidden("The tenant is suspended."));
        }
        Ok(principal)
    }

    /// Watches whether they may still be here.
    pub(crate) fn watch(&self, state: &AppState) -> Stay {
        let now = Instant::now();
        let changes = state.store.signals().keys();
        Stay { state: state.clone(), standing: self.clone(), changes, look_at: now + LOOK_EVERY, sure: now }
    }
}

/// The facts of a key, if the secret is one of its own that is good now. An unknown key takes as long as a wrong secret.
fn good(facts: Option<Arc<KeyFacts>>, secret_hash: &[u8; 32], now: Millis) -> Result<Arc<KeyFacts>, Problem> {
    let of_nobody = [0; 32];
    let current = facts.as_ref().map_or(&of_nobody[..], |facts| &facts.secret_hash);
    let is_current = bool::from(current.ct_eq(secret_hash));
    let facts = facts.ok_or_else(Problem::unauthorized)?;
    let previous = facts.previous.as_ref().filter(|previous| previous.valid_until.timestamp_millis() > now);
    let is_previous = previous.is_some_and(|previous| bool::from(previous.hash.ct_eq(secret_hash)));
    let is_over = facts.expires_at.is_some_and(|at| at.timestamp_millis() <= now);
    if (is_current || is_previous) && !is_over { Ok(facts) } else { Err(Problem::unauthorized()) }
}

/// A watcher of somebody who is here. Holds no connection.
pub(crate) struct Stay {
    state: AppState,
    standing: Standing,
    changes: broadcast::Receiver<()>,
    look_at: Instant,
    /// When it was last seen that they may be here.
    sure: Instant,
}

impl Stay {
    /// Returns when they may be here no longer, with what a request of theirs would be answered then. May be dropped and
    /// called again.
    pub(crate) async fn over(&mut self) -> Problem {
        loop {
            tokio::select! {
                () = sleep_until(self.look_at) => {}
                told = self.changes.recv() => match told {
                    Ok(()) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                    // Nobody is left to tell.
                    Err(broadcast::error::RecvError::Closed) => sleep_until(self.look_at).await,
                },
            }
            // If this is dropped before it is known, it is looked at first the next time.
            self.look_at = Instant::now();
            match self.standing.check(&self.state).await {
                Ok(_) => self.sure = Instant::now(),
                Err(problem) if problem.is_ours() && self.sure.elapsed() < UNSURE => {}
                Err(problem) => return problem,
            }
            self.look_at = Instant::now() + LOOK_EVERY;
        }
    }
}

#[cfg(test)]
mod tests {
    use answerable_core::id::KeyId;
    use answerable_store::{PreviousSecret, TenantFacts};
    use chrono::DateTime;

    use super::*;

    const NOW: Millis = 1_000_000;

    fn at(millis: Millis) -> DateTime<chrono::Utc> {
        DateTime::from_timestamp_millis(millis).expect("a time")
    }

    fn facts(previous_until: Option<Millis>, expires: Option<Millis>) -> Option<Arc<KeyFacts>> {
        let tenant_id = TenantId(Uuid::from_u128(1));
        let previous =
            previous_until.map(|until| PreviousSecret { hash: vec![2; 32], valid_until: at(until) });
        Some(Arc::new(KeyFacts {
            tenant: TenantFacts { tenant_id, suspended: false, max_requests_per_minute: None },
            key_id: KeyId(Uuid::from_u128(2)),
            secret_hash: vec![1; 32],
            previous,
            scopes: Vec::new(),
            expires_at: expires.map(at),
        }))
    }

    #[test]
    fn a_key_is_good_with_the_secrets_that_it_has_now() {
        for (known, secret, is_good) in [
            (facts(None, None), 1, true),
            (facts(None, None), 2, false),
            (facts(Some(NOW + 1), None), 1, true),
            (facts(Some(NOW + 1), None), 2, true),
            (facts(Some(NOW + 1), None), 3, false),
            (facts(Some(NOW), None), 2, false),
            (facts(Some(NOW), None), 1, true),
            (facts(Some(NOW + 1), Some(NOW)), 1, false),
            (facts(Some(NOW + 1), Some(NOW)), 2, false),
            (facts(Some(NOW + 1), Some(NOW + 1)), 2, true),
            // What stands for nobody opens nothing.
            (None, 0, false),
            (facts(None, None), 0, false),
        ] {
            assert_eq!(good(known.clone(), &[secret; 32], NOW).is_ok(), is_good, "{known:?} {secret}");
        }
    }
}
