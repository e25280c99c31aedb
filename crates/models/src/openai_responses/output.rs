//! The items of a reply, put together from events whose marks can't be trusted: servers leave out ids and places, say another
//! id in each event, or give every item place 0.
//!
//! Rule: two items are never spliced into one. In doubt an event begins an item of its own; what the server says at the
//! end of all of them decides.

use std::collections::HashMap;

use answerable_core::model::ReplyCall;
use serde_json::Value;

use super::item::{Item, Kind, Misfit, arguments_fit, fits};

/// Most items that are kept count of; the core takes 128 calls.
const MOST_ITEMS: usize = 1000;

/// The items so far.
#[derive(Debug, Default)]
pub(super) struct Output {
    items: Vec<Item>,
    /// The item that an event at a place belongs to.
    at_place: HashMap<u64, usize>,
}

impl Output {
    /// An item begins.
    pub(super) fn begin(&mut self, event: &Value) {
        let item = Item::begun(&event["item"]);
        let known = self.find(event, item.id.as_deref()).filter(|at| {
            let known = &self.items[*at];
            let is_repeated = item.id.is_some() && known.id == item.id;
            known.kind == item.kind && known.value.is_none() && (is_repeated || !known.is_announced)
        });
        match known {
            // Pieces of it came before.
            Some(at) => self.items[at].announce(item),
            None => drop(self.open(event, item)),
        }
    }

    /// All of an item is told; gives the text of it that was not streamed.
    pub(super) fn end(&mut self, event: &Value) -> Result<String, Misfit> {
        let item = Item::whole(&event["item"]);
        let known = self.find(event, item.id.as_deref()).filter(|at| self.items[*at].kind == item.kind);
        let known_value = known.and_then(|at| self.items[at].value.as_ref());
        if item.id.is_some() && known_value == item.value.as_ref() {
            return Ok(String::new());
        }
        let known = known.filter(|_| known_value.is_none());
        let at = known.unwrap_or_else(|| self.open(event, Item::empty(item.kind)));
        self.items[at].settle(item)
    }

    /// The item that some more belongs to.
    pub(super) fn of_piece(&mut self, event: &Value, kind: Kind) -> &mut Item {
        self.of(event, kind, |known| known.value.is_none())
    }

    /// The item of which something is told whole, maybe once more.
    pub(super) fn of_whole_piece(&mut self, event: &Value, kind: Kind) -> &mut Item {
        self.of(event, kind, |_| true)
    }

    fn of(&mut self, event: &Value, kind: Kind, may_be: impl Fn(&Item) -> bool) -> &mut Item {
        let id = event["item_id"].as_str().filter(|id| !id.is_empty());
        let known =
            self.find(event, id).filter(|at| self.items[*at].kind == kind && may_be(&self.items[*at]));
        let at = known.unwrap_or_else(|| {
            let mut item = Item::empty(kind);
            item.id = id.map(str::to_owned);
            self.open(event, item)
        });
        &mut self.items[at]
    }

    /// The whole output, told at the end: it is taken, if what came before fits it. An empty one is none.
    pub(super) fn settle(&mut self, output: &Value) -> Result<(), Misfit> {
        let told: Vec<Item> = output.as_array().into_iter().flatten().map(Item::whole).collect();
        if told.is_empty() {
            return Ok(());
        }
        fits(&text(&self.items), &text(&told))?;
        let refusal = |items: &[Item]| items.iter().map(|item| item.refusal.as_str()).collect::<String>();
        fits(&refusal(&self.items), &refusal(&told))?;
        let mut told_calls = calls(&told);
        for call in calls(&self.items) {
            let told = told_calls.next().ok_or(Misfit)?;
            fits(&call.name, &told.name)?;
            arguments_fit(&call.arguments, &told.arguments)?;
        }
        drop(told_calls);
        let known = std::mem::replace(&mut self.items, told);
        // Too many are refused by the caller, and not compared.
        if !self.is_too_long() {
            self.keep_seals(&known);
        }
        Ok(())
    }

    /// Some tell the seal of an item only when it ends.
    fn keep_seals(&mut self, known: &[Item]) {
        for item in self.items.iter_mut().filter(|item| item.kind == Kind::Other && item.id.is_some()) {
            let is_sealed = |value: &Value| value["encrypted_content"].is_string();
            let before =
                known.iter().find(|known| known.id == item.id).and_then(|known| known.value.as_ref());
            if !item.value.as_ref().is_some_and(is_sealed) && before.is_some_and(is_sealed) {
                item.value = before.cloned();
            }
        }
    }

    /// The item that an event is about: by its id, then by its place, else the last.
    fn find(&self, event: &Value, id: Option<&str>) -> Option<usize> {
        let by_id = id
            .filter(|id| !id.is_empty())
            .and_then(|id| self.items.iter().rposition(|item| item.id.as_deref() == Some(id)));
        by_id.or_else(|| match event["output_index"].as_u64() {
            Some(place) => self.at_place.get(&place).copied(),
            None => self.items.len().checked_sub(1),
        })
    }

    fn open(&mut self, event: &Value, item: Item) -> usize {
        let at = self.items.len();
        if let Some(place) = event["output_index"].as_u64() {
            self.at_place.insert(place, at);
        }
        self.items.push(item);
        at
    }

    pub(super) fn is_too_long(&self) -> bool {
        self.items.len() > MOST_ITEMS
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    /// All text of the items.
    pub(super) fn text(&self) -> String {
        text(&self.items)
    }

    /// All calls among them.
    pub(super) fn calls(&self) -> Vec<ReplyCall> {
        calls(&self.items).cloned().collect()
    }
}

fn text(items: &[Item]) -> String {
    items.iter().map(Item::text).collect()
}

fn calls(items: &[Item]) -> impl Iterator<Item = &ReplyCall> {
    items.iter().filter(|item| item.kind == Kind::Call).map(|item| &item.call)
}
