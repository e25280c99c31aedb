//! The real model that takes the place of the cases' own.

use clap::Args;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};

use crate::Failure;
use crate::cli::remote::base;

const OPENAI: &str = "https://api.openai.com/v1";

/// Which real model, if any.
#[derive(Args, Debug)]
pub(super) struct LiveArgs {
    /// Play with this real model in the place of what the cases say
    #[arg(long, value_name = "MODEL", help_heading = "Real models and tools")]
    model: Option<String>,
    /// Where the model is: the base URL of its API, or with --url the name of a provider of the key's tenant
    /// [default: $OPENAI_BASE_URL, else https://api.openai.com/v1]
    #[arg(long, value_name = "URL|NAME", requires = "model", help_heading = "Real models and tools")]
    provider: Option<String>,
    /// What the provider speaks
    #[arg(long, value_name = "KIND", default_value = "openai_chat", help_heading = "Real models and tools")]
    provider_kind: String,
    /// Variable that holds the provider's key
    #[arg(
        long,
        value_name = "VARIABLE",
        default_value = "OPENAI_API_KEY",
        help_heading = "Real models and tools"
    )]
    provider_key_env: String,
}

/// A real model.
#[derive(Debug, Clone)]
pub(super) struct LiveModel {
    /// Its name at its provider.
    pub(super) model: String,
    provider: Provider,
}

#[derive(Debug, Clone)]
enum Provider {
    /// One that the tenant has.
    Stored(String),
    /// One that plays bring along.
    Brought { kind: String, base_url: String, key: Option<SecretString> },
}

impl LiveArgs {
    /// The model that was asked for. Without an address it is OpenAI's, or whoever stands in for it.
    pub(super) fn model(&self) -> Result<Option<LiveModel>, Failure> {
        let Some(model) = self.model.clone() else { return Ok(None) };
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let place = self.provider.clone().or_else(|| variable("OPENAI_BASE_URL"));
        let place = place.unwrap_or_else(|| OPENAI.to_owned());
        let provider = if place.contains("://") {
            base(&place).map_err(|_| Failure::misconfigured("--provider is no http or https URL"))?;
            let key = variable(&self.provider_key_env).map(SecretString::from);
            Provider::Brought { kind: self.provider_kind.clone(), base_url: place, key }
        } else {
            Provider::Stored(place)
        };
        Ok(Some(LiveModel { model, provider }))
    }
}

impl LiveModel {
    /// The name of the provider that the tenant has already.
    pub(super) fn stored(&self) -> Option<&str> {
        match &self.provider {
            Provider::Stored(name) => Some(name),
            Provider::Brought { .. } => None,
        }
    }

    /// The provider to store; `None` where the tenant has it already.
    pub(super) fn spec(&self, prices: &Map<String, Value>) -> Option<Value> {
        let Provider::Brought { kind, base_url, key } = &self.provider else { return None };
        let mut spec = json!({"kind": kind, "base_url": base_url, "prices": prices});
        if let Some(key) = key {
            spec["api_key"] = key.expose_secret().into();
        }
        Some(spec)
    }

    /// Its key, which no report may tell.
    pub(super) fn key(&self) -> Option<&str> {
        match &self.provider {
            Provider::Brought { key: Some(key), .. } => Some(key.expose_secret()),
            _ => None,
        }
    }
}
