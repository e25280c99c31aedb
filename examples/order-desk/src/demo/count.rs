//! The count at the end. The shop is asked, not the runtime: what stands in its books is what
//! happened to the customers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::runtime::ended;
use crate::shop::Books;

/// What a message asked for: the tool that makes it, and for what.
pub(super) type Wanted = (&'static str, &'static str, &'static str);

/// What the scripted model is to bring about: an order or a refund each for these messages.
/// Nothing for the others: one is refused, one only asks.
pub(super) const WANTED: [Wanted; 6] = [
    ("01-two-teas", "order", "TEA-250"),
    ("02-blue-cup", "order", "CUP-02"),
    ("03-broken-kettle", "refund", "1002"),
    ("05-honey-in-words", "order", "HON-340"),
    ("07-teapot", "order", "POT-80"),
    ("08-leaking-jar", "refund", "1003"),
];

/// How the demo came out.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) runs: usize,
    pub(super) orders: usize,
    pub(super) duplicates: usize,
    pub(super) lost: usize,
    /// What scenes should have shown and did not.
    pub(super) failures: Vec<String>,
}

impl Verdict {
    /// Nothing twice, nothing lost, every scene as it should be.
    pub(super) fn good(&self) -> bool {
        self.duplicates == 0 && self.lost == 0 && self.failures.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.failures {
            writeln!(f, "not as it should be: {failure}")?;
        }
        let Self { runs, orders, duplicates, lost, .. } = self;
        write!(f, "demo: {runs} runs, {orders} orders, {duplicates} duplicates, {lost} lost")
    }
}

/// What the shop made, by what it was made for and how often.
pub(super) fn made(books: &Books) -> BTreeMap<(String, String, String), usize> {
    let mut made = BTreeMap::new();
    for order in &books.orders {
        let asked_by = order.message_id.as_ref().or(order.run_id.as_ref()).cloned().unwrap_or_default();
        *made.entry((asked_by, "order".to_owned(), order.sku.clone())).or_default() += 1;
    }
    for refund in &books.refunds {
        let asked_by = refund.message_id.as_ref().or(refund.run_id.as_ref()).cloned().unwrap_or_default();
        *made.entry((asked_by, "refund".to_owned(), refund.order_id.to_string())).or_default() += 1;
    }
    made
}

/// What was made more often than once.
pub(super) fn duplicates(books: &Books) -> usize {
    made(books).values().map(|count| count - 1).sum()
}

/// What was accepted and did not come about: runs that never ended, effects that the ledger has
/// and the shop hasn't, and, where it is known what customers wanted, wishes that nobody met.
pub(super) fn lost(books: &Books, runs: &[Value], ledgers: &[Value], wanted: &[Wanted]) -> BTreeSet<String> {
    let made = made(books);
    let unended = runs.iter().filter(|run| !ended(run)).map(|run| format!("run {}", run["id"]));
    let keys: BTreeSet<&str> = keys(books).collect();
    let unmade = ledgers
        .iter()
        .filter(|entry| entry["side_effect"] == "committed" && entry["tool_name"] != "send_mail")
        .filter(|entry| !entry["idempotency_key"].as_str().is_some_and(|key| keys.contains(key)))
        .map(|entry| format!("{} of {}", entry["tool_name"], entry["run_id"]));
    let unmet = wanted
        .iter()
        .map(|(message, what, which)| ((*message).to_owned(), (*what).to_owned(), (*which).to_owned()))
        .filter(|wish| !made.contains_key(wish))
        .map(|(message, what, which)| format!("the {what} {which} of {message}"));
    unended.chain(unmade).chain(unmet).collect()
}

/// The keys in the books that no ledger knows as an effect.
pub(super) fn unaccounted(books: &Books, ledgers: &[Value]) -> Vec<String> {
    let known: BTreeSet<&str> = ledgers
        .iter()
        .filter(|entry| entry["side_effect"] == "committed")
        .filter_map(|entry| entry["idempotency_key"].as_str())
        .collect();
    keys(books).filter(|key| !known.contains(key)).map(str::to_owned).collect()
}

fn keys(books: &Books) -> impl Iterator<Item = &str> {
    let orders = books.orders.iter().map(|order| order.idempotency_key.as_deref());
    let refunds = books.refunds.iter().map(|refund| refund.idempotency_key.as_deref());
    orders.chain(refunds).map(Option::unwrap_or_default)
}
