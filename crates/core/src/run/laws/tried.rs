//! The laws of a run, tried on random lives.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use super::life::Life;
use crate::run::ApprovalKind;
use crate::run::step::name;

/// Bytes that a life's choices are made of.
pub(super) fn tapes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..1200)
}

pub(super) fn live(tape: Vec<u8>) -> Life {
    lived(Life::new(tape))
}

pub(super) fn lived(mut life: Life) -> Life {
    life.live();
    life.trial.check_journal();
    life
}

proptest! {
    #![proptest_config(Config { cases: 200, failure_persistence: None, max_shrink_iters: 4000, ..Config::default() })]

    #[test]
    fn every_life_keeps_the_laws(tape in tapes()) {
        live(tape);
    }

    #[test]
    fn every_life_of_approvals_keeps_the_laws(tape in tapes()) {
        lived(Life::of_approvals(tape));
    }
}

/// The lives are worth trying: between them everything happens, and they end in every way but a few.
#[test]
fn between_them_lives_see_everything() {
    let mut runner = TestRunner::deterministic();
    let (mut ends, mut events) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..150 {
        let tape = tapes().new_tree(&mut runner).expect("a tape").current();
        let life = live(tape);
        ends.insert(life.trial.end().0);
        events.extend(life.trial.journal.iter().map(name));
    }
    assert_eq!(events.len(), 33, "{events:?}");
    assert!(ends.len() >= 13, "{ends:?}");
}

/// What becomes of approvals of calls in a life, in words.
fn fates(life: &Life) -> Vec<String> {
    let tables = &life.trial.tables;
    let mut fates: Vec<String> = Vec::new();
    for told in tables.approvals.all.values().filter(|told| told.row.kind == ApprovalKind::ToolCall) {
        let is_first = told.row.call.is_some_and(|call| call.0 == told.row.id.0);
        fates.push(told.status.as_str().to_owned());
        fates.extend(told.used.then(|| format!("used, the first: {is_first}")));
        fates.extend(told.void.clone());
    }
    fates.extend(tables.events.iter().map(|told| told.kind.as_str().to_owned()));
    fates
}

/// What some approval comes to, or is told of.
const FATES: [&str; 12] = [
    "approved",
    "denied",
    "expired",
    "cancelled",
    "used, the first: true",
    "used, the first: false",
    "policy denies it by now",
    "policy asks for others by now than those who approved",
    "the approval was not used in time",
    "the call came to its end without it",
    "approval.reminder",
    "approval.expiring",
];

/// The lives of approvals are worth trying: between them everything becomes of approvals that can.
#[test]
fn between_them_approvals_meet_everything() {
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    for _ in 0..150 {
        let tape = tapes().new_tree(&mut runner).expect("a tape").current();
        seen.extend(fates(&lived(Life::of_approvals(tape))));
    }
    for fate in FATES {
        assert!(seen.contains(fate), "{fate}: {seen:?}");
    }
}
