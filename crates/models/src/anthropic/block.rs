//! One block of a reply, put together: text, a call, or what only the vendor understands.

use answerable_core::json;
use answerable_core::model::{ReplyCall, estimate_tokens};
use answerable_tools::Mask;
use serde_json::{Map, Value};

use crate::secrets;

/// The pieces that belong to one kind of block.
const PIECES: [&str; 4] = ["text_delta", "input_json_delta", "thinking_delta", "signature_delta"];

/// Blocks that no assistant says.
const OF_THE_USER: [&str; 3] = ["tool_result", "image", "document"];

/// A block.
#[derive(Debug)]
pub(super) enum Block {
    /// Text, of which the caller keeps track.
    Text(String),
    /// A call.
    Call(Call),
    /// Thinking, or anything else that isn't read here.
    Kept(Kept),
}

/// A call as it comes.
#[derive(Debug, Default)]
pub(super) struct Call {
    id: Option<String>,
    name: String,
    /// Its input as it stood in the block's beginning.
    given: Value,
    /// Its input in pieces.
    pieces: String,
}

/// A block that goes back just as it came, or not at all.
#[derive(Debug)]
pub(super) struct Kept {
    fields: Map<String, Value>,
    /// Its input in pieces.
    pieces: String,
    /// It came in pieces of which the whole can't be told.
    is_unsure: bool,
}

impl Block {
    /// A block from its whole, or from its beginning in a stream.
    pub(super) fn of(block: &Value) -> Self {
        match (block["type"].as_str(), block) {
            (Some("text"), _) => Self::Text(block["text"].as_str().unwrap_or_default().to_owned()),
            (Some("tool_use"), _) => Self::Call(Call {
                id: block["id"].as_str().map(str::to_owned),
                name: block["name"].as_str().unwrap_or_default().to_owned(),
                given: block["input"].clone(),
                pieces: String::new(),
            }),
            (Some(kind), Value::Object(fields)) if !OF_THE_USER.contains(&kind) => {
                Self::Kept(Kept::new(fields.clone()))
            }
            // No block that could go back.
            _ => Self::Text(String::new()),
        }
    }

    /// The block that a piece begins which fits no other.
    pub(super) fn for_piece(delta: &Value) -> Option<Self> {
        match delta["type"].as_str()? {
            "text_delta" => Some(Self::Text(String::new())),
            "input_json_delta" => Some(Self::Call(Call::default())),
            "thinking_delta" | "signature_delta" => {
                let fields = [("type", "thinking"), ("thinking", ""), ("signature", "")];
                let fields = fields.map(|(name, value)| (name.to_owned(), Value::from(value)));
                Some(Self::Kept(Kept::new(Map::from_iter(fields))))
            }
            _ => None,
        }
    }

    /// Whether a piece can belong to this block. What isn't known belongs anywhere.
    pub(super) fn fits(&self, delta: &Value) -> bool {
        let is_mine = match self {
            Self::Text(_) => ["text_delta"].as_slice(),
            Self::Call(_) => &["input_json_delta"],
            Self::Kept(kept) if kept.is_thinking() => &["thinking_delta", "signature_delta"],
            Self::Kept(_) => &["input_json_delta"],
        };
        delta["type"].as_str().is_none_or(|kind| is_mine.contains(&kind) || !PIECES.contains(&kind))
    }

    /// Whether `start` only says again how this block began.
    pub(super) fn is_begun_by(&self, start: &Value) -> bool {
        match (self, start["type"].as_str()) {
            (Self::Text(text), Some("text")) => {
                text.is_empty() && start["text"].as_str().is_none_or(str::is_empty)
            }
            (Self::Call(call), Some("tool_use")) => {
                let is_same = call.id.as_deref() == start["id"].as_str() && start["name"] == *call.name;
                is_same && call.pieces.is_empty() && call.given == start["input"]
            }
            (Self::Kept(kept), _) => {
                kept.pieces.is_empty() && start.as_object().is_some_and(|start| *start == kept.fields)
            }
            _ => false,
        }
    }

