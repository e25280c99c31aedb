//! One round of facts that is green, and for each kind of offence a change that makes it red.

mod green;
mod red;

use serde_json::{Value, json};

use super::facts::joined;
use super::{Facts, RunFacts, weigh};
use crate::report::Charge;
use crate::world::lines::RequestLine;

/// The charges that some facts lead to, each once.
fn charges(facts: &Facts) -> Vec<Charge> {
    let mut charges: Vec<Charge> = weigh(facts).offences.iter().map(|offence| offence.charge).collect();
    charges.sort_unstable();
    charges.dedup();
    charges
}

/// The charges after a change of the green round.
fn after(change: impl FnOnce(&mut Facts)) -> Vec<Charge> {
    let mut facts = green::facts();
    change(&mut facts);
    charges(&facts)
}

fn run<'f>(facts: &'f mut Facts, id: &str) -> &'f mut RunFacts {
    facts.runs.get_mut(id).expect("a run of the green round")
}

/// Adds a request to a tool.
fn request(facts: &mut Facts, like: &str, attempt: u32, from: u64, to: u64, how: &str) {
    let mut began =
        facts.requests.iter().find(|request| request.began.token == like).expect("its like").began.clone();
    (began.attempt, began.at_ms, began.n) = (attempt, from, facts.requests.len() as u64 + 100);
    let ended = RequestLine { n: began.n, at_ms: to, how: Some(how.to_owned()), ..RequestLine::default() };
    facts.requests.extend(joined(vec![began, ended]));
    facts.requests.sort_by_key(|request| request.began.at_ms);
    for (n, request) in (1..).zip(&mut facts.requests) {
        request.began.n = n;
    }
}

fn stage(what: &str, at_ms: u64, server: u64) -> Value {
    json!({"what": what, "at_ms": at_ms, "server": server})
}
