//! One item of a reply's output: as it grows, or as the server told it whole.

use std::collections::BTreeMap;

use answerable_core::json::UNFIT;
use answerable_core::model::{ReplyCall, estimate_tokens};
use serde_json::Value;

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text, or a refusal.
    Message,
    /// A call of a tool.
    Call,
    /// Reasoning, and whatever else there may be.
    Other,
}

/// An item.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Item {
    pub(super) kind: Kind,
    /// The server's id of it.
    pub(super) id: Option<String>,
    /// What the model says that a message is.
    pub(super) phase: Option<String>,
    /// A call, with the model's id.
    pub(super) call: ReplyCall,
    /// The item itself, once the server has told all of it.
    pub(super) value: Option<Value>,
    /// Texts of a message, by place.
    texts: BTreeMap<u64, String>,
    pub(super) refusal: String,
    /// The server said that it begins, or what it is.
    pub(super) is_announced: bool,
    /// Nothing was added since it began: what it began with may be told again.
    is_new: bool,
}

impl Item {
    /// One of which nothing is known yet.
    pub(super) fn empty(kind: Kind) -> Self {
        let call = ReplyCall { id: None, name: String::new(), arguments: String::new() };
        let (texts, refusal) = (BTreeMap::new(), String::new());
        Self {
            kind,
            id: None,
            phase: None,
            call,
            value: None,
            texts,
            refusal,
            is_announced: false,
            is_new: true,
        }
    }

    /// One that the server begins with: the rest follows.
    pub(super) fn begun(value: &Value) -> Self {
        Self { value: None, is_new: true, ..Self::whole(value) }
    }

    /// One that the server told whole.
    pub(super) fn whole(value: &Value) -> Self {
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let mut item = Self::empty(kind(value));
        item.id = text(&value["id"]);
        item.phase = text(&value["phase"]);
        match item.kind {
            Kind::Message => item.read_content(&value["content"]),
            Kind::Call => {
                let id = text(&value["call_id"]).or_else(|| item.id.clone());
                // A tool of free text has an input instead of arguments. None is offered, so that fails validation.
                let arguments = [&value["arguments"], &value["input"]].into_iter().find_map(arguments);
                let name = text(&value["name"]).unwrap_or_default();
                item.call = ReplyCall { id, name, arguments: arguments.unwrap_or_default() };
            }
            Kind::Other => {}
        }
        item.value = Some(value.clone());
        item.is_announced = true;
        item
    }

    fn read_content(&mut self, content: &Value) {
        match content {
            Value::String(text) => drop(self.texts.insert(0, text.clone())),
            Value::Array(parts) => {
                for (place, part) in (0..).zip(parts) {
                    match (part["refusal"].as_str(), part["text"].as_str().or(part.as_str())) {
                        (Some(refusal), _) => self.refusal.push_str(refusal),
                        (None, Some(text)) => drop(self.texts.insert(place, text.to_owned())),
                        (None, None) => {}
                    }
                }
            }
            _ => {}
        }
    }

    /// It is told what the item is of which pieces are there.
    pub(super) fn announce(&mut self, begun: Self) {
        self.id = begun.id.or(self.id.take());
        self.phase = begun.phase.or(self.phase.take());
        if self.call.name.is_empty() {
            (self.call.name, self.call.id) = (begun.call.name, begun.call.id);
        }
        self.is_announced = true;
    }

    /// Some more text at a place.
    pub(super) fn add_text(&mut self, place: u64, text: &str) {
        self.forget_beginning();
        self.texts.entry(place).or_default().push_str(text);
    }

    /// Some more of a call's arguments.
    pub(super) fn add_arguments(&mut self, more: &str) {
        self.forget_beginning();
        self.call.arguments.push_str(more);
    }

    fn forget_beginning(&mut self) {
        if std::mem::take(&mut self.is_new) {
            self.texts.clear();
            self.call.arguments.clear();
        }
    }

