//! Model wires: one file per vendor format. Each renders the neutral request and puts one reply together; `exchange` sends
//! the one through the guarded client and reads the other. Retries, fallbacks and budgets are the core's business; what a
//! tenant's provider was like lately is kept in `breaker`.
//!
//! Invariant: a reply that did not come whole is a failure, never a shorter reply.

mod anthropic;
mod assembly;
mod attachments;
mod bounds;
mod breaker;
mod exchange;
mod failure;
mod fillers;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod hints;
#[cfg(test)]
pub mod mutations;
mod names;
mod openai_chat;
mod openai_responses;
mod reader;
mod refusal;
mod scripted;
mod secrets;
mod strict_schema;
mod system_text;
mod tool_schema;
#[cfg(test)]
#[path = "../tests/outside/valid/mod.rs"]
mod valid;
mod words;

// What the fuzz targets call names the crate from outside.
#[cfg(test)]
extern crate self as answerable_models;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use answerable_core::model::{FailureKind, ModelFailure, ModelReply, ModelRequest};
use answerable_ports::{DeltaSink, ModelProvider, ModelTarget, Patience};
use answerable_tools::GuardedClient;
use async_trait::async_trait;

use breaker::Breakers;
use names::Names;
use words::Words;

/// Asks whatever kind of provider a target is.
#[derive(Debug, Clone)]
pub struct Models {
    client: GuardedClient,
    breakers: Arc<Breakers>,
}

impl Models {
    /// Requests go out through `client`.
    #[must_use]
    pub fn new(client: GuardedClient) -> Self {
        Self { client, breakers: Arc::default() }
    }

    async fn ask_once(
        &self,
        target: &ModelTarget,
        request: &ModelRequest,
        patience: Patience,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelFailure> {
        let words = Words::new(secrets::of_replies(target), deltas);
        let (client, asked, options) = (&self.client, (target, request), &target.options);
        match target.kind.as_str() {
            "openai_chat" => {
                let (sent, pieces) = (openai_chat::outgoing(request, options), openai_chat::pieces(words));
                exchange::ask(client, asked, sent, pieces, patience).await
            }
            "openai_responses" => {
                let sent = openai_responses::outgoing(request, options);
                exchange::ask(client, asked, sent, openai_responses::pieces(words), patience).await
            }
            "anthropic" => {
                let (sent, pieces) = (anthropic::outgoing(request, options), anthropic::pieces(words));
                exchange::ask(client, asked, sent, pieces, patience).await
            }
            "scripted" => scripted::ask(target, request, patience.total, deltas).await,
            other => {
                let message = format!("this server knows no providers of kind {other}");
                Err(failure::of(FailureKind::Unusable, None, message))
            }
        }
    }
}

#[async_trait]
impl ModelProvider for Models {
    async fn ask(
        &self,
        target: &ModelTarget,
        request: &ModelRequest,
        patience: Patience,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelFailure> {
        let permit = self.breakers.admit(target, request, Instant::now())?;
        let mut request = Cow::Borrowed(request);
        let names =
            if Names::are_legal(&request) { Names::default() } else { Names::make_legal(request.to_mut()) };
        let mut answer = self.ask_once(target, &request, patience, deltas).await;
        permit.settle(&answer, &patience, Instant::now());
        if let Ok(reply) = &mut answer {
            names.put_back(reply);
        }
        answer
    }
}
