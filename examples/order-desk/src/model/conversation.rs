//! Reads a chat's messages into what the clerk needs: the customer's letter, and what became of
//! every call so far.

use std::collections::BTreeMap;

use serde_json::Value;

/// A conversation, as far as it matters for the next reply.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// The customer's letter: the first message of the user.
    pub(super) letter: String,
    /// The calls that have an answer, in the order of their answers.
    pub(super) calls: Vec<Call>,
    /// How many replies the model gave before.
    pub(super) replies: usize,
}

/// A call with its answer.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) outcome: Outcome,
}

/// What became of a call.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It ran; this is what the tool said.
    Done(Value),
    /// It did not run, or not to a good end.
    Not { status: String, code: String, message: String },
}

impl Conversation {
    /// Reads the `messages` of a request. Like the real server it refuses a history in which a
    /// call has no answer, or an answer no call.
    pub(super) fn read(messages: &[Value]) -> Result<Self, String> {
        let mut conversation = Self::default();
        let mut open: BTreeMap<String, String> = BTreeMap::new();
        for (at, message) in messages.iter().enumerate() {
            let role = message["role"].as_str().ok_or_else(|| format!("messages[{at}] has no role"))?;
            if role != "tool" && !open.is_empty() {
                return Err(format!("messages[{at}]: tool calls before it were not answered"));
            }
            match role {
                "user" if conversation.letter.is_empty() => conversation.letter = text(message),
                "assistant" => {
                    conversation.replies += 1;
                    open = called(message);
                }
                "tool" => {
                    let id = message["tool_call_id"].as_str().unwrap_or_default();
                    let tool = open
                        .remove(id)
                        .ok_or_else(|| format!("messages[{at}] answers no call of the message before it"))?;
                    conversation.calls.push(Call { tool, outcome: Outcome::read(&text(message)) });
                }
                _ => {}
            }
        }
        if open.is_empty() { Ok(conversation) } else { Err("the last tool calls were not answered".into()) }
    }

    /// What the last call of a tool came to.
    pub(super) fn last(&self, tool: &str) -> Option<&Outcome> {
        self.calls.iter().rev().find(|call| call.tool == tool).map(|call| &call.outcome)
    }
}

impl Outcome {
    fn read(content: &str) -> Self {
        let value: Value = serde_json::from_str(content).unwrap_or_else(|_| content.into());
        match (value["status"].as_str(), value["error_code"].as_str()) {
            (Some(status), Some(code)) => Self::Not {
                status: status.to_owned(),
                code: code.to_owned(),
                message: value["message"].as_str().unwrap_or_default().to_owned(),
            },
            _ => Self::Done(value),
        }
    }
}

fn called(message: &Value) -> BTreeMap<String, String> {
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    calls
        .iter()
        .filter_map(|call| {
            Some((call["id"].as_str()?.to_owned(), call["function"]["name"].as_str()?.to_owned()))
        })
        .collect()
}

/// A message's text, whether its content is a string or a list of parts.
fn text(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}
