//! Runs that are played again under changes: what comes out otherwise, and what is told of it.

mod judged;
pub(super) mod stage;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::budget::BudgetPatch;
use crate::model::FailureKind;
use crate::permission::Effect;
use crate::replay::{Changes, Difference, Rules, Under, Unplayable};
use crate::run::trial::{DAWN, Trial, approved, refused};
use crate::run::{CallVerdict, Event, SubmittedStatus};
use crate::tool::{ErrorCode, Output, Reconciled, ResultStatus};
use stage::{Other, Recorded, policy, run};

#[track_caller]
fn differs(difference: Option<Difference>, step: u32, field: &str, expected: Value, got: Value) {
    let field = field.to_owned();
    let step = (step > 0).then_some(step);
    assert_eq!(difference, Some(Difference { step, field, expected, got }));
}

/// What the first call came to: error code and content.
fn first_result(trial: &Trial) -> (Option<&'static str>, String) {
    let first = trial.tables.calls.values().find(|call| (call.row.step, call.row.index) == (1, 0));
    let (result, _) = first.and_then(|call| call.result.as_ref()).expect("a result");
    (result.error_code.map(ErrorCode::as_str), result.content.clone())
}

/// A run that looked, paid and said so.
fn paid() -> Recorded {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("look", json!({"n": 1}))]);
    trial.later(20);
    trial.works(0);
    trial.calls(&[("pay", json!({"n": 2}))]);
    trial.later(20);
    trial.works(0);
    trial.says("Paid.");
    Recorded::of(&trial, &json!({}))
}

#[test]
fn under_no_change_that_matters_it_is_the_same() {
    let (trial, difference) = paid().under(&Other::default());
    assert_eq!(difference, None);
    assert_eq!(trial.now, DAWN + 40, "it took as long");
}

#[test]
fn what_a_policy_denies_now_does_not_run() {
    let deny = json!({"rules": [{"tool": "pay", "effect": "deny", "reason": "no money"}]});
    let (trial, difference) = paid().under(&policy(deny));
    differs(difference, 2, "tool_calls[0].decision.effect", json!("allow"), json!("deny"));
    assert_eq!(trial.end(), ("final_answer", "Paid.".into()));
    assert_eq!(trial.state.denied[0].tool_name, "pay");
    assert_eq!(trial.state.used.tool_calls, 1);
}

#[test]
fn what_is_asked_for_now_waits_for_nobody_and_expires() {
    for (on_expiry, end) in [("deny", "final_answer"), ("stop", "approval_expired")] {
        let ask =
            json!({"rules": [{"tool": "pay", "effect": "ask", "expires_ms": 5000, "on_expiry": on_expiry}]});
        let (trial, difference) = paid().under(&policy(ask));
        differs(difference, 2, "tool_calls[0].decision.effect", json!("allow"), json!(["ask", "deny"]));
        assert_eq!((trial.end().0, trial.now), (end, DAWN + 5_020), "time goes on to the expiry");
    }
}

#[test]
fn what_happens_after_a_longer_wait_happens_later() {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("look", json!({"n": 1}))]);
    trial.works(0);
    trial.build();
    trial.later(40);
    trial.cancel();
    let ask = json!({"rules": [{"tool": "look", "effect": "ask", "expires_ms": 10}]});
    let (trial, _) = Recorded::of(&trial, &json!({})).under(&policy(ask));
    assert_eq!((trial.end().0, trial.now), ("cancelled", DAWN + 50));
}

/// A run whose risky call was approved after an hour.
fn approved_after_an_hour(edited: Option<(Value, String)>) -> Recorded {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("risky", json!({"n": 1}))]);
    trial.later(3_600_000);
    trial.must(trial.decided(0, approved(Effect::Allow, edited)));
    trial.later(20);
    trial.works(0);
    trial.says("Done.");
    Recorded::of(&trial, &json!({}))
}

#[test]
fn a_recorded_word_decides_a_call_that_is_asked_for_again() {
    let ask = json!({"rules": [{"tool": "risky", "effect": "ask", "approvals": 2, "reason": "two of you"}]});
    let edited = Some((json!({"n": 7}), "key-7".into()));
    let (trial, difference) = approved_after_an_hour(edited).under(&policy(ask));
    assert_eq!((difference, first_result(&trial).1.as_str()), (None, "done 0"));
    let entry = trial.tables.ledger.entries.values().next().expect("an entry");
    assert_eq!(entry.row.idempotency_key, entry.row.call.to_string(), "the key is made again");
    assert_eq!(trial.now, DAWN + 3_600_020);
    // Too late for the policy of now, or for what the tool takes now.
    let soon = json!({"rules": [{"tool": "risky", "effect": "ask", "expires_ms": 1000}]});
    let (trial, _) = approved_after_an_hour(None).under(&policy(soon));
    assert_eq!((trial.state.denied[0].decided_by.as_str(), trial.now), ("expiry", DAWN + 1_000));
    let narrow = json!({"tools": {"risky": {"input_schema": {"properties": {"n": {"maximum": 5}}}}}});
    let recorded = approved_after_an_hour(Some((json!({"n": 7}), "key-7".into())));
    let (trial, _) = recorded.under(&Other { agent: narrow, ..Other::default() });
    assert_eq!(trial.state.denied[0].decided_by, "expiry", "an edit that is no legal input any more");
}

