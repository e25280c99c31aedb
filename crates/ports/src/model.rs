//! ModelProvider: speak to this vendor, hand back one reply.

use std::collections::BTreeMap;
use std::time::Duration;

use answerable_core::agent::Prices;
use answerable_core::model::{ModelFailure, ModelReply, ModelRequest};
use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::{Map, Value};

/// A tenant's provider, ready to be asked.
#[derive(Debug, Clone)]
pub struct ModelTarget {
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
}

/// Takes the words of a reply as they come.
pub trait DeltaSink: Send + Sync {
    /// Some more text.
    fn text(&self, text: &str);
}

/// Asks a model once. Retries, fallbacks and budgets are the core's business.
#[async_trait]
pub trait ModelProvider: Send + Sync {
    /// One attempt, which takes `timeout` at most. Dropping the future hangs up.
    ///
    /// # Errors
    /// Why it came to nothing; a reply that can't be read is a failure too. Messages hold no secrets.
    async fn ask(
        &self,
        target: &ModelTarget,
        request: &ModelRequest,
        timeout: Duration,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelFailure>;
}
