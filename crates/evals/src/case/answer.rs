//! What tools answer.

use std::time::Duration;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::Schema;
use super::forms::{self, Forms};

/// Longest text that `repeat_text` makes, in bytes.
const LONGEST_TEXT: usize = 32 << 20;

/// The answers of one tool.
#[derive(Debug, Clone, Default)]
pub struct ToolScript {
    /// Each is given once, in order, to the first request that it is for; the last that fits, again and again.
    pub answers: Vec<Answer>,
    /// A known idempotency key gets its first answer again, with no second effect.
    pub dedupe: bool,
}

impl<'de> Forms<'de> for ToolScript {
    const NEEDED: &'static str = "a list of answers, or {answers: …, dedupe: true}";

    fn of_list<A: SeqAccess<'de>>(list: A) -> Result<Self, A::Error> {
        let answers = Vec::deserialize(SeqAccessDeserializer::new(list))?;
        Self { answers, dedupe: false }.judged().map_err(A::Error::custom)
    }

    fn of_map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Written {
            answers: Vec<Answer>,
            #[serde(default)]
            dedupe: bool,
        }
        let Written { answers, dedupe } = Written::deserialize(MapAccessDeserializer::new(map))?;
        Self { answers, dedupe }.judged().map_err(A::Error::custom)
    }
}

impl ToolScript {
    fn judged(self) -> Result<Self, &'static str> {
        if self.answers.is_empty() { Err("at least one answer is needed") } else { Ok(self) }
    }
}

impl<'de> Deserialize<'de> for ToolScript {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        forms::read(deserializer)
    }
}

/// One answer, and how it comes.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers.
    pub headers: Map<String, Value>,
    /// Its body.
    pub body: Body,
    /// Time before it is given; an effect is made at once.
    pub delay: Duration,
    /// The line is cut in place of an answer; an effect is made all the same.
    pub drop: bool,
    /// Whether the tool does what it is for; otherwise it does where the status is below 300.
    applies: Option<bool>,
    /// Only for requests whose input fits this.
    pub input: Option<Schema>,
    /// The code that a recorded answer to a client tool had.
    pub error_code: Option<String>,
}

/// The body of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// JSON.
    Json(Value),
    /// Text.
    Text(String),
    /// A text, so many times.
    Repeated(String, usize),
}

impl Body {
    /// Its media type and its text.
    #[must_use]
    pub fn render(&self) -> (&'static str, String) {
        const PLAIN: &str = "text/plain; charset=utf-8";
        match self {
            Self::Json(value) => ("application/json", value.to_string()),
            Self::Text(text) => (PLAIN, text.clone()),
            Self::Repeated(text, times) => (PLAIN, text.repeat(*times)),
        }
    }
}

impl Answer {
    /// What a tool answers that the case says nothing of.
    #[must_use]
    pub fn usual() -> Self {
        Self::of(200, Body::Json(serde_json::json!({"ok": true})))
    }

    /// An answer at once.
    #[must_use]
    pub fn of(status: u16, body: Body) -> Self {
        Self {
            status,
            headers: Map::new(),
            body,
            delay: Duration::ZERO,
            drop: false,
            applies: None,
            input: None,
            error_code: None,
        }
    }

    /// Whether the tool does what it is for.
    #[must_use]
    pub fn applies(&self) -> bool {
        self.applies.unwrap_or(self.status < 300)
    }

    /// The same once more: at once and whole.
    #[must_use]
    pub fn again(self) -> Self {
        Self { delay: Duration::ZERO, drop: false, ..self }
    }

    /// Whether it is for a request with this input.
    #[must_use]
    pub fn is_for(&self, input: &Value) -> bool {
        self.input.as_ref().is_none_or(|schema| schema.misfit(input).is_none())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    status: Option<u16>,
    #[serde(default)]
    headers: Map<String, Value>,
    body: Option<Value>,
    text: Option<String>,
    repeat_text: Option<(String, usize)>,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    drop: bool,
    applies: Option<bool>,
    input: Option<Schema>,
}

impl<'de> Deserialize<'de> for Answer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Written::deserialize(deserializer)?.answer().map_err(D::Error::custom)
    }
}

impl Written {
    fn answer(self) -> Result<Answer, &'static str> {
        let status = match self.status.unwrap_or(200) {
            status @ 200..=599 => status,
            _ => return Err("status is from 200 to 599"),
        };
        let body = match (self.body, self.text, self.repeat_text) {
            (None, None, None) if status < 300 => Body::Json(serde_json::json!({"ok": true})),
            (None, None, None) => Body::Json(serde_json::json!({"status": status})),
            (Some(json), None, None) => Body::Json(json),
            (None, Some(text), None) => Body::Text(text),
            (None, None, Some((text, times))) if text.len().saturating_mul(times) <= LONGEST_TEXT => {
                Body::Repeated(text, times)
            }
            (None, None, Some(_)) => return Err("repeat_text makes more than 32 MiB"),
            _ => return Err("an answer has one of: body, text, repeat_text"),
        };
        Ok(Answer {
            headers: self.headers,
            delay: Duration::from_millis(self.delay_ms),
            drop: self.drop,
            applies: self.applies,
            input: self.input,
            ..Answer::of(status, body)
        })
    }
}
