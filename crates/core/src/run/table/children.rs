//! Calls of other agents: who they are, what they may spend, how they end, and that they end with their parent.

use serde_json::{Value, json};

use crate::budget::Budgets;
use crate::id::RunId;
use crate::ledger::Effect;
use crate::run::trial::{Trial, agent, round_trip};
use crate::run::{ChildRow, MAX_DEPTH, Record, RunState, StopReason, input_text, next_due, outstanding};
use crate::tool::ResultStatus;

impl Trial {
    /// The agent of a call is found, with the usual limits.
    pub(super) fn hires(&mut self, index: usize) -> Vec<Record> {
        self.must(self.found(index, Some(Budgets::default())))
    }

    /// The run of a call ends, having used a tenth of what it was given.
    fn child_ends(&mut self, index: usize, reason: StopReason, effect: Effect) {
        self.must(self.child_end(index, reason, effect, 10));
    }
}

fn called(names: &[&str], changes: &Value) -> Trial {
    let mut trial = Trial::begun(changes);
    trial.calls(&names.iter().enumerate().map(|(n, name)| (*name, json!({"n": n}))).collect::<Vec<_>>());
    trial
}

fn begun(records: &[Record]) -> ChildRow {
    let row = |record: &Record| match record {
        Record::ChildOpened(row) => Some((**row).clone()),
        _ => None,
    };
    records.iter().find_map(row).expect("a child")
}

#[test]
fn a_child_works_for_its_parent_who_waits_and_pays() {
    let mut trial = called(&["help"], &json!({}));
    assert_eq!(trial.state.status.as_str(), "running");
    let row = begun(&trial.hires(0));
    assert_eq!((trial.stages()[0], trial.state.status.as_str()), ("child", "waiting_tool"));
    assert!(outstanding(&trial.state).is_empty(), "it holds nothing");
    assert_eq!(trial.entry(0), ("started", "none", 1));
    // The tool's limit is the lowest.
    assert_eq!((row.budgets.max_tokens, row.depth, row.budgets.max_steps), (5_000, 1, 20));
    let child = RunState::accepted(RunId(row.call.0), row.budgets.clone(), 1, trial.now, row.deadline);
    let child = child.below(row.depth);
    assert_eq!((child.depth, child.version), (1, 4));
    assert_eq!(round_trip(&child), child);
    let before = trial.state.used.clone();
    trial.child_ends(0, StopReason::FinalAnswer, Effect::Committed);
    assert_eq!(trial.result(0), ("succeeded", None, "Ada says: seven.".into()));
    assert_eq!(trial.entry(0), ("succeeded", "committed", 1));
    let used = &trial.state.used;
    assert_eq!((used.tokens() - before.tokens(), used.tool_calls), (500, 1));
    assert_eq!(trial.state.by_children.input_tokens, 500);
    assert!(trial.state.clock.ran_ms >= row.budgets.timeout_ms / 10, "its time counts");
    trial.says("Seven.");
    trial.check_journal();
}

#[test]
fn what_a_child_did_is_never_forgotten() {
    use Effect::{Committed, None as Nothing, Possible};
    for (tool, reason, effect, result, entry) in [
        ("help", StopReason::MaxTokens, Nothing, ("failed", "BUDGET_EXHAUSTED"), ("failed", "none")),
        ("help", StopReason::Cancelled, Committed, ("failed", "CANCELLED"), ("failed", "committed")),
        ("help", StopReason::PermissionDenied, Nothing, ("failed", "PERMISSION_DENIED"), ("failed", "none")),
        // Its tool was said to change nothing.
        ("team", StopReason::Timeout, Committed, ("failed", "TIMEOUT"), ("failed", "committed")),
        (
            "team",
            StopReason::ModelError,
            Possible,
            ("uncertain", "SIDE_EFFECT_UNCERTAIN"),
            ("uncertain", "possible"),
        ),
    ] {
        let mut trial = called(&[tool], &json!({}));
        trial.hires(0);
        trial.child_ends(0, reason, effect);
        let (status, code, content) = trial.result(0);
        assert_eq!((status, code.unwrap_or("")), result, "{tool} {reason:?} {effect:?}");
        assert!(content.contains("Ada says: seven"), "{content}");
        assert_eq!((trial.entry(0).0, trial.entry(0).1), entry, "{tool} {reason:?} {effect:?}");
        trial.check_journal();
    }
    // A person is asked what became of it.
    let mut trial = called(&["help"], &json!({}));
    trial.hires(0);
    trial.child_ends(0, StopReason::InternalError, Possible);
    assert_eq!((trial.stages()[0], trial.state.status.as_str()), ("asked uncertain", "waiting_approval"));
    // An answer is an answer; what is unclear below it stands below it.
    let mut trial = called(&["team"], &json!({}));
    trial.hires(0);
    trial.child_ends(0, StopReason::FinalAnswer, Possible);
    assert_eq!((trial.result(0).0, trial.entry(0).1), ("succeeded", "committed"));
}