    /// All of the text at a place is told; gives what of it was not streamed.
    pub(super) fn settle_text(&mut self, place: u64, text: &str) -> Result<String, Misfit> {
        self.forget_beginning();
        let known = self.texts.entry(place).or_default();
        fits(known, text)?;
        let rest = text.strip_prefix(known.as_str()).unwrap_or_default().to_owned();
        text.clone_into(known);
        Ok(rest)
    }

    /// All of a call's arguments are told.
    pub(super) fn settle_arguments(&mut self, arguments: &str) -> Result<(), Misfit> {
        self.forget_beginning();
        arguments_fit(&self.call.arguments, arguments)?;
        arguments.clone_into(&mut self.call.arguments);
        Ok(())
    }

    /// All of the item is told, as of [`Item::settle_text`]. Some servers don't say again what they streamed.
    pub(super) fn settle(&mut self, mut whole: Self) -> Result<String, Misfit> {
        let (known, told) = (if self.is_new { String::new() } else { self.text() }, whole.text());
        if told.is_empty() {
            std::mem::swap(&mut whole.texts, &mut self.texts);
        }
        fits(&known, if told.is_empty() { &known } else { &told })?;
        if whole.call.arguments.is_empty() {
            std::mem::swap(&mut whole.call.arguments, &mut self.call.arguments);
        } else if !self.is_new {
            arguments_fit(&self.call.arguments, &whole.call.arguments)?;
        }
        for (known, told) in [(&self.refusal, &mut whole.refusal), (&self.call.name, &mut whole.call.name)] {
            if told.is_empty() {
                told.clone_from(known);
            }
            fits(known, told)?;
        }
        *self = Self { id: whole.id.or(self.id.take()), phase: whole.phase.or(self.phase.take()), ..whole };
        Ok(told.strip_prefix(&known).unwrap_or_default().to_owned())
    }

    /// Its text.
    pub(super) fn text(&self) -> String {
        self.texts.values().map(String::as_str).collect()
    }

    /// Tokens of what is in it, estimated.
    pub(super) fn tokens(&self) -> u64 {
        let texts = self.texts.values().chain([&self.refusal, &self.call.name, &self.call.arguments]);
        texts.map(|text| estimate_tokens(text)).sum()
    }
}

fn kind(value: &Value) -> Kind {
    match value["type"].as_str() {
        Some("message") => Kind::Message,
        Some("function_call" | "custom_tool_call") => Kind::Call,
        // Some leave it out.
        None if value["role"] == "assistant" => Kind::Message,
        None if value["call_id"].is_string() => Kind::Call,
        _ => Kind::Other,
    }
}

fn arguments(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        // Some send the object itself.
        other => Some(other.to_string()),
    }
}

/// As of [`fits`]; the same value in another spelling is the same.
pub(super) fn arguments_fit(streamed: &str, told: &str) -> Result<(), Misfit> {
    let value = |text: &str| serde_json::from_str::<Value>(text).ok();
    fits(streamed, told).or_else(|misfit| match (value(streamed), value(told)) {
        (Some(streamed), Some(told)) if streamed == told => Ok(()),
        _ => Err(misfit),
    })
}

/// What was streamed is not the beginning of what is told afterwards: something was lost or came twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Misfit;

/// Whether what was streamed is the beginning of what was told. Servers differ with themselves in white space; and of a
/// character that was torn apart on the way, and of what follows it, nobody can say.
pub(super) fn fits(streamed: &str, told: &str) -> Result<(), Misfit> {
    let mut told = told.chars().filter(|c| !c.is_whitespace());
    let streamed = streamed.chars().filter(|c| !c.is_whitespace());
    let mut sound = streamed.take_while(|c| !matches!(*c, UNFIT | '\u{fffd}'));
    if sound.all(|c| told.next() == Some(c)) { Ok(()) } else { Err(Misfit) }
}

#[cfg(test)]
mod tests;
