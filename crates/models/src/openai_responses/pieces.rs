//! A reply, put together from the objects that a server sends.

use answerable_core::json;
use answerable_core::model::{Finish, ModelReply, Usage, estimate_tokens};
use serde_json::Value;

use super::item::{Item, Kind, Misfit};
use super::output::Output;
use super::{blocks, usage};
use crate::assembly::{Assembly, Broken, Told};
use crate::bounds;
use crate::secrets;
use crate::words::Words;

/// The reply so far.
pub(super) struct Pieces<'s> {
    words: Words<'s>,
    /// Text that was passed on.
    heard: String,
    output: Output,
    /// Tokens of reasoning that was streamed, estimated.
    reasoning_tokens: u64,
    ending: Option<(Finish, String)>,
    usage: Option<Usage>,
}

impl From<Misfit> for Broken {
    fn from(_: Misfit) -> Self {
        Self::Cut("the end of the reply doesn't fit what was streamed before it")
    }
}

impl<'s> Pieces<'s> {
    pub(super) fn new(words: Words<'s>) -> Self {
        Self {
            words,
            heard: String::new(),
            output: Output::default(),
            reasoning_tokens: 0,
            ending: None,
            usage: None,
        }
    }

    fn take_piece(&mut self, name: &str, event: &Value) -> Result<(), Broken> {
        let (place, delta) = (event["content_index"].as_u64().unwrap_or(0), text_of(&event["delta"]));
        match name {
            "response.output_item.added" => self.output.begin(event),
            "response.output_item.done" => {
                let rest = self.output.end(event)?;
                self.hear(&rest);
            }
            "response.output_text.delta" => {
                self.output.of_piece(event, Kind::Message).add_text(place, delta);
                self.hear(delta);
            }
            "response.output_text.done" if event["text"].is_string() => {
                let item = self.output.of_whole_piece(event, Kind::Message);
                let rest = item.settle_text(place, text_of(&event["text"]))?;
                self.hear(&rest);
            }
            "response.refusal.delta" => {
                self.output.of_piece(event, Kind::Message).refusal.push_str(delta);
            }
            "response.function_call_arguments.delta" => {
                self.output.of_piece(event, Kind::Call).add_arguments(delta);
            }
            "response.function_call_arguments.done" if event["arguments"].is_string() => {
                let item = self.output.of_whole_piece(event, Kind::Call);
                item.settle_arguments(text_of(&event["arguments"]))?;
            }
            "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" => {
                self.reasoning_tokens += estimate_tokens(delta);
            }
            _ => {}
        }
        if self.output.is_too_long() { Err(Broken::Cut("the reply has too many items")) } else { Ok(()) }
    }

    /// Passes text on.
    fn hear(&mut self, text: &str) {
        self.words.push(text);
        self.heard.push_str(text);
    }

    /// Passes on what only the end tells.
    fn hear_all(&mut self) {
        let text = self.output.text();
        if let Some(rest) = text.strip_prefix(&self.heard) {
            self.hear(rest);
        }
    }

    /// Takes the whole answer, at the end of a stream or alone.
    fn take_answer(&mut self, name: &str, answer: &Value) -> Result<(), Broken> {
        self.usage = usage::read(&answer["usage"]).or(self.usage);
        if !answer["error"].is_null() {
            return Err(Broken::Error(answer.clone()));
        }
        self.ending = Some(ending(name, answer)?);
        self.output.settle(&answer["output"])?;
        self.hear_all();
        if self.output.is_too_long() { Err(Broken::Cut("the reply has too many items")) } else { Ok(()) }
    }
}

impl Assembly for Pieces<'_> {
    fn take_event(&mut self, name: &str, object: &Value) -> Result<Told, Broken> {
        let name = object["type"].as_str().unwrap_or(name);
        match name {
            "response.completed"
            | "response.done"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => {
                let answer = &object["response"];
                self.take_answer(name, if answer.is_object() { answer } else { object })?;
                Ok(Told::End)
            }
            // Their `response` tells only what was asked.
            "response.created" | "response.queued" | "response.in_progress" => Ok(Told::Nothing),
            _ if name == "error" || !object["error"].is_null() => Err(Broken::Error(object.clone())),
            _ if name.starts_with("response.") => self.take_piece(name, object).map(|()| Told::Piece),
            _ => Ok(Told::Nothing),
        }
    }

    fn take_whole(&mut self, object: &Value) -> Result<(), Broken> {
        if object["error"].is_null() && !object["output"].is_array() && object["status"] != "failed" {
            return Err(Broken::Cut("the answer is no response"));
        }
        self.take_answer("", object)
    }

    fn has_ended(&self) -> bool {
        self.ending.is_some()
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn said_tokens(&self) -> u64 {
        self.output.items().iter().map(Item::tokens).sum::<u64>() + self.reasoning_tokens
    }

    fn finish(self) -> Result<ModelReply, Broken> {
        let is_refused = self.output.items().iter().any(|item| !item.refusal.trim().is_empty());
        let (finish, reason) = self.ending.unzip();
        let finish = if is_refused { Finish::Refusal } else { finish.unwrap_or(Finish::Other) };
        // Told at the end, the text may differ in white space from what was passed on.
        let (_, mask) = self.words.finish();
        let text = mask.text(&json::clean_text(&self.output.text()));
        let calls = self.output.calls().into_iter().map(|call| secrets::masked(call, &mask)).collect();
        let finish_reason = reason.map(|reason| bounds::finish_reason(&reason, &mask));
        let extra = bounds::extra(blocks::kept(self.output.items(), &mask));
        Ok(ModelReply { text, calls, finish, finish_reason, usage: self.usage, extra })
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// How an answer ended: by its status, else by the event that tells of it. Without both it is as whole as it looks.
fn ending(name: &str, answer: &Value) -> Result<(Finish, String), Broken> {
    let by_name = match name {
        "response.completed" | "response.done" | "" => "completed",
        other => other.strip_prefix("response.").unwrap_or(other),
    };
    match answer["status"].as_str().unwrap_or(by_name) {
        "completed" if by_name == "incomplete" => incomplete(answer),
        "completed" => Ok((Finish::Stop, "completed".into())),
        "incomplete" => incomplete(answer),
        "failed" => {
            Err(Broken::Error(serde_json::json!({"message": "the provider says that the reply failed"})))
        }
        "cancelled" => Err(Broken::Cut("the provider gave the reply up")),
        // Still under way, or a word that nobody knows.
        _ => Err(Broken::Cut("the provider ended the reply before it was whole")),
    }
}

/// Why it is incomplete: the cap, if nothing else is told.
fn incomplete(answer: &Value) -> Result<(Finish, String), Broken> {
    let reason = answer["incomplete_details"]["reason"].as_str().unwrap_or("max_output_tokens");
    let finish = match reason {
        "max_output_tokens" | "max_tokens" | "length" => Finish::Length,
        "content_filter" => Finish::Refusal,
        _ => return Err(Broken::Cut("the provider gave the reply up")),
    };
    Ok((finish, reason.to_owned()))
}
