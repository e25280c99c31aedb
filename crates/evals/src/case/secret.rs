//! Secrets of a case.

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess};
use serde::{Deserialize, Deserializer};

use super::forms::{self, Forms};

/// A secret that the agent's headers name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Secret {
    /// Made up for the case; no real one belongs into a file.
    Made(String),
    /// The value of this environment variable.
    Env(String),
}

impl<'de> Forms<'de> for Secret {
    const NEEDED: &'static str = "a text, or {env: NAME}";

    fn of_text<E: Error>(text: &str) -> Result<Self, E> {
        if text.is_empty() {
            Err(E::custom("a secret has at least one character"))
        } else {
            Ok(Self::Made(text.to_owned()))
        }
    }

    fn of_map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Written {
            env: String,
        }
        Written::deserialize(MapAccessDeserializer::new(map)).map(|written| Self::Env(written.env))
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        forms::read(deserializer)
    }
}