#[test]
fn what_is_allowed_now_waits_for_nobody() {
    let mild = json!({"tools": {"risky": {"risk": "low"}}});
    let (trial, difference) = approved_after_an_hour(None).under(&Other { agent: mild, ..Other::default() });
    differs(difference, 1, "tool_calls[0].decision.effect", json!(["ask", "allow"]), json!("allow"));
    assert_eq!((trial.end().0, trial.now), ("final_answer", DAWN + 20), "the hour was the person's");
}

#[test]
fn less_to_spend_ends_it_earlier() {
    let budgets = BudgetPatch { max_steps: Some(1), ..BudgetPatch::default() };
    let (trial, difference) = paid().under(&Other { budgets, rules: false, ..Other::default() });
    differs(difference, 2, "status", json!("completed"), json!(null));
    assert_eq!(trial.end(), ("max_steps", "max_steps".into()));
    let budgets = BudgetPatch { max_tool_calls: Some(1), ..BudgetPatch::default() };
    let (_, difference) = paid().under(&Other { budgets, rules: false, ..Other::default() });
    differs(difference, 2, "tool_calls[0].validation", json!("ok"), json!("over_limit"));
}

#[test]
fn where_the_replies_end_it_ends() {
    let mut trial = Trial::begun(&json!({"budgets": {"max_steps": 1}}));
    trial.calls(&[("look", json!({"n": 1}))]);
    trial.works(0);
    let recorded = Recorded::of(&trial, &json!({"budgets": {"max_steps": 1}}));
    let budgets = BudgetPatch { max_steps: Some(5), ..BudgetPatch::default() };
    let (trial, difference) = recorded.under(&Other { budgets, ..Other::default() });
    differs(difference, 2, "status", json!(null), json!("completed"));
    assert_eq!(trial.end(), ("model_error", "recording_exhausted".into()));
}

#[test]
fn a_call_that_never_ran_has_no_answer() {
    let deny = json!({"policy": {"rules": [{"tool": "pay", "effect": "deny"}]}});
    let mut trial = Trial::begun(&deny);
    trial.calls(&[("pay", json!({"n": 1}))]);
    trial.says("Not allowed.");
    let (trial, difference) = Recorded::of(&trial, &deny).under(&Other::default());
    differs(difference, 1, "tool_calls[0].decision.effect", json!("deny"), json!("allow"));
    let said = "The recording has no answer for this call.".to_owned();
    assert_eq!(first_result(&trial), (Some("UNAVAILABLE"), said));
}

#[test]
fn the_same_call_of_later_answers_one_that_never_ran() {
    let limits = json!({"budgets": {"max_tool_calls": 1, "on_exhausted": "ask"}});
    let mut trial = Trial::begun(&limits);
    trial.calls(&[("look", json!({"n": 2})), ("look", json!({"n": 1}))]);
    trial.works(0);
    trial.budget(BudgetPatch { max_tool_calls: Some(5), ..BudgetPatch::default() });
    trial.calls(&[("look", json!({"n": 1}))]);
    trial.must(Event::ToolAttempted { at: trial.now, call: trial.call(0), outcome: refused(), jitter: 0 });
    trial.says("Seen.");
    let recorded = Recorded::of(&trial, &limits);
    let budgets = BudgetPatch { max_tool_calls: Some(9), ..BudgetPatch::default() };
    let (trial, difference) = recorded.under(&Other { budgets, agent: limits, ..Other::default() });
    differs(difference, 1, "tool_calls[1].validation", json!("over_limit"), json!("ok"));
    let results = trial.tables.calls.values().filter_map(|call| call.result.as_ref());
    let conflicts = results.filter(|(result, _)| result.error_code == Some(ErrorCode::Conflict));
    assert_eq!((trial.state.used.tool_calls, conflicts.count()), (3, 2));
}

#[test]
fn a_tool_that_is_gone_is_unknown() {
    let gone = json!({"tools": {"pay": {"name": "send"}}});
    let (trial, difference) = paid().under(&Other { agent: gone, ..Other::default() });
    // The contexts are as large: a tool's name has as many letters.
    differs(difference, 2, "tool_calls[0].validation", json!("ok"), json!("unknown_tool"));
    assert_eq!(trial.end().0, "final_answer");
    let longer = json!({"instructions": "Be as brief as you can."});
    let (_, difference) = paid().under(&Other { agent: longer, ..Other::default() });
    assert_eq!(difference.map(|found| (found.step, found.field)), Some((Some(1), "context.tokens".into())));
}

