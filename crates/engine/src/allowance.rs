//! A tenant's day: where it has a quota, an attempt on a model waits here for its allowance, before anything is sent.

use std::time::Duration;

use answerable_core::budget::dearest;
use answerable_core::model::{FailureKind, ModelFailure, ModelRequest};
use answerable_core::run::Event;
use answerable_ports::{Allowance, AllowanceWanted, ModelTarget, StoreError};
use tokio::time::sleep;

use crate::env::jitter;
use crate::model_call::ModelCall;
use crate::session::patiently;

/// Pauses between two questions, where requests that are out may take what is left.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

impl ModelCall {
    /// Waits for an allowance, as long as the run may wait: its timers end it, and a cancel. Gives the most that the reply
    /// may have, or what comes of the attempt in its place.
    pub(crate) async fn allowance(
        &self,
        target: &ModelTarget,
        request: &ModelRequest,
    ) -> Result<Option<u64>, Event> {
        if !target.day_limited {
            return Ok(request.max_output_tokens);
        }
        let wanted = self.wanted(target, request);
        let mut pause = FIRST_PAUSE;
        loop {
            match patiently(|| self.ask_for(wanted)).await {
                Ok(Allowance::Given(most)) => return Ok(most),
                Ok(Allowance::UsedUp(limit, _)) => {
                    return Err(Event::QuotaUsedUp { at: self.env.now(), limit });
                }
                // Whoever awaits this is dropped as soon as that is known here too.
                Ok(Allowance::Lost) => std::future::pending().await,
                Ok(Allowance::Wait) => {
                    sleep(pause / 2 + pause * u32::from(jitter()) / 2000).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(error) => {
                    tracing::error!(%error, "what is left of a tenant's day can't be read");
                    return Err(self.failed(Some(target), unread(), 0));
                }
            }
        }
    }

    fn wanted(&self, target: &ModelTarget, request: &ModelRequest) -> AllowanceWanted {
        let (input_tokens, price) = (self.estimate.input_tokens, target.prices.get(&request.model));
        AllowanceWanted {
            input_tokens,
            output_tokens: request.max_output_tokens,
            cost_microusd: price.map_or(0, |price| dearest(price, input_tokens)),
            output_microusd_per_mtok: price.map(|price| price.output_microusd_per_mtok),
        }
    }

    /// One of this process asks about a tenant at a time: the question holds a connection while others ask.
    async fn ask_for(&self, wanted: AllowanceWanted) -> Result<Allowance, StoreError> {
        let lease = self.facts.lease;
        let _turn = self.env.days.turn(lease.tenant_id, "").await;
        self.env.store.take_allowance(lease, wanted).await
    }
}

/// Nothing was sent, and it is tried again.
fn unread() -> ModelFailure {
    let message = "what is left of the tenant's day can't be read; nothing was sent".to_owned();
    ModelFailure { kind: FailureKind::Held, status: None, message, retry_after_ms: None, usage: None }
}
