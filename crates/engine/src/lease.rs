//! Leases that this process holds: renewed together by a task that nothing else can block, and given up by itself when
//! they can't be renewed in time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use answerable_ports::Lease;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::env::Env;

/// Held leases.
#[derive(Debug)]
pub(crate) struct Leases {
    lease_for: Duration,
    held: Mutex<HashMap<Lease, CancellationToken>>,
}

/// One held lease; dropped, it is renewed no more.
pub(crate) struct Held {
    env: Arc<Env>,
    lease: Lease,
    /// Cancelled when the lease is lost.
    pub(crate) lost: CancellationToken,
}

impl Leases {
    pub(crate) fn new(lease_for: Duration) -> Self {
        Self { lease_for, held: Mutex::default() }
    }

    /// Runs whose leases are held.
    pub(crate) fn runs(&self) -> Vec<Uuid> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).keys().map(|lease| lease.run_id.0).collect()
    }

    fn all(&self) -> Vec<Lease> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    fn lose(&self, lease: &Lease) {
        if let Some(token) = self.held.lock().unwrap_or_else(PoisonError::into_inner).get(lease) {
            token.cancel();
        }
    }
}

/// Takes note of a lease that was claimed.
pub(crate) fn hold(env: &Arc<Env>, lease: Lease) -> Held {
    let lost = CancellationToken::new();
    env.leases.held.lock().unwrap_or_else(PoisonError::into_inner).insert(lease, lost.clone());
    Held { env: Arc::clone(env), lease, lost }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.env.leases.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.lease);
    }
}

/// Renews all leases several times within their span, until `stop`. If that fails for two thirds of it, this process
/// stops its own work: before the leases run out, so that nobody else has begun.
pub(crate) async fn heartbeat(env: Arc<Env>, stop: CancellationToken) {
    let span = env.leases.lease_for;
    let mut renewed_at = Instant::now();
    loop {
        let left = |since: Instant| (span * 2 / 3).saturating_sub(since.elapsed());
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep((span / 4).min(left(renewed_at))) => {}
        }
        let leases = env.leases.all();
        if leases.is_empty() {
            renewed_at = Instant::now();
            continue;
        }
        let began = Instant::now();
        let renewal = env.store.renew(env.config.server, &leases, span);
        match tokio::time::timeout((span / 3).min(left(renewed_at)), renewal).await {
            Ok(Ok(held)) => {
                renewed_at = began;
                leases
                    .iter()
                    .filter(|lease| !held.contains(&lease.run_id.0))
                    .for_each(|lease| env.leases.lose(lease));
            }
            Ok(Err(error)) => tracing::warn!(%error, leases = leases.len(), "leases could not be renewed"),
            Err(_) => tracing::warn!(leases = leases.len(), "renewing leases takes too long"),
        }
        if left(renewed_at).is_zero() {
            tracing::warn!(
                leases = leases.len(),
                "leases run out; this server stops its own work on their runs"
            );
            leases.iter().for_each(|lease| env.leases.lose(lease));
            // Those that are claimed from here on have a span of their own.
            renewed_at = Instant::now();
        }
    }
}