#[test]
fn another_context_makes_other_keys_and_verdicts() {
    let keyed = json!({"tools": {"order": {"idempotency_key": "order:{{context.shop}}"}}});
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("order", json!({"n": 1}))]);
    trial.must(trial.key_taken(0, true, ResultStatus::Succeeded));
    trial.says("Ordered before.");
    let recorded = Recorded::of(&trial, &json!({}));
    let context = json!({"shop": "s-9"});
    let (trial, difference) = recorded.under(&Other { agent: keyed.clone(), context, ..Other::default() });
    differs(difference, 1, "tool_calls[0].result.status", json!("succeeded"), json!("failed"));
    let entry = trial.tables.ledger.entries.values().next().expect("it would have been sent");
    assert_eq!(entry.row.idempotency_key, "order:s-9");
    let (_, difference) = recorded.under(&Other { agent: keyed, ..Other::default() });
    differs(difference, 1, "tool_calls[0].validation", json!("ok"), json!("schema_violation"));
}

#[test]
fn deaths_and_doubts_come_as_they_came() {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("refund", json!({"n": 1}))]);
    trial.later(30);
    trial.dies();
    trial.reconciles(0, Reconciled::Unknown);
    trial.later(50);
    trial.must(trial.settled(0, true));
    trial.model_fails(FailureKind::Passing, 503);
    trial.fire();
    trial.says("Refunded.");
    let (trial, difference) = Recorded::of(&trial, &json!({})).under(&Other::default());
    assert_eq!((difference, trial.end().0, trial.state.deaths), (None, "final_answer", 1));
}

#[test]
fn a_client_that_never_answered_does_not_answer_now() {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("ask_user", json!({"n": 1}))]);
    trial.fire();
    trial.calls(&[("ask_user", json!({"n": 2}))]);
    trial.must(trial.submitted(0, SubmittedStatus::Succeeded));
    trial.says("M.");
    let longer = json!({"tools": {"ask_user": {"timeout_ms": 90_000}}});
    let (trial, difference) =
        Recorded::of(&trial, &json!({})).under(&Other { agent: longer, ..Other::default() });
    assert_eq!((difference, trial.now), (None, DAWN + 90_000));
}

#[test]
fn a_person_in_a_tools_place_is_heard_only_where_somebody_is_asked() {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("risky", json!({"n": 1}))]);
    trial.must(trial.decided(0, CallVerdict::Answered(Output::plain("by hand"))));
    trial.says("Done.");
    let recorded = Recorded::of(&trial, &json!({}));
    let (_, difference) = recorded.under(&Other::default());
    assert_eq!(difference, None);
    let mild = json!({"tools": {"risky": {"risk": "low"}}});
    let (trial, _) = recorded.under(&Other { agent: mild, ..Other::default() });
    assert_eq!(first_result(&trial).0, Some("UNAVAILABLE"));
}

#[test]
fn messages_that_are_gone_forbid_another_context() {
    let mut recorded = paid();
    for event in &mut recorded.journal {
        if let Event::ContextBuilt { manifest, .. } = event {
            manifest.included.insert(0, crate::id::MessageId(Uuid::from_u128(1)));
        }
    }
    let (recording, context) = (recorded.recording(), json!({}));
    let rules = Some(Rules { tenant: None, run: None, creators: &[], context: &context });
    let changes = Changes { registry: &recorded.registry, budgets: &recording.first.budgets, rules };
    assert_eq!(run(&recording, Under::Changed(changes)).err(), Some(Unplayable::HistoryGone));
    assert!(run(&recording, Under::TheSame).is_ok(), "what was built then is what it was");
}

#[test]
fn a_timer_that_was_late_then_keeps_no_other_waiting() {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("look", json!({"n": 1})), ("gate", json!({"n": 2}))]);
    trial.works(0);
    trial.later(86_400_005);
    trial.fire();
    trial.says("Nobody decided.");
    let recorded = Recorded::of(&trial, &json!({}));
    let ask = json!({"rules": [{"tool": "look", "effect": "ask", "expires_ms": 1000}]});
    let (trial, _) = recorded.under(&policy(ask));
    let decided = |tool: &str| {
        let call = trial.tables.calls.values().find(|call| call.row.tool_name == tool).expect("a call");
        call.decisions.last().expect("a decision").decided_at
    };
    assert_eq!((decided("look"), decided("gate")), (DAWN + 1_000, DAWN + 86_400_005));
}

#[test]
fn a_refusal_of_more_answers_its_own_question() {
    let limits = json!({"budgets": {"max_steps": 1, "on_exhausted": "ask"}});
    let mut trial = Trial::begun(&limits);
    trial.calls(&[("look", json!({"n": 1}))]);
    trial.works(0);
    trial.later(40);
    trial.budget(BudgetPatch { max_steps: Some(2), ..BudgetPatch::default() });
    trial.calls(&[("look", json!({"n": 2}))]);
    trial.works(0);
    trial.later(20);
    let approval = trial.state.budget_ask.expect("a question").approval_id;
    trial.must(Event::BudgetDenied { at: trial.now, approval, by: "key_a".into() });
    let recorded = Recorded::of(&trial, &limits);
    let (trial, difference) = recorded.under(&Other { agent: limits, ..Other::default() });
    assert_eq!((difference, trial.end().0, trial.now), (None, "max_steps", DAWN + 60));
}
