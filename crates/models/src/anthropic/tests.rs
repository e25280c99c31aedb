//! The wire's two halves: replies as servers really send them, and histories as the core gives them.

mod blocks;
mod histories;
mod kept;
mod replies;
mod requests;
mod streams;

use answerable_core::id::{CallId, MessageId};
use answerable_core::message::{Message, MessageCall, ProviderExtra, Role};
use answerable_core::model::ModelRequest;
use serde_json::Value;
use uuid::Uuid;

use super::WIRE;
use crate::valid::anthropic as valid;

/// A message with a place of its own.
fn message(seq: u64, role: Role, text: &str) -> Message {
    Message::text(MessageId(Uuid::from_u128(seq.into())), seq, role, text)
}

fn call_id(n: u64) -> CallId {
    CallId(Uuid::from_u128(n.into()))
}

fn call(n: u64, arguments: &str) -> MessageCall {
    MessageCall { id: call_id(n), name: "look".into(), arguments: arguments.into() }
}

fn extra(blocks: Value) -> Option<ProviderExtra> {
    let fields = [("blocks".to_owned(), blocks)].into_iter().collect();
    Some(ProviderExtra { provider: "main".into(), model: "m".into(), wire: WIRE.into(), fields })
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest { model: "m".into(), provider: "main".into(), messages, ..ModelRequest::default() }
}
