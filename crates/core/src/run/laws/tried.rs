//! The laws of a run, tried on random lives.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use super::life::Life;
use crate::run::step::name;

/// Bytes that a life's choices are made of.
pub(super) fn tapes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..1200)
}

pub(super) fn live(tape: Vec<u8>) -> Life {
    let mut life = Life::new(tape);
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
    assert_eq!(events.len(), 27, "{events:?}");
    assert!(ends.len() >= 13, "{ends:?}");
}
