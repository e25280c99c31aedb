//! What must hold in the end.

use std::collections::BTreeMap;

use regex::Regex;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::forms::{self, Forms};
use super::{Range, Schema, Words};

/// What must hold once a case was played. What is left out may be anything.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// The run's status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Its stop reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The code of its error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// Its final answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerExpected>,
    /// Which tools ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolsExpected>,
    /// The tools of the calls that were denied, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denied: Option<Words>,
    /// Whether no call was denied at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_denied_action: Option<bool>,
    /// Entries that the ledger has, among others; an empty list: it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Vec<LedgerExpected>>,
    /// How often a scripted tool did what it is for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub effects: BTreeMap<String, Range>,
    /// How many requests reached a scripted tool.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Range>,
    /// Effects of which nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncertain: Option<Range>,
    /// Outputs that were kept as artifacts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Range>,
    /// Questions to people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvals: Option<Range>,
    /// Steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Range>,
    /// Executed calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Range>,
    /// Tokens in and out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Range>,
    /// Money, in micro-USD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_microusd: Option<Range>,
    /// Requests to the scripted model, fallbacks included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_requests: Option<Range>,
    /// Time from the start to the end, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<Range>,
    /// What the model was shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_saw: Option<ModelSaw>,
}

/// A final answer.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AnswerExpected {
    /// It is this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<String>,
    /// It has these words.
    #[serde(skip_serializing_if = "Words::is_empty")]
    pub contains: Words,
    /// It has none of these.
    #[serde(skip_serializing_if = "Words::is_empty")]
    pub lacks: Words,
    /// This regular expression is found in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<Pattern>,
    /// It is JSON that fits this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
}

/// A regular expression that compiles.
#[derive(Debug, Clone)]
pub struct Pattern(pub Regex);

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Regex::new(&text).map(Self).map_err(|fault| {
            let last = fault.to_string().lines().last().unwrap_or_default().to_owned();
            D::Error::custom(format!("no regular expression: {last}"))
        })
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

/// Which tools ran: let through and sent, answered by a person, or taken from the ledger.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolsExpected {
    /// These did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub called: Vec<CallExpected>,
    /// These did not.
    #[serde(skip_serializing_if = "Words::is_empty")]
    pub not_called: Words,
    /// These did one after another, with whatever between.
    #[serde(skip_serializing_if = "Words::is_empty")]
    pub order: Words,
    /// Calls of these were refused before anybody was asked: unknown, or not as their schema wants.
    #[serde(skip_serializing_if = "Words::is_empty")]
    pub rejected: Words,
}

/// Calls of one tool; in a file a name alone will do.
#[derive(Debug, Clone)]
pub struct CallExpected {
    /// The tool.
    pub name: String,
    /// How many such calls; at least one, where it isn't said.
    pub times: Option<Range>,
    /// Only calls whose input fits this count.
    pub input: Option<Schema>,
    /// Only calls whose result has these words count.
    pub result: Option<Words>,
    /// Only calls with this error code count.
    pub error_code: Option<String>,
}

impl Serialize for CallExpected {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { name, times, input, result, error_code } = self;
        let parts = [
            ("times", times.as_ref().map(|times| json!(times))),
            ("input", input.as_ref().map(|input| json!(input))),
            ("result", result.as_ref().map(|result| json!(result))),
            ("error_code", error_code.as_ref().map(|code| json!(code))),
        ];
        let parts: Vec<(&str, Value)> =
            parts.into_iter().filter_map(|(key, part)| Some((key, part?))).collect();
        if parts.is_empty() {
            return serializer.serialize_str(name);
        }
        let named = [("name", json!(name))].into_iter().chain(parts);
        named.map(|(key, part)| (key.to_owned(), part)).collect::<Value>().serialize(serializer)
    }
}

impl<'de> Forms<'de> for CallExpected {
    const NEEDED: &'static str = "the name of a tool, or {name: …, times: …, input: …}";

    fn of_text<E: Error>(text: &str) -> Result<Self, E> {
        Ok(Self { name: text.to_owned(), times: None, input: None, result: None, error_code: None })
    }

    fn of_map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Written {
            name: String,
            times: Option<Range>,
            input: Option<Schema>,
            result: Option<Words>,
            error_code: Option<String>,
        }
        let written = Written::deserialize(MapAccessDeserializer::new(map))?;
        let Written { name, times, input, result, error_code } = written;
        Ok(Self { name, times, input, result, error_code })
    }
}

impl<'de> Deserialize<'de> for CallExpected {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        forms::read(deserializer)
    }
}

/// An entry of the ledger, as far as it matters.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LedgerExpected {
    /// The tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// What became of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Whether it happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side_effect: Option<String>,
    /// How often it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Range>,
    /// Its error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// What a person said became of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<String>,
}

/// What the model was shown: the words of the messages of its requests.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelSaw {
    /// Each of these words at some time.
    #[serde(skip_serializing_if = "Words::is_empty")]
    pub contains: Words,
    /// None of these at any time.
    #[serde(skip_serializing_if = "Words::is_empty")]
    pub lacks: Words,
    /// The roles of the messages of the last request, in order.
    #[serde(skip_serializing_if = "Words::is_empty")]
    pub roles: Words,
    /// The longest request, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chars: Option<Range>,
}
