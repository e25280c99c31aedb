//! A reply, put together from the objects that a server sends.

use answerable_core::json;
use answerable_core::model::{Finish, ModelReply, Usage};
use serde_json::{Map, Value};

use super::calls::Calls;
use super::extra::Extra;
use super::reply::Broken;
use super::usage;
use crate::words::Words;

/// The reply so far.
pub(super) struct Assembly<'s> {
    words: Words<'s>,
    calls: Calls,
    extra: Extra,
    refusal: String,
    finish_reason: Option<String>,
    usage: Option<Usage>,
}

impl<'s> Assembly<'s> {
    pub(super) fn new(words: Words<'s>) -> Self {
        Self {
            words,
            calls: Calls::default(),
            extra: Extra::default(),
            refusal: String::new(),
            finish_reason: None,
            usage: None,
        }
    }

    /// Takes an event of a stream, or a whole answer: they differ in `delta` and `message` only.
    pub(super) fn take(&mut self, object: &Value) -> Result<(), Broken> {
        if !object["error"].is_null() {
            self.take_usage(&object["usage"]);
            return Err(Broken::Error(object["error"].clone()));
        }
        self.take_usage(&object["usage"]);
        let choices = object["choices"].as_array().into_iter().flatten();
        // One choice is asked for; whatever stands beside it is another reply.
        for choice in choices.filter(|choice| choice["index"].as_u64().unwrap_or(0) == 0) {
            self.take_usage(&choice["usage"]);
            match (&choice["delta"], &choice["message"]) {
                (Value::Object(delta), _) => self.take_message(delta, Calls::take_piece),
                (_, Value::Object(message)) => self.take_message(message, Calls::take_whole),
                _ => {}
            }
            if let Some(reason) = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()) {
                self.finish_reason = Some(reason.to_owned());
            }
        }
        if self.calls.is_too_many() { Err(Broken::Cut("the reply has too many calls")) } else { Ok(()) }
    }

    fn take_usage(&mut self, told: &Value) {
        self.usage = usage::read(told).or(self.usage);
    }

    fn take_message(&mut self, message: &Map<String, Value>, take_call: impl Fn(&mut Calls, &Value)) {
        let field = |name: &str| message.get(name).unwrap_or(&Value::Null);
        self.words.push(&text_of(field("content")));
        self.refusal.push_str(&text_of(field("refusal")));
        for entry in field("tool_calls").as_array().into_iter().flatten() {
            take_call(&mut self.calls, entry);
        }
        // The form of old, which has one call.
        if let Value::Object(function) = field("function_call") {
            take_call(&mut self.calls, &serde_json::json!({"index": 0, "function": function}));
        }
        self.extra.take(message);
    }

    /// The server has said that the reply is at its end.
    pub(super) fn has_finish_reason(&self) -> bool {
        self.finish_reason.is_some()
    }

    /// Tokens as far as they were told.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The reply, which is known to be whole.
    pub(super) fn finish(self) -> Result<ModelReply, Broken> {
        let reason = self.finish_reason.as_deref();
        if matches!(reason, Some("error" | "abort" | "insufficient_system_resource")) {
            return Err(Broken::Cut("the provider gave the reply up"));
        }
        let is_refused = !self.refusal.trim().is_empty();
        let finish = if is_refused { Finish::Refusal } else { finish_of(reason) };
        let (text, mask) = self.words.finish();
        let mut calls = self.calls.finish();
        for call in &mut calls {
            call.arguments = mask.text(&call.arguments);
        }
        let finish_reason = self.finish_reason.map(|reason| mask.text(&json::clean_text(&reason)));
        Ok(ModelReply {
            text,
            calls,
            finish,
            finish_reason,
            usage: self.usage,
            extra: self.extra.finish(&mask),
        })
    }
}

fn finish_of(reason: Option<&str>) -> Finish {
    match reason {
        Some("stop" | "tool_calls" | "function_call" | "end_turn") => Finish::Stop,
        Some("length" | "max_tokens" | "model_length") => Finish::Length,
        Some("content_filter" | "refusal") => Finish::Refusal,
        _ => Finish::Other,
    }
}

/// Text as it is, or in parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().map(|part| part["text"].as_str().or(part.as_str()).unwrap_or_default()).collect()
        }
        _ => String::new(),
    }
}
