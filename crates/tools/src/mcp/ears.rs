//! What is heard of a server beside its answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use super::message::{self, Message, RpcError};
use serde_json::value::RawValue;

/// Listens to one server of one tenant, over all its sessions.
#[derive(Debug, Clone, Default)]
pub(super) struct Ears(Arc<AtomicU64>);

/// What is to be done about a message.
pub(super) enum Heard {
    /// An answer, for whoever waits for it.
    Answer(Value, Result<Box<RawValue>, RpcError>),
    /// Nothing but this to be sent back.
    Reply(String),
    /// Nothing.
    Nothing,
}

impl Ears {
    /// Takes note of a message.
    pub(super) fn hear(&self, message: Message) -> Heard {
        match message {
            Message::Answer(id, outcome) => Heard::Answer(id, outcome),
            Message::Ask { id, method } => Heard::Reply(message::reply(&id, &method)),
            Message::Told(method) => {
                if method == "notifications/tools/list_changed" {
                    self.note_change();
                }
                Heard::Nothing
            }
        }
    }

    /// The list of tools may be another now.
    pub(super) fn note_change(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// How often it may have become another.
    pub(super) fn changes(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