#[test]
fn children_share_what_is_left() {
    let mut trial = called(
        &["team", "team", "help"],
        &json!({"budgets": {"max_tokens": 9_015, "max_cost_microusd": 105}}),
    );
    assert_eq!(trial.stages(), ["key", "key", "ready"]);
    let first = begun(&trial.hires(0)).budgets;
    assert_eq!((first.max_tokens, first.max_cost_microusd), (4_500, Some(50)));
    let second = begun(&trial.hires(1)).budgets;
    assert_eq!((second.max_tokens, second.max_cost_microusd), (4_500, Some(50)));
    trial.child_ends(0, StopReason::FinalAnswer, Effect::None);
    assert_eq!(
        (trial.stages()[2], trial.state.status.as_str()),
        ("ready", "waiting_tool"),
        "the last runs alone"
    );
    trial.child_ends(1, StopReason::FinalAnswer, Effect::None);
    assert_eq!(begun(&trial.hires(2)).budgets.max_tokens, 5_000);
    // Nothing is left: no run can begin.
    let mut trial = called(&["team"], &json!({"budgets": {"max_tokens": 16}}));
    trial.must(trial.found(0, Some(Budgets { max_tokens: 1, ..Budgets::default() })));
    trial.must(trial.child_end(0, StopReason::FinalAnswer, Effect::None, 100));
    let mut spent = called(&["team"], &json!({"budgets": {"max_tokens": 15}}));
    spent.hires(0);
    assert_eq!((spent.result(0).0, spent.result(0).1), ("failed", Some("BUDGET_EXHAUSTED")));
    assert!(spent.tables.children.is_empty() && spent.tables.ledger.entries.is_empty());
}

#[test]
fn no_child_is_begun_too_deep_for_nobody_or_over_a_limit() {
    let mut deep = Trial::begun(&json!({}));
    deep.state.depth = MAX_DEPTH;
    deep.calls(&[("help", json!({}))]);
    let (status, code, content) = deep.result(0);
    assert_eq!((status, code), ("failed", Some("UNAVAILABLE")));
    assert!(content.contains("4 deep"), "{content}");
    let mut unknown = called(&["help"], &json!({}));
    unknown.must(unknown.found(0, None));
    assert_eq!(unknown.result(0), ("failed", Some("NOT_FOUND"), "There is no such agent.".into()));
    let mut over = called(&["team", "team"], &json!({"budgets": {"max_tool_calls": 2}}));
    over.hires(0);
    over.budget(crate::budget::BudgetPatch { max_tool_calls: Some(1), ..Default::default() });
    over.hires(1);
    assert_eq!((over.result(1).0, over.tables.children.len()), ("rejected", 1));
}

