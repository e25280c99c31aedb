//! Tool calls, put together from pieces whose marks can't be trusted: servers leave out the index or the id, send every
//! call under index 0, repeat ids and names, or send null for what they said before.
//!
//! Rule: two calls are never spliced into one. In doubt a piece begins a call of its own, which then fails validation.

use std::collections::HashMap;

use answerable_core::model::ReplyCall;
use serde_json::Value;

/// Most calls that are kept count of; the core takes 128.
pub(super) const MOST_CALLS: usize = 1000;

/// The calls so far.
#[derive(Debug, Default)]
pub(super) struct Calls {
    list: Vec<ReplyCall>,
    /// The call that the next piece under an index belongs to.
    at_index: HashMap<u64, usize>,
}

/// One entry of `tool_calls`, as far as it says anything.
struct Piece<'v> {
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

    pub(super) fn is_too_many(&self) -> bool {
        self.list.len() > MOST_CALLS
    }

    pub(super) fn finish(self) -> Vec<ReplyCall> {
        self.list
    }

    fn open(&mut self, piece: &Piece<'_>) {
        let mut call = ReplyCall { id: None, name: String::new(), arguments: String::new() };
        call.add(piece);
        if let Some(index) = piece.index {
            self.at_index.insert(index, self.list.len());
        }
        self.list.push(call);
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
        let call = &self.list[at];
        let begins = match (piece.id, call.id.as_deref()) {
            (Some(new), Some(known)) => new != known || (piece.index.is_none() && call.is_whole()),
            _ => piece.begins_after(call, marked.is_some()),
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
            index: entry["index"].as_u64(),
            id: text(&entry["id"]),
            name: text(&function["name"]),
            arguments,
        }
    }

    /// Whether a piece without a telling id begins a call of its own after `call`.
    fn begins_after(&self, call: &ReplyCall, is_marked: bool) -> bool {
        let says_more = self.arguments.as_ref().is_some_and(|text| !text.is_empty());
        match self.name {
            // Nothing that says so, but the call is whole already.
            None => call.is_whole() && says_more && !is_marked,
            Some(_) if call.name.is_empty() => false,
            // Under its index a repeated name is only that, unless the call is whole and more comes.
            Some(_) if is_marked => call.is_whole() && says_more,
            Some(_) => true,
        }
    }
}

/// Putting pieces together.
trait Grow {
    fn add(&mut self, piece: &Piece<'_>);
    fn is_whole(&self) -> bool;
}

impl Grow for ReplyCall {
    fn add(&mut self, piece: &Piece<'_>) {
        if self.id.is_none() {
            self.id = piece.id.map(str::to_owned);
        }
        // A name may come in pieces before the arguments do; afterwards it is only repeated.
        if let Some(name) = piece.name
            && self.arguments.is_empty()
            && self.name != name
        {
            self.name.push_str(name);
        }
        self.arguments.push_str(piece.arguments.as_deref().unwrap_or_default());
    }

