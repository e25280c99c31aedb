//! What the model says.

mod written;

use std::time::Duration;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, SeqAccess};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::forms::{self, Forms};

/// The model of a case.
#[derive(Debug, Clone)]
pub enum Model {
    /// These replies, in order.
    Replies(Vec<Reply>),
    /// A real one.
    Live,
}

impl<'de> Forms<'de> for Model {
    const NEEDED: &'static str = "a list of replies, or the word live";

    fn of_text<E: Error>(text: &str) -> Result<Self, E> {
        if text == "live" { Ok(Self::Live) } else { Err(forms::needed::<Self, E>()) }
    }

    fn of_list<A: SeqAccess<'de>>(list: A) -> Result<Self, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Self::Replies)
    }
}

impl<'de> Deserialize<'de> for Model {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        forms::read(deserializer)
    }
}

/// One reply, and how it comes.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// What it is.
    pub what: What,
    /// Time before anything is said.
    pub delay: Duration,
    /// The line is cut after so many bytes of the body.
    pub cut_after: Option<usize>,
    /// The provider that says it, where it was recorded; the agent's own, where it isn't said.
    pub provider: Option<String>,
    /// The step that it was recorded in.
    pub step: Option<u32>,
}

/// What a reply is.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A message of the model.
    Said(Said),
    /// An answer of the provider's server, as it stands.
    Http {
        /// Its status.
        status: u16,
        /// Its headers.
        headers: Map<String, Value>,
        /// Its body: a text as it is, all else as JSON.
        body: Value,
    },
    /// The line is cut before anything is said.
    Drop,
}

/// A message of the model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Said {
    /// Its text.
    pub text: String,
    /// The tools that it calls, with their arguments: an object, or a text that is sent as it is.
    pub tool_calls: Vec<Called>,
    /// Why it ends; where nothing is said, what such a message ends with.
    pub finish_reason: Option<String>,
    /// Tokens; `None`: the provider tells none.
    pub usage: Option<Usage>,
    /// More fields of the message.
    pub message: Map<String, Value>,
}

/// A call as the model writes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Called {
    /// The tool.
    pub name: String,
    /// An object, or a text that is sent as it is.
    pub arguments: Value,
    /// The model's own id for it.
    pub id: Option<String>,
}

/// Tokens that a message tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// In, cached ones included.
    pub input: u64,
    /// Out.
    pub output: u64,
    /// In, out of a cache.
    pub cached: u64,
}

impl Usage {
    /// What a message tells where the case doesn't say.
    pub const USUAL: Self = Self { input: 10, output: 5, cached: 0 };
}

impl<'de> Deserialize<'de> for Reply {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        written::Written::deserialize(deserializer)?.reply().map_err(D::Error::custom)
    }
}
