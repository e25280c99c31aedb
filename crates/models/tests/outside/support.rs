//! What the tests of each kind of provider need.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use answerable_core::id::MessageId;
use answerable_core::message::{Message, Role};
use answerable_core::model::{ModelFailure, ModelReply, ModelRequest};
use answerable_models::Models;
use answerable_ports::{DeltaSink, ModelProvider, ModelTarget, Patience};
use answerable_tools::{Allow, GuardedClient};
use serde_json::Value;
use uuid::Uuid;

/// The words as they came.
#[derive(Debug, Default)]
pub(crate) struct Heard(pub(crate) Mutex<Vec<String>>);

impl DeltaSink for Heard {
    fn text(&self, text: &str) {
        self.0.lock().expect("unpoisoned").push(text.to_owned());
    }
}

pub(crate) fn target(kind: &str, base_url: &str) -> ModelTarget {
    ModelTarget {
        name: "main".into(),
        kind: kind.into(),
        base_url: base_url.into(),
        api_key: Some("sk-secret-1".into()),
        headers: BTreeMap::from([("x-desk".to_owned(), "desk-of-ann".into())]),
        ..ModelTarget::default()
    }
}

pub(crate) fn request(turn: u32) -> ModelRequest {
    let message = Message::text(MessageId(Uuid::from_u128(1)), 1, Role::User, "go");
    ModelRequest {
        model: "m".into(),
        provider: "main".into(),
        system: "Be brief.".into(),
        messages: vec![message],
        max_output_tokens: Some(900),
        turn,
        ..ModelRequest::default()
    }
}

pub(crate) fn models() -> Models {
    Models::new(GuardedClient::new(Allow::parse("127.0.0.0/8").expect("a list")).expect("a client"))
}

/// One attempt within a time, with what was heard meanwhile.
pub(crate) async fn ask_within(
    target: &ModelTarget,
    request: &ModelRequest,
    timeout: Duration,
) -> (Result<ModelReply, ModelFailure>, Vec<String>) {
    let heard = Heard::default();
    let result = models().ask(target, request, Patience::total(timeout), &heard).await;
    (result, heard.0.into_inner().expect("unpoisoned"))
}

/// One attempt with time enough.
pub(crate) async fn ask(target: &ModelTarget, request: &ModelRequest) -> Result<ModelReply, ModelFailure> {
    ask_within(target, request, Duration::from_secs(20)).await.0
}

pub(crate) fn calls(reply: &ModelReply) -> Vec<(String, Value)> {
    let calls = reply.calls.iter();
    calls.map(|call| (call.name.clone(), serde_json::from_str(&call.arguments).expect("JSON"))).collect()
}