    /// Its arguments are a whole object, to which nothing can be added.
    fn is_whole(&self) -> bool {
        self.arguments.trim_end().ends_with('}') && serde_json::from_str::<Value>(&self.arguments).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The calls of these entries as `id name arguments`.
    fn together(entries: &[Value]) -> Vec<String> {
        let mut calls = Calls::default();
        entries.iter().for_each(|entry| calls.take_piece(entry));
        let show = |call: ReplyCall| {
            format!("{} {} {}", call.id.as_deref().unwrap_or("-"), call.name, call.arguments)
        };
        calls.finish().into_iter().map(show).collect()
    }

    fn entry(index: Value, id: Value, name: Value, arguments: Value) -> Value {
        json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}})
    }

    #[test]
    fn pieces_find_their_calls() {
        let none = Value::Null;
        let piece = |index: i64, text: &str| json!({"index": index, "function": {"arguments": text}});
        let whole = |text: &str| Value::from(text);
        let table: [(&str, Vec<Value>, &[&str]); 12] = [
            (
                "as it should be",
                vec![
                    entry(json!(0), json!("a"), json!("pay"), json!("")),
                    piece(0, "{\"n\""),
                    piece(0, ": 1}"),
                    entry(json!(1), json!("b"), json!("look"), json!("")),
                    piece(1, "{}"),
                ],
                &["a pay {\"n\": 1}", "b look {}"],
            ),
            (
                "in turns",
                vec![
                    entry(json!(0), json!("a"), json!("pay"), json!("{")),
                    entry(json!(1), json!("b"), json!("look"), json!("{")),
                    piece(0, "}"),
                    piece(1, "}"),
                ],
                &["a pay {}", "b look {}"],
            ),
            (
                "a new id under the same index",
                vec![
                    entry(json!(0), json!("a"), json!("pay"), json!("{\"to\": ")),
                    piece(0, "\"ann\"}"),
                    entry(json!(0), json!("b"), json!("pay"), json!("{\"to\": ")),
                    piece(0, "\"bob\"}"),
                ],
                &["a pay {\"to\": \"ann\"}", "b pay {\"to\": \"bob\"}"],
            ),
            (
                "an index that was never opened",
                vec![
                    entry(json!(0), json!("a"), json!("pay"), json!("{\"to\": \"ann\"}")),
                    entry(json!(0), json!("b"), json!("pay"), json!("{\"to\": ")),
                    piece(1, "\"bob\"}"),
                ],
                &["a pay {\"to\": \"ann\"}", "b pay {\"to\": \"bob\"}"],
            ),
            (
                "nulls",
                vec![
                    entry(json!(0), json!("a"), json!("pay"), none.clone()),
                    entry(json!(0), none.clone(), none.clone(), json!("{")),
                    entry(json!(0), json!(""), json!(""), json!("}")),
                ],
                &["a pay {}"],
            ),
            (
                "whole calls with neither index nor id",
                vec![
                    entry(none.clone(), none.clone(), json!("pay"), json!({"n": 1})),
                    entry(none.clone(), none.clone(), json!("pay"), json!("{}")),
                ],
                &["- pay {\"n\":1}", "- pay {}"],
            ),
            (
                "one id for two whole calls without index",
                vec![
                    entry(none.clone(), json!("d"), json!("pay"), json!("{}")),
                    entry(none.clone(), json!("d"), json!("pay"), json!("{}")),
                ],
                &["d pay {}", "d pay {}"],
            ),
            (
                "one id for two calls",
                vec![
                    entry(json!(0), json!("d"), json!("find"), json!("{}")),
                    entry(json!(1), json!("d"), json!("pay"), json!("{}")),
                ],
                &["d find {}", "d pay {}"],
            ),
            (
                "id and name in every piece",
                vec![
                    entry(json!(0), json!("a"), json!("pay"), json!("{\"n\"")),
                    entry(json!(0), json!("a"), json!("pay"), json!(": 1}")),
                    entry(json!(0), json!("a"), json!("pay"), json!("")),
                ],
                &["a pay {\"n\": 1}"],
            ),
            (
                "every call under index 0 and no ids",
                vec![
                    entry(json!(0), none.clone(), json!("pay"), json!("{}")),
                    entry(json!(0), none.clone(), json!("pay"), json!("{\"n\": 2}")),
                ],
                &["- pay {}", "- pay {\"n\": 2}"],
            ),
            (
                "pieces without index",
                vec![
                    entry(none.clone(), json!("a"), json!("pay"), json!("{\"n\"")),
                    entry(none.clone(), none.clone(), none.clone(), json!(": 1}")),
                    entry(none.clone(), none.clone(), none.clone(), json!("{}")),
                ],
                &["a pay {\"n\": 1}", "-  {}"],
            ),
            (
                "a name in pieces, and entries that say nothing",
                vec![
                    entry(json!(0), json!("a"), json!("pay"), none.clone()),
                    entry(json!(0), none.clone(), json!("_now"), whole("{}")),
                    json!({"index": 0}),
                    json!(7),
                ],
                &["a pay_now {}"],
            ),
        ];
        for (what, entries, wanted) in table {
            assert_eq!(together(&entries), wanted, "{what}");
        }
    }
}
