//! Tool calls, put together from pieces whose marks can't be trusted: servers leave out the index or the id, send every
//! call under index 0, repeat ids and names, or send null for what they said before.
//!
//! Rule: two calls are never spliced into one. In doubt a piece begins a call of its own, which then fails validation.

use std::collections::HashMap;

use answerable_core::model::{ReplyCall, estimate_tokens};
use answerable_tools::Mask;
use serde_json::{Map, Value};

use super::extra::Extra;
use super::whole::Whole;

/// Most calls that are kept count of; the core takes 128.
pub(super) const MOST_CALLS: usize = 1000;

/// What is read of an entry, and of its function.
const KNOWN: [&[&str]; 2] = [&["index", "id", "type", "function"], &["index", "name", "arguments"]];

/// The calls so far.
#[derive(Debug, Default)]
pub(super) struct Calls {
    list: Vec<Growing>,
    /// The call that the next piece under an index belongs to.
    at_index: HashMap<u64, usize>,
}

/// A call that grows.
#[derive(Debug)]
struct Growing {
    call: ReplyCall,
    whole: Whole,
    /// What vendors add to it, and to its function: signatures that must come back with it.
    extras: [Extra; 2],
}

/// One entry of `tool_calls`, as far as it says anything.
struct Piece<'v> {
    entry: &'v Value,
    index: Option<u64>,
    id: Option<&'v str>,
    name: Option<&'v str>,
    arguments: Option<String>,
}

impl Calls {
    /// Takes an entry of a stream.
    pub(super) fn take_piece(&mut self, entry: &Value) {
        let piece = Piece::of(entry);
        match self.continued(&piece) {
            Some(at) => self.list[at].add(&piece),
            None => self.open(&piece),
        }
    }

    /// Takes an entry of a whole message.
    pub(super) fn take_whole(&mut self, entry: &Value) {
        self.open(&Piece { index: None, ..Piece::of(entry) });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// More aren't taken.
    pub(super) fn is_too_many(&self) -> bool {
        self.list.len() > MOST_CALLS
    }

    /// Tokens of the calls so far, estimated.
    pub(super) fn tokens(&self) -> u64 {
        let calls = self.list.iter().map(|growing| &growing.call);
        calls.map(|call| estimate_tokens(&call.name) + estimate_tokens(&call.arguments)).sum()
    }

    /// The calls, and what vendors added to them: a list with the fields of each, if there are any.
    pub(super) fn finish(self, mask: &Mask) -> (Vec<ReplyCall>, Option<Value>) {
        let of_both = |extras: [Extra; 2]| {
            let [mut fields, function] = extras.map(|extra| extra.finish(mask));
            if !function.is_empty() {
                fields.insert("function".into(), function.into());
            }
            fields
        };
        let (calls, fields): (Vec<ReplyCall>, Vec<Map<String, Value>>) =
            self.list.into_iter().map(|growing| (growing.call, of_both(growing.extras))).unzip();
        let has_any = fields.iter().any(|fields| !fields.is_empty());
        (calls, has_any.then(|| fields.into_iter().map(Value::Object).collect()))
    }

    fn open(&mut self, piece: &Piece<'_>) {
        if self.is_too_many() {
            return;
        }
        if let Some(index) = piece.index {
            self.at_index.insert(index, self.list.len());
        }
        let mut opened = Growing::default();
        opened.add(piece);
        self.list.push(opened);
    }

    /// The call that a piece goes on with, if it doesn't begin one.
    fn continued(&self, piece: &Piece<'_>) -> Option<usize> {
        let last = self.list.len().checked_sub(1)?;
        let marked = piece.index.and_then(|index| self.at_index.get(&index)).copied();
        let at = match (piece.index, marked) {
            (_, Some(at)) => at,
            // An index that was never opened, or none: what says neither id nor name goes on with the last call.
            _ if piece.id.is_none() && piece.name.is_none() => last,
            (Some(_), None) => return None,
            (None, None) => last,
        };
        let known = &self.list[at];
        let begins = match (piece.id, known.call.id.as_deref()) {
            (Some(new), Some(id)) => new != id || (piece.index.is_none() && known.is_whole()),
            _ => piece.begins_after(known, marked.is_some()),
        };
        (!begins).then_some(at)
    }
}

impl<'v> Piece<'v> {
    fn of(entry: &'v Value) -> Self {
        let text = |value: &'v Value| value.as_str().filter(|text| !text.is_empty());
        let function = &entry["function"];
        let arguments = match &function["arguments"] {
            Value::String(text) => Some(text.clone()),
            Value::Null => None,
            // Some send the object itself.
            other => Some(other.to_string()),
        };
        Self {
            entry,
            index: entry["index"].as_u64(),
            id: text(&entry["id"]),
            name: text(&function["name"]),
            arguments,
        }
    }

    /// Whether a piece without a telling id begins a call of its own after another.
    fn begins_after(&self, known: &Growing, is_marked: bool) -> bool {
        let says_more = self.arguments.as_ref().is_some_and(|text| !text.is_empty());
        match self.name {
            // Nothing that says so, but the call is whole already.
            None => !is_marked && says_more && known.is_whole(),
            Some(_) if known.call.name.is_empty() => false,
            // Under its index a repeated name is only that, unless the call is whole and more comes.
            Some(_) if is_marked => says_more && known.is_whole(),
            Some(_) => true,
        }
    }
}

impl Default for Growing {
    fn default() -> Self {
        let call = ReplyCall { id: None, name: String::new(), arguments: String::new() };
        Self { call, whole: Whole::default(), extras: Default::default() }
    }
}

impl Growing {
    fn add(&mut self, piece: &Piece<'_>) {
        let call = &mut self.call;
        if call.id.is_none() {
            call.id = piece.id.map(str::to_owned);
        }
        // A name may come in pieces before the arguments do; afterwards it is only repeated.
        if let Some(name) = piece.name
            && call.arguments.is_empty()
            && call.name != name
        {
            call.name.push_str(name);
        }
        if let Some(more) = &piece.arguments {
            call.arguments.push_str(more);
            self.whole.take(more);
        }
        let parts = [piece.entry, &piece.entry["function"]];
        for ((extra, part), known) in self.extras.iter_mut().zip(parts).zip(KNOWN) {
            extra.put_whole(part, known);
        }
    }

    /// Its arguments are a whole object, to which nothing can be added.
    fn is_whole(&self) -> bool {
        self.whole.is_object(&self.call.arguments)
    }
}

#[cfg(test)]
mod tests;