#[test]
fn a_child_is_told_what_its_parent_says() {
    assert_eq!(input_text(&json!({"input": "Sum up."})), "Sum up.");
    let more = json!({"input": "Sum up.", "n": 12_345_678_901_234_567_890_u64});
    assert_eq!(input_text(&more), r#"{"input":"Sum up.","n":12345678901234567890}"#);
    assert_eq!(input_text(&json!({"input": 5})), r#"{"input":5}"#);
}

#[test]
fn an_earlier_call_with_its_key_stands_for_it() {
    let mut trial = called(&["help"], &json!({}));
    trial.must(trial.key_taken(0, true, ResultStatus::Succeeded));
    assert_eq!((trial.result(0).0, trial.tables.children.len()), ("succeeded", 0));
}

#[test]
fn a_call_that_takes_too_long_stops_its_child_and_hears_what_it_did() {
    let mut trial = called(&["help"], &json!({}));
    trial.hires(0);
    let due = next_due(&trial.state).expect("a time");
    let stopped = trial.fire();
    assert!(stopped.iter().any(|record| matches!(record, Record::ChildStopped { .. })));
    assert_eq!((trial.now, trial.stages()[0]), (due, "child"));
    trial.child_ends(0, StopReason::Cancelled, Effect::Committed);
    assert_eq!((trial.result(0).1, trial.entry(0).1), (Some("TIMEOUT"), "committed"));
    trial.check_journal();
    // One that doesn't come to its end.
    for (tool, status, code) in [("help", "asked uncertain", ""), ("team", "failed", "TIMEOUT")] {
        let mut trial = called(&[tool], &json!({}));
        trial.hires(0);
        trial.fire();
        trial.fire();
        assert_eq!(trial.stages()[0], status);
        if !code.is_empty() {
            assert_eq!(trial.result(0).1, Some(code));
        }
    }
}

#[test]
fn what_a_child_may_still_spend_is_nobody_elses() {
    let changes = json!({"budgets": {"max_tokens": 9_015, "max_cost_microusd": 105}, "tools": {"team": {"agent": {
        "agent_id": "agt_0192f0c1-2345-7890-abcd-ef0123456789",
        "budgets": {"max_tokens": 4_000, "max_cost_microusd": 60, "timeout_ms": 5_000}}}}});
    let mut trial = called(&["team"], &changes);
    trial.hires(0);
    trial.fire();
    trial.fire();
    assert_eq!((trial.stages()[0], trial.state.used.tokens()), ("failed", 15), "it didn't come to its end");
    assert_eq!(round_trip(&trial.state), trial.state);
    trial.calls(&[("help", json!({}))]);
    let next = begun(&trial.hires(0)).budgets;
    let used = &trial.state.used;
    let left = (9_015 - 4_000 - used.tokens(), Some(105 - 60 - used.cost_microusd));
    assert_eq!((next.max_tokens, next.max_cost_microusd), left);
    trial.child_ends(0, StopReason::FinalAnswer, Effect::None);
    trial.check_journal();
}

#[test]
fn a_child_does_not_work_on_while_its_parent_waits_for_a_write_to_end() {
    for (reason, effect, code) in [
        (StopReason::Cancelled, Effect::Committed, "CANCELLED"),
        (StopReason::MaxSteps, Effect::None, "BUDGET_EXHAUSTED"),
    ] {
        let changes = json!({"budgets": {"timeout_ms": 700}});
        let mut trial = called(&["note", "team", "team"], &changes);
        trial.hires(1);
        trial.hires(2);
        assert_eq!(trial.stages(), ["out", "child", "child"]);
        let records = trial.fire();
        assert_eq!((trial.stages()[0], trial.state.status.as_str()), ("out", "running"), "a write is out");
        let stopped = records.iter().filter(|record| matches!(record, Record::ChildStopped { .. })).count();
        assert_eq!(stopped, 2);
        trial.child_ends(1, reason, effect);
        assert_eq!(trial.result(1).1, Some(code), "it was stopped for no fault of its own");
        trial.works(0);
        assert_eq!((trial.end().0, trial.result(2).0), ("timeout", "cancelled"));
        trial.check_journal();
    }
}

#[test]
fn children_end_with_their_parent() {
    for (tool, entry) in [("help", ("uncertain", "possible")), ("team", ("failed", "none"))] {
        let mut trial = called(&[tool], &json!({}));
        trial.hires(0);
        let records = trial.cancel();
        assert!(records.iter().any(|record| matches!(record, Record::ChildStopped { .. })));
        // Until its end is heard.
        assert_eq!((trial.entry(0).0, trial.entry(0).1), entry);
        assert_eq!(trial.result(0).0, "cancelled");
        trial.check_journal();
    }
}

#[test]
fn a_death_changes_nothing_for_a_parent_that_waits() {
    let mut trial = called(&["help"], &json!({}));
    trial.dies();
    assert_eq!(trial.stages()[0], "key");
    trial.hires(0);
    trial.dies();
    assert_eq!(trial.stages()[0], "child");
    trial.child_ends(0, StopReason::FinalAnswer, Effect::None);
    assert_eq!(trial.result(0).0, "succeeded");
}

#[test]
fn an_agent_that_runs_out_again_and_again_is_a_loop() {
    let changes = json!({"loop_guard": {"max_repeated_calls": 3, "max_repeated_errors": 2}});
    let mut trial = Trial::begun(&changes);
    for n in 0..2 {
        trial.calls(&[("team", json!({"n": n}))]);
        trial.hires(0);
        trial.child_ends(0, StopReason::MaxSteps, Effect::None);
    }
    assert_eq!(trial.end().0, "same_error_repeated");
    assert!(agent(&changes).tool("team").is_some());
}
