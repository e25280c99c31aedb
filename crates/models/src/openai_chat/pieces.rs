//! A reply, put together from the objects that a server sends.

use answerable_core::model::{Finish, ModelReply, Usage, estimate_tokens};
use serde_json::{Map, Value, json};

use super::calls::Calls;
use super::extra::Extra;
use super::thoughts::{self, Thoughts};
use super::{finish, links, usage};
use crate::assembly::{Assembly, Broken, Told};
use crate::bounds;
use crate::secrets;
use crate::words::Words;

/// The reply so far.
pub(super) struct Pieces<'s> {
    words: Words<'s>,
    thoughts: Thoughts,
    calls: Calls,
    /// The call in the form of old. Some servers say one in both forms, which must not become two.
    old_call: Calls,
    extra: Extra,
    refusal: String,
    finish_reason: Option<String>,
    usage: Option<Usage>,
}

impl<'s> Pieces<'s> {
    pub(super) fn new(words: Words<'s>) -> Self {
        Self {
            words,
            thoughts: Thoughts::default(),
            calls: Calls::default(),
            old_call: Calls::default(),
            extra: Extra::default(),
            refusal: String::new(),
            finish_reason: None,
            usage: None,
        }
    }

    /// Takes an event of a stream, or a whole answer: they differ in `delta` and `message` only.
    fn take(&mut self, object: &Value) -> Result<(), Broken> {
        self.take_usage(&object["usage"]);
        self.take_usage(&object["x_groq"]["usage"]);
        if let Some(error) = error_of(object) {
            return Err(Broken::Error(error));
        }
        let choices = object["choices"].as_array().into_iter().flatten();
        // One choice is asked for; whatever stands beside it is another reply.
        for choice in choices.filter(|choice| choice["index"].as_u64().unwrap_or(0) == 0) {
            self.take_choice(choice)?;
        }
        let is_too_many = self.calls.is_too_many() || self.old_call.is_too_many();
        if is_too_many { Err(Broken::Cut("the reply has too many calls")) } else { Ok(()) }
    }

    fn take_choice(&mut self, choice: &Value) -> Result<(), Broken> {
        self.take_usage(&choice["usage"]);
        if !choice["error"].is_null() {
            return Err(Broken::Error(choice.clone()));
        }
        match (&choice["delta"], &choice["message"]) {
            (Value::Object(delta), _) => self.take_message(delta, Calls::take_piece),
            (_, Value::Object(message)) => self.take_message(message, Calls::take_whole),
            _ => {}
        }
        if let Some(reason) = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()) {
            // A filter that looks at the text later may speak before or after the model's own end.
            let is_refused = finish::of(self.finish_reason.as_deref()) == Finish::Refusal;
            if !is_refused || finish::is_given_up(Some(reason)) {
                self.finish_reason = Some(reason.to_owned());
            }
        }
        Ok(())
    }

    fn take_usage(&mut self, told: &Value) {
        self.usage = usage::larger(self.usage, usage::read(told));
    }

    fn take_message(&mut self, message: &Map<String, Value>, take_call: impl Fn(&mut Calls, &Value)) {
        let field = |name: &str| message.get(name).unwrap_or(&Value::Null);
        self.words.push(&self.thoughts.text_of(message, &mut self.extra));
        self.refusal.push_str(&thoughts::text_of(field("refusal")));
        for entry in field("tool_calls").as_array().into_iter().flatten() {
            take_call(&mut self.calls, entry);
        }
        if let Value::Object(function) = field("function_call") {
            take_call(&mut self.old_call, &json!({"index": 0, "function": function}));
        }
        self.extra.take(message);
    }
}

impl Assembly for Pieces<'_> {
    fn take_event(&mut self, _: &str, object: &Value) -> Result<Told, Broken> {
        self.take(object)?;
        // Pings, and what a filter says of the question, are no words of the reply.
        let has_choices = object["choices"].as_array().is_some_and(|choices| !choices.is_empty());
        Ok(if has_choices || object["usage"].is_object() { Told::Piece } else { Told::Nothing })
    }

    fn take_whole(&mut self, object: &Value) -> Result<(), Broken> {
        if error_of(object).is_none() && object.get("choices").is_none() {
            return Err(Broken::Cut("the answer is no chat completion"));
        }
        self.take(object)
    }

    fn has_ended(&self) -> bool {
        self.finish_reason.is_some()
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn said_tokens(&self) -> u64 {
        let calls = self.calls.tokens().max(self.old_call.tokens());
        self.words.tokens() + calls + self.extra.tokens() + estimate_tokens(&self.refusal)
    }

    fn finish(self) -> Result<ModelReply, Broken> {
        let reason = self.finish_reason.as_deref();
        if finish::is_given_up(reason) {
            return Err(Broken::Cut("the provider gave the reply up"));
        }
        let is_refused = !self.refusal.trim().is_empty();
        let finish = if is_refused { Finish::Refusal } else { finish::of(reason) };
        let (text, mask) = self.words.finish();
        let calls = if self.calls.is_empty() { self.old_call } else { self.calls };
        let (calls, fields_of_calls) = calls.finish(&mask);
        let mut extra = self.extra.finish(&mask);
        links::loosen(&mut extra, &calls);
        extra.extend(fields_of_calls.map(|fields| ("tool_calls".to_owned(), fields)));
        let calls = calls.into_iter().map(|call| secrets::masked(call, &mask)).collect();
        let finish_reason = self.finish_reason.map(|reason| bounds::finish_reason(&reason, &mask));
        let extra = bounds::extra(extra);
        Ok(ModelReply { text, calls, finish, finish_reason, usage: self.usage, extra })
    }
}

/// The error that an object tells of, in whichever form.
fn error_of(object: &Value) -> Option<Value> {
    if !object["error"].is_null() {
        return Some(object.clone());
    }
    // Mistral and older servers of vLLM put the error itself in the answer's place, Groq beside a stream's usage.
    if object["object"] == "error" || object["type"] == "error" {
        return Some(json!({"error": object}));
    }
    let of_groq = &object["x_groq"]["error"];
    (!of_groq.is_null()).then(|| json!({"error": of_groq}))
}