    /// Takes a piece; gives the text in it.
    pub(super) fn take<'d>(&mut self, delta: &'d Value) -> &'d str {
        let piece = |name: &str| delta[name].as_str().unwrap_or_default();
        match self {
            Self::Text(text) => {
                // Citations are pieces of a text too, and say nothing here.
                let is_text = delta["type"].as_str().is_none_or(|kind| kind == "text_delta");
                let more = if is_text { piece("text") } else { "" };
                text.push_str(more);
                return more;
            }
            Self::Call(call) => call.pieces.push_str(piece("partial_json")),
            Self::Kept(kept) => kept.take(delta),
        }
        ""
    }

    /// Tokens of what isn't text, estimated.
    pub(super) fn tokens(&self) -> u64 {
        match self {
            Self::Text(_) => 0,
            Self::Call(call) => estimate_tokens(&call.name) + estimate_tokens(&call.arguments()),
            Self::Kept(kept) => {
                let said = kept.fields.iter().filter(|(name, _)| *name != "type" && *name != "signature");
                said.filter_map(|(_, value)| value.as_str()).map(estimate_tokens).sum()
            }
        }
    }
}

impl Call {
    /// Its input as text: the same whether it came whole or in pieces, so what can be read is written anew.
    pub(super) fn arguments(&self) -> String {
        let read = |text: &str| json::parse(text).map_or_else(|_| text.to_owned(), |input| input.to_string());
        match &self.given {
            _ if !self.pieces.trim().is_empty() => read(&self.pieces),
            Value::String(text) => read(text),
            Value::Null => String::new(),
            given => given.to_string(),
        }
    }

    pub(super) fn finish(self, mask: &Mask) -> ReplyCall {
        let arguments = self.arguments();
        secrets::masked(ReplyCall { arguments, id: self.id, name: self.name }, mask)
    }
}

impl Kept {
    fn new(fields: Map<String, Value>) -> Self {
        Self { fields, pieces: String::new(), is_unsure: false }
    }

    fn is_thinking(&self) -> bool {
        self.fields.get("type").is_some_and(|kind| kind == "thinking")
    }

    fn take(&mut self, delta: &Value) {
        match (delta["type"].as_str(), &delta["thinking"], &delta["signature"], &delta["partial_json"]) {
            (Some("thinking_delta"), Value::String(more), ..) => self.grow("thinking", more),
            (Some("signature_delta"), _, Value::String(whole), _) => self.sign(whole),
            (Some("input_json_delta"), _, _, Value::String(more)) => self.pieces.push_str(more),
            _ => self.is_unsure = true,
        }
    }

    fn grow(&mut self, name: &str, more: &str) {
        match self.fields.entry(name).or_insert_with(|| "".into()) {
            Value::String(known) => known.push_str(more),
            _ => self.is_unsure = true,
        }
    }

    /// A signature comes in one piece; of two that differ neither can be trusted.
    fn sign(&mut self, whole: &str) {
        let known = self.fields.insert("signature".into(), whole.into());
        let known = known.as_ref().and_then(Value::as_str).unwrap_or_default();
        self.is_unsure |= !known.is_empty() && known != whole;
    }

    /// Whether there is nothing in it that could be told from another: thinking without words and without a signature.
    pub(super) fn says_nothing(&self) -> bool {
        let is_blank = |name: &str| self.fields.get(name).and_then(Value::as_str).is_none_or(str::is_empty);
        self.is_thinking() && is_blank("thinking") && is_blank("signature")
    }

    /// The block as it goes back. `None`: that can't be told.
    pub(super) fn whole(&self) -> Option<Value> {
        let mut fields = self.fields.clone();
        if !self.pieces.trim().is_empty() {
            fields.insert("input".into(), json::parse(&self.pieces).ok()?);
        }
        // Thinking that holds no text is none that the vendor would take back.
        let words = match fields.get("type").and_then(Value::as_str) {
            Some("thinking") => "thinking",
            Some("redacted_thinking") => "data",
            _ => "type",
        };
        let is_sound = !self.is_unsure && fields.get(words).is_some_and(Value::is_string);
        is_sound.then_some(Value::Object(fields))
    }
}
