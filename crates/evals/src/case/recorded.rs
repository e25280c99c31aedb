//! What was recorded of a run that a case was made from.

use std::collections::BTreeMap;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::forms::{self, Forms};
use super::{Answer, Approval, Body, ToolScript};

/// The tools of a case.
#[derive(Debug, Clone)]
pub enum Tools {
    /// Scripted, by name. Others answer `{"ok": true}`.
    Scripted(BTreeMap<String, ToolScript>),
    /// As they answered once.
    Recorded(Vec<RecordedCall>),
    /// The real ones.
    Live,
}

impl Default for Tools {
    fn default() -> Self {
        Self::Scripted(BTreeMap::new())
    }
}

impl<'de> Forms<'de> for Tools {
    const NEEDED: &'static str = "answers by tool, a list of recorded calls, or the word live";

    fn of_text<E: Error>(text: &str) -> Result<Self, E> {
        if text == "live" { Ok(Self::Live) } else { Err(forms::needed::<Self, E>()) }
    }

    fn of_list<A: SeqAccess<'de>>(list: A) -> Result<Self, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Self::Recorded)
    }

    fn of_map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        BTreeMap::deserialize(MapAccessDeserializer::new(map)).map(Self::Scripted)
    }
}

impl<'de> Deserialize<'de> for Tools {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        forms::read(deserializer)
    }
}

/// An attempt on a tool, and what came of it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedCall {
    /// The tool.
    pub tool_name: String,
    /// Its input.
    #[serde(default)]
    pub input: Value,
    /// What came of it.
    #[serde(default)]
    pub outcome: Outcome,
    /// What the tool said.
    #[serde(default)]
    pub content: String,
    /// What went wrong.
    #[serde(default)]
    pub error_code: Option<String>,
    #[serde(rename = "step")]
    _step: Option<u32>,
    #[serde(rename = "tool_call_id")]
    _tool_call_id: Option<String>,
    #[serde(rename = "input_hash")]
    _input_hash: Option<String>,
    #[serde(rename = "attempt")]
    _attempt: Option<u32>,
    #[serde(rename = "at_ms")]
    _at_ms: Option<u64>,
}

/// What came of an attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It happened.
    #[default]
    Succeeded,
    /// It did not, and won't.
    Refused,
    /// It did not this time.
    NotDone,
    /// Nobody knows.
    Unclear,
    /// The API's caller answered it.
    Submitted,
    /// A person gave the result; the tool heard nothing.
    Answered,
}

/// Longer than what any tool's limit lets the model see.
const TOO_LARGE: (&str, usize) = ("more than the tool may say ", 40_000);

impl RecordedCall {
    /// What the tool answers, so that the same comes of it again.
    #[must_use]
    pub fn answer(&self) -> Answer {
        let (status, said) = self.http();
        let body = if self.error_code.as_deref() == Some("OUTPUT_TOO_LARGE") {
            Body::Repeated(TOO_LARGE.0.to_owned(), TOO_LARGE.1)
        } else {
            Body::Text(said.to_owned())
        };
        let mut answer = Answer::of(status, body);
        answer.error_code.clone_from(&self.error_code);
        match self.outcome {
            Outcome::NotDone => {
                answer.headers.insert("retry-after".to_owned(), "0".into());
            }
            Outcome::Unclear if status < 300 => answer.drop = true,
            _ => {}
        }
        answer
    }

    /// The status that means this outcome, and the words that came with it. A failure tells of both, if it was one over
    /// HTTP.
    fn http(&self) -> (u16, &str) {
        let told = self.content.strip_prefix("answered ").and_then(|rest| {
            let (status, said) = rest.split_once(": ").unwrap_or((rest, ""));
            Some((status.parse::<u16>().ok().filter(|status| (300..600).contains(status))?, said))
        });
        let by_code = match self.error_code.as_deref() {
            Some("PERMISSION_DENIED") => 403,
            Some("NOT_FOUND") => 404,
            Some("CONFLICT") => 409,
            Some("RATE_LIMITED") => 429,
            Some("TIMEOUT") => 408,
            Some("UNAVAILABLE") => 503,
            _ => 422,
        };
        match self.outcome {
            Outcome::Succeeded | Outcome::Answered => (200, &self.content),
            Outcome::Submitted if self.error_code.is_none() => (200, &self.content),
            Outcome::Submitted => (by_code, &self.content),
            Outcome::Refused | Outcome::NotDone => told.unwrap_or((by_code, &self.content)),
            Outcome::Unclear if self.error_code.as_deref() == Some("TIMEOUT") => (408, ""),
            // Without an answer the line was cut.
            Outcome::Unclear => told.unwrap_or((200, "")),
        }
    }
}

/// Who let a call happen, or not.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// The step.
    #[serde(default)]
    pub step: u32,
    /// The tool.
    pub tool_name: String,
    /// The hash of the model's input.
    #[serde(default)]
    pub input_hash: String,
    /// The rule that decided first.
    #[serde(default)]
    pub rule: Option<usize>,
    /// Whose policy it is a rule of: `agent`, `tenant` or `run`; an agent's where nothing is said.
    #[serde(default)]
    pub policy: Option<String>,
    /// Who decided in the end.
    #[serde(default)]
    pub by: String,
    /// Why.
    #[serde(default)]
    pub reason: Option<String>,
    /// A person's word: `approve`, `deny` or `answer`.
    #[serde(default)]
    pub decision: Option<String>,
    /// The arguments that the person put in the place of the model's.
    #[serde(default)]
    pub input: Option<Map<String, Value>>,
    /// The result that the person gave.
    #[serde(default)]
    pub content: Option<Value>,
    #[serde(rename = "effect")]
    _effect: Option<String>,
    #[serde(rename = "policy_version")]
    _policy_version: Option<String>,
    #[serde(rename = "tool_call_id")]
    _tool_call_id: Option<String>,
}

impl Decision {
    /// What a person said, or what came of nobody's saying anything; `None` where nobody was asked.
    #[must_use]
    pub fn word(&self) -> Option<&str> {
        let expired = (self.by == "expiry").then_some("deny");
        self.decision.as_deref().or(expired)
    }

    /// Whether it was made on such a question.
    #[must_use]
    pub fn is_on(&self, ask: &Value) -> bool {
        let is = |name: &str, wanted: &str| ask.get(name).and_then(Value::as_str) == Some(wanted);
        self.word().is_some() && is("tool_name", &self.tool_name) && is("input_hash", &self.input_hash)
    }

    /// What it takes to decide so once more.
    #[must_use]
    pub fn again(&self) -> Approval {
        Approval {
            tool: Some(self.tool_name.clone()),
            input: self.input.clone(),
            content: self.content.clone(),
            reason: self.reason.clone().filter(|reason| !reason.is_empty() && self.decision.is_some()),
            ..Approval::default()
        }
    }
}

/// A word that was said to the run while it went on.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steer {
    /// The step whose context it joined.
    pub step: u32,
    /// The word.
    pub content: String,
    /// Its pieces, where it was more than text.
    #[serde(default)]
    pub parts: Vec<Value>,
    #[serde(rename = "pinned", default)]
    _pinned: bool,
    #[serde(rename = "at_ms")]
    _at_ms: Option<u64>,
}
