//! Model wires: one file per vendor format. Each renders the neutral request, sends it through the guarded client and
//! reads one reply; retries, fallbacks and budgets are the core's business.
//!
//! Invariant: a reply that did not come whole is a failure, never a shorter reply.

mod failure;
mod openai_chat;
mod scripted;
mod secrets;
mod sse;
mod words;

use std::time::Duration;

use answerable_core::model::{FailureKind, ModelFailure, ModelReply, ModelRequest};
use answerable_ports::{DeltaSink, ModelProvider, ModelTarget};
use answerable_tools::GuardedClient;
use async_trait::async_trait;

/// Asks whatever kind of provider a target is.
#[derive(Debug, Clone)]
pub struct Models {
    client: GuardedClient,
}

impl Models {
    /// Requests go out through `client`.
    #[must_use]
    pub fn new(client: GuardedClient) -> Self {
        Self { client }
    }
}

#[async_trait]
impl ModelProvider for Models {
    async fn ask(
        &self,
        target: &ModelTarget,
        request: &ModelRequest,
        timeout: Duration,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelFailure> {
        match target.kind.as_str() {
            "openai_chat" => openai_chat::ask(&self.client, target, request, timeout, deltas).await,
            "scripted" => scripted::ask(target, request, timeout, deltas).await,
            other => {
                let message = format!("providers of kind {other} are not available in this version");
                Err(failure::of(FailureKind::Unusable, None, message))
            }
        }
    }
}
