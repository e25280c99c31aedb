//! ModelProvider: speak to this vendor, hand back one reply.

use std::collections::BTreeMap;
use std::time::Duration;

use answerable_core::agent::Prices;
use answerable_core::model::{ModelFailure, ModelReply, ModelRequest};
use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::signals::Speaker;

/// A tenant's provider, ready to be asked.
#[derive(Debug, Clone, Default)]
pub struct ModelTarget {
    /// Whose it is.
    pub tenant_id: Uuid,
    /// The tenant's name for it.
    pub name: String,
    /// `openai_chat`, `openai_responses`, `anthropic` or `scripted`.
    pub kind: String,
    /// Address of the API, without a slash at its end; empty for `scripted`.
    pub base_url: String,
    /// Key, if it needs one.
    pub api_key: Option<SecretString>,
    /// More headers.
    pub headers: BTreeMap<String, SecretString>,
    /// Prices by model.
    pub prices: Prices,
    /// Switches of the wire.
    pub options: Map<String, Value>,
    /// Replies of kind `scripted`.
    pub script: Vec<Value>,
    /// The tenant has a quota of the day: each attempt needs an allowance.
    pub day_limited: bool,
}

/// Takes the words of a reply as they come.
pub trait DeltaSink: Send + Sync {
    /// Some more text.
    fn text(&self, text: &str);
}

impl DeltaSink for Speaker {
    fn text(&self, text: &str) {
        self.say(text);
    }
}

/// How long an attempt is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For its end.
    pub total: Duration,
    /// For the first thing that it says; comments and pings say nothing.
    pub first: Duration,
    /// From one thing that it says to the next.
    pub idle: Duration,
}

impl Patience {
    /// Waits that long for the end, and no less for anything before it.
    pub fn total(total: Duration) -> Self {
        Self { total, first: total, idle: total }
    }
}

/// Asks a model once. Retries, fallbacks and budgets are the core's business.
#[async_trait]
pub trait ModelProvider: Send + Sync {
    /// One attempt, which takes no longer than `patience`. Dropping the future hangs up.
    ///
    /// # Errors
    /// Why it came to nothing; a reply that can't be read is a failure too. Messages hold no secrets.
    async fn ask(
        &self,
        target: &ModelTarget,
        request: &ModelRequest,
        patience: Patience,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelFailure>;
}
