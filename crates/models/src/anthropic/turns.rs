//! The history as the wire wants it: the user and the assistant in turns, the user first and last.

use answerable_core::message::{Message, Role};
use answerable_core::model::ModelRequest;
use answerable_core::provider::AnthropicOptions;
use serde_json::{Value, json};

use super::kept::{self, text_block};
use super::said;
use crate::fillers::{BEGINNING, GO_ON};

/// What a tool said that said nothing.
const NO_OUTPUT: &str = "(no output)";

/// All that one side says until the other speaks.
#[derive(Debug, PartialEq)]
pub(super) struct Turn {
    /// It is the user's.
    pub(super) is_users: bool,
    /// Its blocks: never none, and a user's results before all else.
    pub(super) blocks: Vec<Value>,
}

impl Turn {
    /// The message on the wire.
    pub(super) fn into_message(self) -> Value {
        let role = if self.is_users { "user" } else { "assistant" };
        json!({"role": role, "content": self.blocks})
    }

    /// It answers calls.
    pub(super) fn has_results(&self) -> bool {
        self.is_users && self.blocks.first().is_some_and(is_result)
    }

    /// It answers calls and says nothing else.
    pub(super) fn is_results_alone(&self) -> bool {
        self.is_users && self.blocks.iter().all(is_result)
    }
}

fn is_result(block: &Value) -> bool {
    block["type"] == "tool_result"
}

/// The turns of a history, from the user's first.
pub(super) fn of_history(request: &ModelRequest, options: &AnthropicOptions) -> Vec<Turn> {
    let mut turns = Vec::new();
    for message in &request.messages {
        let (is_users, blocks) = match message.role {
            // Stands with the instructions.
            Role::System => continue,
            Role::User => (true, said::blocks(message, request, options)),
            Role::Tool => (true, result(message).into_iter().collect()),
            Role::Assistant => (false, kept::restore(message, request, options.send_reasoning)),
        };
        if !is_users && turns.is_empty() && !blocks.is_empty() {
            say(&mut turns, true, text_block(BEGINNING).into_iter().collect());
        }
        say(&mut turns, is_users, blocks);
    }
    turns
}

/// Lets the user have the last word: with the request's note, which is no part of the history, or with little.
pub(super) fn end(turns: &mut Vec<Turn>, note: Option<&str>) {
    if let Some(note) = note.and_then(text_block) {
        say(turns, true, vec![note]);
    }
    if turns.last().is_none_or(|turn| !turn.is_users) {
        say(turns, true, text_block(GO_ON).into_iter().collect());
    }
}

fn say(turns: &mut Vec<Turn>, is_users: bool, blocks: Vec<Value>) {
    match turns.last_mut().filter(|turn| turn.is_users == is_users) {
        Some(turn) => turn.blocks.extend(blocks),
        None if blocks.is_empty() => {}
        None => turns.push(Turn { is_users, blocks }),
    }
}

/// The result of a call. It isn't marked as an error where it is one: its text says so, and a tool could write that text.
fn result(message: &Message) -> Option<Value> {
    let id = message.tool_call_id?.to_string();
    let content = if message.content.trim().is_empty() { NO_OUTPUT } else { &message.content };
    Some(json!({"type": "tool_result", "tool_use_id": id, "content": content}))
}
