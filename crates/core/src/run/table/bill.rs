//! What a run's tenant pays for, and a day that is used up.

use serde_json::{Value, json};

use super::replays::stage::{Other, Recorded};
use crate::budget::{Budgets, DayLimit};
use crate::id::RunId;
use crate::model::FailureKind;
use crate::run::trial::{DAWN, Trial, said};
use crate::run::{Event, EventType, Heir, OnBill, outstanding};

fn used_up(trial: &Trial, limit: DayLimit) -> Event {
    Event::QuotaUsedUp { at: trial.now, limit }
}

fn on_bill(model: &str, targets: u64) -> Option<OnBill> {
    Some(OnBill { model: model.into(), targets })
}

/// A run whose day is used up at its second turn.
fn stopped(limit: DayLimit) -> Trial {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("look", json!({}))]);
    trial.works(0);
    trial.build();
    let (attempts, used) = (trial.state.model.attempts, trial.state.used.clone());
    trial.must(used_up(&trial, limit));
    assert_eq!((trial.state.model.attempts, &trial.state.used), (attempts, &used), "nobody was asked");
    trial
}

#[test]
fn a_day_that_is_used_up_ends_the_run_and_says_so() {
    for (limit, reason, what) in
        [(DayLimit::Tokens, "max_tokens", "tokens"), (DayLimit::Money, "max_cost", "money")]
    {
        let trial = stopped(limit);
        assert_eq!(trial.end(), (reason, "quota_exceeded".into()));
        let (answer, _) = trial.tables.ended.clone().expect("an end");
        let answer = answer.expect("a sentence");
        for word in ["step 2", what, limit.quota(), "00:00 UTC"] {
            assert!(answer.contains(word), "{answer:?} names {word}");
        }
        assert_eq!(trial.told(EventType::ModelFailed), Vec::<&Value>::new());
    }
}

#[test]
fn whoever_may_ask_people_for_more_asks_nobody_for_more_of_the_day() {
    let mut trial = Trial::begun(&json!({"budgets": {"on_exhausted": "ask"}}));
    trial.build();
    trial.must(used_up(&trial, DayLimit::Tokens));
    assert_eq!(trial.end().1, "quota_exceeded");
}

#[test]
fn a_summary_is_of_the_same_day() {
    let mut trial = Trial::summing(&json!({}));
    trial.must(used_up(&trial, DayLimit::Money));
    assert_eq!(trial.end(), ("max_cost", "quota_exceeded".into()));
    assert!(trial.tables.steps.is_empty());
}

#[test]
fn a_run_that_was_stopped_goes_on_when_it_is_continued() {
    let trial = stopped(DayLimit::Tokens);
    let heir = Heir {
        run_id: RunId(uuid::Uuid::from_u128(78)),
        budgets: Budgets::default(),
        messages: 0,
        effects: 0,
        counts_from: DAWN + 86_400_000,
    };
    let state = trial.state.continued(heir);
    assert_eq!(state.bill, None, "what it asks is its own");
    let mut next = trial.heir(state);
    next.later(86_400_000);
    next.must(Event::Started { at: next.now });
    next.says("Looked.");
    assert_eq!(next.end(), ("final_answer", "Looked.".into()));
    assert_eq!(next.state.bill, on_bill("main/m", 1));
}

#[test]
fn a_replay_ends_as_the_day_did_then() {
    let trial = stopped(DayLimit::Tokens);
    let (replayed, difference) = Recorded::of(&trial, &json!({})).under(&Other::default());
    assert_eq!((difference, replayed.end()), (None, ("max_tokens", "quota_exceeded".into())));
}

#[test]
fn an_attempt_is_paid_to_whoever_was_asked() {
    let mut trial = Trial::begun(&json!({}));
    assert_eq!(trial.state.bill, None);
    trial.build();
    assert_eq!((trial.state.bill.clone(), trial.state.used.model_calls), (on_bill("main/m", 1), 0));
    trial.model_fails(FailureKind::Unusable, 401);
    assert_eq!(
        trial.state.bill,
        on_bill("main/m", 1),
        "the next one is not asked before its context is built"
    );
    trial.build();
    assert_eq!(trial.state.bill, on_bill("alt/n", 0b11));
    let replied = trial.replied(&said("", &[("look", json!({}))]), false);
    trial.must(replied);
    trial.works(0);
    trial.build();
    assert_eq!((trial.state.bill.clone(), trial.state.used.model_calls), (on_bill("main/m", 0b11), 2));
    assert!(!outstanding(&trial.state).is_empty());
}

#[test]
fn a_summary_is_paid_to_whoever_wrote_it() {
    let mut trial = Trial::summing(&json!({}));
    assert_eq!(trial.state.bill, on_bill("main/m", 1));
    trial.summary_fails(FailureKind::Unusable, 401);
    assert_eq!(trial.state.bill, on_bill("alt/n", 0b11));
    trial.sums_up(&said("so it went", &[]));
    assert_eq!(trial.state.used.model_calls, 2);
}

/// Where a provider is in trouble nobody is asked, and nobody paid.
#[test]
fn a_wait_is_no_call() {
    let mut trial = Trial::begun(&json!({}));
    trial.build();
    trial.must(trial.failed(FailureKind::Held, 503, Some(10)));
    assert_eq!((trial.state.used.model_calls, trial.state.model.attempts), (0, 1));
}
