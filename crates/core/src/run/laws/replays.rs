//! Random lives, played again.

use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::life::Life;
use super::tape::Tape;
use super::tried::{live, lived, tapes};
use super::world;
use crate::id::RunId;
use crate::permission::{CompiledPolicy, Owner, Policy};
use crate::registry::Registry;
use crate::replay::{Changes, Recording, Replayed, Rules, Story, Under, first_difference, replay, story_of};
use crate::run::step::name;
use crate::run::trial::{MAX_RECOVERIES, Trial, agent, frame};
use crate::run::{Event, RunState};

fn as_run(recording: &Recording<'_>, under: Under<'_>, id: u128) -> Replayed {
    let run_id = RunId(Uuid::from_u128((0x018b_cfe5_6800_7000 << 64) | (0x8000 << 48) | id));
    let frame = frame(&RunState { run_id, ..recording.first.clone() });
    replay(recording, under, &frame).expect("it ends")
}

fn journal(replayed: &Replayed) -> Vec<Event> {
    replayed.parts.iter().flat_map(|part| part.events.clone()).collect()
}

/// A replay as a recording; `journal` is its own.
fn recorded<'a>(registry: &'a Registry, replayed: &'a Replayed, journal: &'a [Event]) -> Recording<'a> {
    let (first, inputs) = (&replayed.first, &replayed.inputs);
    Recording { registry, max_recoveries: MAX_RECOVERIES, first, before: &[], inputs, journal }
}

/// As JSON, with ids numbered in the order of their first coming.
fn without_ids(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).expect("JSON");
    let (mut out, mut known, mut at) = (String::new(), HashMap::new(), 0);
    while at < text.len() {
        match text.get(at..at + 36).filter(|id| id.contains('-')).and_then(|id| Uuid::try_parse(id).ok()) {
            Some(id) => {
                let next = known.len();
                out.push_str(&format!("#{}", known.entry(id).or_insert(next)));
                at += 36;
            }
            None => {
                let end = at + text[at..].chars().next().map_or(1, char::len_utf8);
                out.push_str(&text[at..end]);
                at = end;
            }
        }
    }
    out
}

fn same_but_ids(expected: &Recording<'_>, last: &RunState, got: &Replayed) {
    let events = journal(got);
    for (i, (expected, got)) in expected.journal.iter().zip(&events).enumerate() {
        assert_eq!(name(expected), name(got), "event {i}: {expected:?}\n{got:?}");
        assert_eq!(expected.at(), got.at(), "event {i}: {expected:?}\n{got:?}");
    }
    assert_eq!(without_ids(&expected.journal), without_ids(&events));
    assert_eq!(without_ids(last), without_ids(got.last()));
}

fn unchanged(life: &Life) {
    let recording = life.trial.recording();
    let once = as_run(&recording, Under::TheSame, 7);
    same_but_ids(&recording, &life.trial.state, &once);
    let told: Story = story_of(&recording);
    assert_eq!(first_difference(&told, &once.story), None);
    assert_eq!(told, once.story);
    let twice = as_run(&recording, Under::TheSame, 7);
    assert_eq!((journal(&once), once.last()), (journal(&twice), twice.last()));
    let (registry, events) = (agent(&life.changes), journal(&once));
    let again = as_run(&recorded(&registry, &once, &events), Under::TheSame, 9);
    same_but_ids(&recording, &life.trial.state, &again);
    Trial::of_replay(agent(&life.changes), &again).check_journal();
}

/// A policy that finds fault with more or less.
fn policy(tape: &mut Tape) -> Policy {
    let effect = |tape: &mut Tape| tape.one(&["deny", "ask", "allow"]);
    let rules = json!([
        {"tool": tape.one(&["pay", "look", "g*", "ship", "*"]), "effect": effect(tape), "expires_ms": 2000},
        {"tool": "m*", "effect": effect(tape), "approvals": 2},
    ]);
    serde_json::from_value(json!({"rules": rules})).expect("a policy")
}

/// Under other limits, another agent or another policy: it ends, and lawfully. Played so once more it is the same.
fn changed(life: &Life, tape: &mut Tape) -> Replayed {
    let recording = life.trial.recording();
    let other = if tape.rarely(3) { life.changes.clone() } else { world::changes(tape) };
    let registry = agent(&other);
    let tenant = CompiledPolicy::compile(&policy(tape), Owner::Tenant).expect("a policy");
    let (tenant, context) = (tape.rarely(2).then_some(&tenant), json!({}));
    let rules = (!tape.rarely(4)).then_some(Rules { tenant, run: None, creators: &[], context: &context });
    let under = Under::Changed(Changes { registry: &registry, budgets: &registry.spec.budgets, rules });
    let once = as_run(&recording, under, 7);
    assert!(once.last().is_ended());
    assert_eq!(journal(&once), journal(&as_run(&recording, under, 7)));
    Trial::of_replay(agent(&other), &once).check_journal();
    // What it came to is a run like any other: unchanged it is the same, and under no change that matters, too.
    let events = journal(&once);
    let recording = recorded(&registry, &once, &events);
    same_but_ids(&recording, once.last(), &as_run(&recording, Under::TheSame, 8));
    let again = as_run(&recording, under, 9);
    same_but_ids(&recording, once.last(), &again);
    assert_eq!(first_difference(&once.story, &again.story), None);
    once
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn unchanged_it_is_the_same(tape in tapes()) {
        unchanged(&live(tape));
    }

    #[test]
    fn under_changes_it_ends_and_keeps_the_laws(tape in tapes(), change in prop::collection::vec(any::<u8>(), 0..40)) {
        changed(&live(tape), &mut Tape::new(change));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn a_life_of_approvals_is_the_same_too(tape in tapes()) {
        unchanged(&lived(Life::of_approvals(tape)));
    }

    #[test]
    fn a_life_of_approvals_ends_under_changes(tape in tapes(), change in prop::collection::vec(any::<u8>(), 0..40)) {
        changed(&lived(Life::of_approvals(tape)), &mut Tape::new(change));
    }
}

/// What some journal of a replay has in it.
const WORDS: [&str; 5] = ["no answer for this call", "TimerFired", "KeyTaken", "Recovered", "Approved"];

/// The changes are worth trying: between them replays end in every way but a few, and meet all that only replays meet.
#[test]
fn between_them_replays_see_everything() {
    let mut runner = TestRunner::deterministic();
    let (mut ends, mut words, mut same) = (BTreeSet::new(), BTreeSet::new(), 0);
    for _ in 0..60 {
        let life = live(tapes().new_tree(&mut runner).expect("a tape").current());
        let change = prop::collection::vec(any::<u8>(), 0..40).new_tree(&mut runner).expect("a change");
        let replayed = changed(&life, &mut Tape::new(change.current()));
        let end = replayed.last().end.clone().expect("an end");
        ends.insert(end.reason.as_str());
        words.insert(end.code);
        let text = serde_json::to_string(&journal(&replayed)).expect("JSON");
        for word in WORDS {
            if text.contains(word) {
                words.insert(word.to_owned());
            }
        }
        same += usize::from(story_of(&life.trial.recording()).end == replayed.story.end);
    }
    assert!(ends.len() >= 11, "{ends:?}");
    for word in WORDS.into_iter().chain(["recording_exhausted"]) {
        assert!(words.contains(word), "{word}: {words:?}");
    }
    assert!(same > 0 && same < 60, "{same} of 60 end alike");
}
