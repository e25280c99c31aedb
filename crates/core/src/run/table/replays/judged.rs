//! What people approved, and the rules that it was judged by, in runs that are played again.

use serde_json::{Value, json};

use super::stage::{Other, Recorded, run};
use crate::permission::{CompiledPolicy, Owner, Policy, Rule};
use crate::replay::{Changes, Rules, Under};
use crate::run::trial::{Trial, agent, with_server};
use crate::run::{Event, EventType};

fn asks(approvals: u32) -> Policy {
    let rule: Rule =
        serde_json::from_value(json!({"tool": "risky", "effect": "ask", "approvals": approvals}))
            .expect("a rule");
    Policy { rules: vec![rule], ..Policy::default() }
}

/// One approved, then two had to, and people were asked anew.
fn approved_twice() -> Trial {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("risky", json!({"n": 1})), ("mail", json!({"n": 2}))]);
    trial.rules_are(Some(&asks(2)));
    trial.later(10);
    trial.approved_by(0, &["user:ann"], None);
    trial.later(10);
    trial.approved_by(0, &["user:ann", "user:bob"], None);
    trial.works(0);
    trial.works(1);
    trial.says("Done.");
    trial
}

fn names(trial: &Trial) -> Vec<&'static str> {
    trial.tables.names()
}

#[test]
fn unchanged_it_is_judged_and_asked_as_it_was() {
    let trial = approved_twice();
    assert!(trial.journal.iter().any(|event| matches!(event, Event::RulesChanged { .. })));
    let replayed = run(&trial.recording(), Under::TheSame).expect("played");
    let again = Trial::of_replay(agent(&json!({})), &replayed);
    assert_eq!(names(&again), names(&trial));
    let asked: Vec<_> = again.tables.approvals.all.keys().copied().collect();
    let then: Vec<_> = trial.tables.approvals.all.keys().copied().collect();
    // Each stands for the one of then, so that the words of people can be shown with it.
    let mut decided = replayed.decided.clone();
    decided.sort();
    assert_eq!(decided, then.into_iter().zip(asked).collect::<Vec<_>>());
}

/// The replay under a policy that asks for so many.
fn under(trial: &Trial, approvals: u32) -> Trial {
    let (registry, context) = (agent(&json!({})), json!({}));
    let rule = json!({"tool": "risky", "effect": "ask", "approvals": approvals, "expires_ms": 5000});
    let policy: Policy = serde_json::from_value(json!({"rules": [rule]})).expect("a policy");
    let tenant = CompiledPolicy::compile(&policy, Owner::Tenant).expect("a policy");
    let rules = Rules { tenant: Some(&tenant), run: None, creators: &[], context: &context };
    let recording = trial.recording();
    let changes = Changes { registry: &registry, budgets: &recording.first.budgets, rules: Some(rules) };
    let replayed = run(&recording, Under::Changed(changes)).expect("played");
    Trial::of_replay(agent(&json!({})), &replayed)
}

/// Those who approved are asked for again, where a policy asks for as many as they are.
#[test]
fn under_other_rules_those_who_approved_are_enough_or_not() {
    for (approvals, end, asked) in [(1, "out of one", 1), (2, "after both", 2), (3, "never", 3)] {
        let again = under(&approved_twice(), approvals);
        let first = again.tables.calls.values().next().expect("a call");
        let ran = again.told(EventType::ToolStarted).iter().any(|told| told["tool_name"] == "risky");
        assert_eq!((ran, again.tables.approvals.all.len()), (approvals < 3, asked), "{end}: {first:?}");
        if approvals == 3 {
            assert_eq!(again.state.denied[0].decided_by, "expiry", "nobody else approved");
        }
        again.check_journal();
    }
}

/// That nobody's word counted any more is not the same as that nobody knows who approved.
#[test]
fn what_only_those_approved_who_are_gone_is_void_again() {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("risky", json!({"n": 1}))]);
    trial.rules.number += 1;
    trial.rules.gone = ["user:ann".to_owned()].into();
    trial.later(10);
    trial.approved_by(0, &["user:ann"], None);
    trial.later(10);
    trial.approved_by(0, &["user:bob"], None);
    trial.works(0);
    trial.says("Done.");
    let again = under(&trial, 1);
    let approvals: Vec<_> =
        again.tables.approvals.all.values().map(|told| (told.used, told.void.is_some())).collect();
    assert_eq!(approvals, [(false, true), (true, false)]);
    again.check_journal();
}

/// Where the verdicts of then are kept, an agent may lack the tool of a call that was allowed: it doesn't begin, and the
/// replay comes to its end.
#[test]
fn a_call_of_a_tool_that_is_not_there_any_more_does_not_begin() {
    let mut trial = Trial::begun_with(&["read"]);
    trial.calls(&[("srv__read", json!({"n": 1})), ("look", json!({}))]);
    trial.works(0);
    trial.works(1);
    trial.says("Done.");
    let recorded = Recorded::of(&trial, &with_server(&json!({})));
    for rules in [false, true] {
        let (again, _) = recorded.under(&Other { rules, ..Other::default() });
        let calls: Vec<(&str, Value)> = again
            .tables
            .calls
            .values()
            .map(|call| {
                (
                    call.row.validation.as_str(),
                    json!(call.result.as_ref().and_then(|(result, _)| result.error_code)),
                )
            })
            .collect();
        assert_eq!(calls, [("unknown_tool", json!("NOT_FOUND")), ("ok", Value::Null)]);
        assert_eq!((again.end().0, again.tables.ledger.entries.len()), ("final_answer", 1));
    }
}
