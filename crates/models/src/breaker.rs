//! What a tenant's provider was like lately. Where many attempts in a row failed, whoever asks next would only wait for one
//! more failure: for a while nobody is let through, then one a second, until one succeeds.
//!
//! Each server process knows what it saw itself. Nothing is shared between tenants, nor between models.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use answerable_core::model::{FailureKind, ModelFailure, ModelReply, ModelRequest};
use answerable_ports::{ModelTarget, Patience};
use serde_json::Value;
use uuid::Uuid;

use crate::failure;

/// Failures in a row after which nobody is let through.
const FAILURES: u32 = 10;
/// How long that is at first; it doubles with every trial that fails.
const SHORTEST: Duration = Duration::from_secs(5);
/// And at most.
const LONGEST: Duration = Duration::from_secs(60);
/// Then one attempt in so much time is let through, until one succeeds or fails.
const BETWEEN_TRIALS: Duration = Duration::from_secs(1);
/// A time-out that was shorter than this says more of the agent than of the provider.
const TELLING: Duration = Duration::from_secs(10);
/// Providers and models that are remembered; over it the ones are forgotten that failed longest ago.
const MOST: usize = 10_000;

/// Tenant, provider, model.
type Key = (Uuid, String, String);

/// All that failed lately.
#[derive(Debug, Default)]
pub(crate) struct Breakers(Mutex<HashMap<Key, Breaker>>);

/// One provider's model that failed lately.
#[derive(Debug)]
struct Breaker {
    failures: u32,
    failed_at: Instant,
    /// Nobody is let through before. `None`: everybody is.
    shut_until: Option<Instant>,
}

impl Breakers {
    /// Whether an attempt may be made.
    ///
    /// # Errors
    /// Not yet: the failure says when it may.
    pub(crate) fn admit(
        &self,
        target: &ModelTarget,
        request: &ModelRequest,
        now: Instant,
    ) -> Result<Permit<'_>, ModelFailure> {
        if target.options.get("circuit_breaker") == Some(&Value::Bool(false)) || target.kind == "scripted" {
            return Ok(Permit { held: None, began: now });
        }
        let key = (target.tenant_id, target.name.clone(), request.model.clone());
        let mut all = self.all();
        let is_trial = match all.get_mut(&key) {
            Some(breaker) => breaker.admit(now).map_err(|left| held(breaker.failures, left))?,
            None => false,
        };
        Ok(Permit { held: Some((self, key, is_trial)), began: now })
    }

    fn failed(&self, key: Key, is_trial: bool, now: Instant) {
        let mut all = self.all();
        if all.len() >= MOST && !all.contains_key(&key) {
            let oldest = all.iter().min_by_key(|(_, breaker)| breaker.failed_at).map(|(key, _)| key.clone());
            oldest.map(|oldest| all.remove(&oldest));
        }
        all.entry(key).or_insert_with(|| Breaker::new(now)).failed(is_trial, now);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Key, Breaker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Breaker {
    fn new(now: Instant) -> Self {
        Self { failures: 0, failed_at: now, shut_until: None }
    }

    /// Whether this attempt is a trial; the error is the time until the next one may be made.
    fn admit(&mut self, now: Instant) -> Result<bool, Duration> {
        match self.shut_until {
            None => Ok(false),
            Some(until) if now < until => Err(until - now),
            Some(_) => {
                self.shut_until = Some(now + BETWEEN_TRIALS);
                Ok(true)
            }
        }
    }

    fn failed(&mut self, is_trial: bool, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.failed_at = now;
        // Those who were let through before it was shut don't shut it for longer.
        if self.failures >= FAILURES && (is_trial || self.shut_until.is_none()) {
            let doublings = (self.failures - FAILURES).min(8);
            self.shut_until = Some(now + (SHORTEST * (1 << doublings)).min(LONGEST));
        }
    }
}

fn held(failures: u32, left: Duration) -> ModelFailure {
    let message = format!("not asked: the last {failures} attempts on this provider's model failed");
    let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
    ModelFailure { retry_after_ms: Some(left), ..failure::of(FailureKind::Held, None, message) }
}

/// An attempt that may be made. One that is dropped without a word, as when its run is cancelled, says nothing of the
/// provider.
#[derive(Debug)]
pub(crate) struct Permit<'b> {
    held: Option<(&'b Breakers, Key, bool)>,
    began: Instant,
}

impl Permit<'_> {
    /// What came of it.
    pub(crate) fn settle(self, answer: &Result<ModelReply, ModelFailure>, patience: &Patience, now: Instant) {
        let Some((breakers, key, is_trial)) = self.held else { return };
        match answer {
            Err(failure) if tells_of_trouble(failure) => {
                let shortest = patience.total.min(patience.first).min(patience.idle);
                // A time-out of an impatient agent says neither.
                if shortest >= TELLING || now.saturating_duration_since(self.began) < shortest {
                    breakers.failed(key, is_trial, now);
                }
            }
            // Whatever else it said, it answered.
            _ => drop(breakers.all().remove(&key)),
        }
    }
}

/// Whether the provider is in trouble: it can't be reached, breaks off, or says so. One that asks for patience (408, 409,
/// 429) works.
fn tells_of_trouble(failure: &ModelFailure) -> bool {
    failure.kind == FailureKind::Passing && !matches!(failure.status, Some(408 | 409 | 425 | 429))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(tenant: u128, name: &str) -> ModelTarget {
        let (tenant_id, kind) = (Uuid::from_u128(tenant), "openai_chat".to_owned());
        ModelTarget { tenant_id, name: name.into(), kind, ..ModelTarget::default() }
    }

    fn request(model: &str) -> ModelRequest {
        ModelRequest { model: model.into(), ..ModelRequest::default() }
    }

    fn failed(status: Option<u16>) -> Result<ModelReply, ModelFailure> {
        Err(failure::of(FailureKind::Passing, status, "no"))
    }

    fn replied() -> Result<ModelReply, ModelFailure> {
        let reply = serde_json::json!({"text": "yes", "calls": [], "finish": "stop", "finish_reason": null,
            "usage": null, "extra": {}});
        Ok(serde_json::from_value(reply).expect("a reply"))
    }

    const PATIENT: Duration = Duration::from_secs(60);

    /// One attempt that comes to `answer`; the error is how long nobody is let through.
    fn attempt(
        breakers: &Breakers,
        answer: &Result<ModelReply, ModelFailure>,
        now: Instant,
    ) -> Result<(), u64> {
        let permit = breakers.admit(&target(1, "main"), &request("m"), now);
        let permit = permit.map_err(|failure| failure.retry_after_ms.expect("a time"))?;
        permit.settle(answer, &Patience::total(PATIENT), now);
        Ok(())
    }

    #[test]
    fn it_shuts_after_many_failures_and_opens_after_one_success() {
        let (breakers, begin) = (Breakers::default(), Instant::now());
        for _ in 0..FAILURES {
            assert_eq!(attempt(&breakers, &failed(Some(503)), begin), Ok(()));
        }
        assert_eq!(attempt(&breakers, &replied(), begin), Err(5_000));
        assert_eq!(attempt(&breakers, &replied(), begin + Duration::from_secs(3)), Err(2_000));
        let trial = begin + Duration::from_secs(5);
        assert_eq!(attempt(&breakers, &failed(None), trial), Ok(()));
        assert_eq!(attempt(&breakers, &replied(), trial), Err(10_000), "longer after a trial that failed");
        let again = trial + Duration::from_secs(10);
        let slow = breakers.admit(&target(1, "main"), &request("m"), again).expect("a trial");
        assert_eq!(attempt(&breakers, &replied(), again), Err(1_000), "one a second");
        let next = again + Duration::from_secs(1);
        let other = breakers.admit(&target(1, "main"), &request("m"), next).expect("another trial");
        other.settle(&replied(), &Patience::total(PATIENT), next);
        drop(slow);
        for _ in 0..FAILURES {
            assert_eq!(attempt(&breakers, &failed(Some(500)), again), Ok(()), "it counts anew");
        }
        assert_eq!(attempt(&breakers, &replied(), again), Err(5_000));
        for (other, model) in [(target(2, "main"), "m"), (target(1, "alt"), "m"), (target(1, "main"), "n")] {
            assert!(breakers.admit(&other, &request(model), again).is_ok(), "others are not held");
        }
    }

    #[test]
    fn what_says_nothing_of_the_provider_does_not_count() {
        let (breakers, now) = (Breakers::default(), Instant::now());
        for status in [408, 409, 429] {
            for _ in 0..2 * FAILURES {
                assert_eq!(attempt(&breakers, &failed(Some(status)), now), Ok(()));
            }
        }
        for _ in 0..2 * FAILURES {
            let permit = breakers.admit(&target(1, "main"), &request("m"), now).expect("let through");
            let short = Duration::from_millis(100);
            permit.settle(&failed(None), &Patience::total(short), now + short);
        }
        for _ in 0..2 * FAILURES {
            drop(breakers.admit(&target(1, "main"), &request("m"), now).expect("let through"));
        }
        let refused = Err(failure::of(FailureKind::Refused, Some(400), "no"));
        assert_eq!(attempt(&breakers, &refused, now), Ok(()));
        assert!(breakers.all().is_empty());
        for _ in 0..FAILURES {
            let permit = breakers.admit(&target(1, "main"), &request("m"), now).expect("let through");
            permit.settle(&failed(None), &Patience::total(Duration::from_millis(100)), now);
        }
        assert!(attempt(&breakers, &replied(), now).is_err(), "no connection is no time-out");
    }

    #[test]
    fn a_trial_that_is_given_up_lets_the_next_one_try() {
        let (breakers, now) = (Breakers::default(), Instant::now());
        (0..FAILURES).for_each(|_| attempt(&breakers, &failed(Some(502)), now).expect("let through"));
        let later = now + Duration::from_secs(6);
        drop(breakers.admit(&target(1, "main"), &request("m"), later).expect("a trial"));
        assert_eq!(attempt(&breakers, &replied(), later + BETWEEN_TRIALS), Ok(()));
    }

    #[test]
    fn it_can_be_switched_off() {
        let (breakers, now) = (Breakers::default(), Instant::now());
        let mut off = target(1, "main");
        off.options.insert("circuit_breaker".into(), false.into());
        for _ in 0..3 * FAILURES {
            let permit = breakers.admit(&off, &request("m"), now).expect("let through");
            permit.settle(&failed(Some(503)), &Patience::total(PATIENT), now);
        }
    }

    #[test]
    fn it_remembers_no_more_than_it_may() {
        let (breakers, now) = (Breakers::default(), Instant::now());
        for n in 0..MOST + 50 {
            let permit =
                breakers.admit(&target(1, "main"), &request(&n.to_string()), now).expect("let through");
            permit.settle(
                &failed(Some(500)),
                &Patience::total(PATIENT),
                now + Duration::from_millis(n as u64),
            );
        }
        assert_eq!(breakers.all().len(), MOST);
    }
}
