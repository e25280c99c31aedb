//! Every event in every place: what is legal, and what comes of it.

mod approvals;
mod approved;
mod bill;
mod budgets;
mod children;
mod crashes;
mod ends;
mod eval_cases;
mod heirs;
mod keys;
mod listing;
mod models;
mod reminders;
mod replays;
mod rules;
mod samples;
mod several;
mod stored;
mod summing;
mod suspended;
mod uncertain;

use super::step::name;
use super::trial::{Trial, approved, said, unclear};
use super::{Event, SubmittedStatus};
use crate::budget::{BudgetPatch, DayLimit, Used};
use crate::id::{ApprovalId, CallId, MessageId};
use crate::ledger;
use crate::model::FailureKind;
use crate::permission::Effect;
use crate::run::{ChildEnd, Reconciliation, Status, StopReason, Submitted};
use crate::tool::{Output, Reconciled, ResultStatus};

/// Events down, places across: `x` is legal, `.` is not. The places from `asked` on are stages of the call that the event
/// is about; `listing` is a run whose tools must be listed, `relisting` one whose tools must be listed again, `stale` one
/// whose list may be old; `ending` is a run that waits for a write before it ends.
const TABLE: &str = "
                        queued boundary listing relisting stale summary again rebuild model retry budget ended | asked ready key out backoff agents child parked reconciling asked_uncertain done ending
Started                 x      .        .       .         .     .       .     .       .     .     .      .     | .     .     .   .   .       .      .     .      .           .               .    .
Recovered               x      x        x       x         x     x       x     x       x     x     x      .     | x     x     x   x   x       x      x     x      x           x               x    x
ToolsListed             .      .        x       x         .     .       .     .       .     .     .      .     | .     .     .   .   .       .      .     .      .           .               .    .
ToolsKept               .      .        .       x         .     .       .     .       .     .     .      .     | .     .     .   .   .       .      .     .      .           .               .    .
ToolsUnavailable        .      .        x       .         .     .       .     .       .     .     .      .     | .     .     .   .   .       .      .     .      .           .               .    .
ToolsChanged            .      .        .       .         x     .       .     .       .     .     .      .     | .     .     .   .   .       .      .     .      .           .               .    .
ContextBuilt            .      x        .       .         x     .       .     x       .     .     .      .     | .     .     .   .   .       .      .     .      .           .               .    .
ContextOverflowed       .      x        .       .         x     .       .     x       .     .     .      .     | .     .     .   .   .       .      .     .      .           .               .    .
SummaryNeeded           .      x        .       .         x     .       .     .       .     .     .      .     | .     .     .   .   .       .      .     .      .           .               .    .
Summarized              .      .        .       .         .     x       .     .       .     .     .      .     | .     .     .   .   .       .      .     .      .           .               .    .
SummaryFailed           .      .        .       .         .     x       .     .       .     .     .      .     | .     .     .   .   .       .      .     .      .           .               .    .
ModelReplied            .      .        .       .         .     .       .     .       x     .     .      .     | .     .     .   .   .       .      .     .      .           .               .    .
ModelFailed             .      .        .       .         .     .       .     .       x     .     .      .     | .     .     .   .   .       .      .     .      .           .               .    .
QuotaUsedUp             .      .        .       .         .     x       .     .       x     .     .      .     | .     .     .   .   .       .      .     .      .           .               .    .
CallDecided             .      .        .       .         .     .       .     .       .     .     .      .     | x     .     .   .   .       .      .     .      .           .               .    .
RulesChanged            .      .        .       .         .     .       .     .       .     .     .      .     | x     x     x   x   x       x      x     x      x           x               x    x
KeyFree                 .      .        .       .         .     .       .     .       .     .     .      .     | .     .     x   .   .       .      .     .      .           .               .    .
KeyTaken                .      .        .       .         .     .       .     .       .     .     .      .     | .     .     x   .   .       x      .     .      .           .               .    .
AgentFound              .      .        .       .         .     .       .     .       .     .     .      .     | .     .     .   .   .       x      .     .      .           .               .    .
ChildEnded              .      .        .       .         .     .       .     .       .     .     .      .     | .     .     .   .   .       .      x     .      .           .               .    .
ToolAttempted           .      .        .       .         .     .       .     .       .     .     .      .     | .     .     .   x   .       .      .     .      .           .               .    x
ToolReconciled          .      .        .       .         .     .       .     .       .     .     .      .     | .     .     .   .   .       .      .     .      x           .               .    .
EffectSettled           .      .        .       .         .     .       .     .       .     .     .      .     | .     .     .   .   .       .      .     .      .           x               .    .
ToolResultSubmitted     .      .        .       .         .     .       .     .       .     .     .      .     | .     .     .   .   .       .      .     x      .           .               .    .
Steered                 x      x        x       x         x     x       x     x       x     x     x      .     | x     x     x   x   x       x      x     x      x           x               x    x
TimerFired              x      x        x       x         x     x       x     x       x     x     x      .     | x     x     x   x   x       x      x     x      x           x               x    x
Suspended               x      x        x       x         x     x       x     x       x     x     x      .     | x     x     x   x   x       x      x     x      x           x               x    x
Resumed                 x      x        x       x         x     x       x     x       x     x     x      .     | x     x     x   x   x       x      x     x      x           x               x    x
Rested                  x      x        x       x         x     x       x     x       x     x     x      .     | x     x     x   x   x       x      x     x      x           x               x    x
CancelRequested         x      x        x       x         x     x       x     x       x     x     x      .     | x     x     x   x   x       x      x     x      x           x               x    x
BudgetChanged           x      x        x       x         x     x       x     x       x     x     x      .     | x     x     x   x   x       x      x     x      x           x               x    x
BudgetDenied            .      .        .       .         .     .       .     .       .     .     x      .     | .     .     .   .   .       .      .     .      .           .               .    .
Broken                  x      x        x       x         x     x       x     x       x     x     x      .     | x     x     x   x   x       x      x     x      x           x               x    x
";

#[test]
fn every_event_in_every_place() {
    let mut lines = TABLE.trim_matches('\n').lines();
    let places: Vec<&str> = words(lines.next().expect("places"));
    for (row, line) in lines.enumerate() {
        let cells = words(line);
        assert_eq!(cells.len(), places.len() + 1, "{line}");
        for (place, cell) in places.iter().zip(&cells[1..]) {
            let (mut trial, index) = samples::at(place);
            let call = trial.state.calls.get(index).map_or(CallId(uuid::Uuid::from_u128(3)), |call| call.id);
            let event = events(&mut trial, call).swap_remove(row);
            assert_eq!(name(&event), cells[0], "the order of the table");
            let before = trial.state.clone();
            match trial.happens(event) {
                Ok(_) => assert_eq!(*cell, "x", "{} is legal in {place}", cells[0]),
                Err(error) => {
                    assert_eq!(*cell, ".", "{} is illegal in {place}", cells[0]);
                    assert_eq!((error.phase, error.event), (before.phase, cells[0]));
                    assert_eq!(trial.state, before);
                }
            }
        }
    }
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().filter(|word| *word != "|").collect()
}

/// One event of each kind, in the table's order, about `call` where it is about one.
fn events(trial: &mut Trial, call: CallId) -> Vec<Event> {
    let at = trial.now;
    let approval = trial.state.budget_ask.map_or(ApprovalId(call.0), |ask| ask.approval_id);
    let message_id = MessageId(trial.new_id());
    let submitted =
        Submitted { status: SubmittedStatus::Succeeded, output: Output::plain("M"), error_code: None };
    let reconciliation = Reconciliation { state: Reconciled::Applied, result: None };
    vec![
        Event::Started { at },
        Event::Recovered { at, deaths: 1, unsent: Vec::new() },
        trial.listed(&["read"]),
        trial.kept(),
        trial.unavailable(),
        Event::ToolsChanged { at },
        trial.built(10),
        Event::ContextOverflowed { at, tokens: 9, max_tokens: 5 },
        trial.summary_needed(1, 10),
        trial.summarized(&said("so it went", &[])),
        trial.summary_failed(FailureKind::Passing, 503, None),
        trial.replied(&said("done", &[]), false),
        trial.failed(FailureKind::Passing, 503, None),
        Event::QuotaUsedUp { at, limit: DayLimit::Tokens },
        Event::CallDecided {
            at,
            call,
            approval: None,
            verdict: approved(Effect::Allow, None),
            by: "key_a".into(),
            reason: None,
            given_at: None,
        },
        Event::RulesChanged { at, verdicts: Vec::new() },
        Event::KeyFree { at, call },
        trial.key_taken_by(call, true, ResultStatus::Succeeded),
        Event::AgentFound { at, call, found: Err("There is no such agent.".into()) },
        Event::ChildEnded { at, call, end: Box::new(ended()) },
        Event::ToolAttempted { at, call, outcome: unclear(), jitter: 0 },
        Event::ToolReconciled { at, call, reconciliation },
        Event::EffectSettled { at, call, applied: true, content: None, by: "key_a".into() },
        Event::ToolResultSubmitted { at, call, submitted },
        Event::Steered { at, message_id, content: "be brief".into(), parts: vec![], pinned: false },
        Event::TimerFired { at },
        Event::Suspended { at },
        Event::Resumed { at },
        Event::Rested { at, from: at, until: at },
        Event::CancelRequested { at, reason: Some("enough".into()) },
        Event::BudgetChanged {
            at,
            patch: BudgetPatch { max_steps: Some(99), ..BudgetPatch::default() },
            by: "key_a".into(),
        },
        Event::BudgetDenied { at, approval, by: "key_a".into() },
        Event::Broken { at, code: "store_broken".into(), detail: "it broke".into() },
    ]
}

/// Another agent's run, with its answer.
fn ended() -> ChildEnd {
    ChildEnd {
        status: Status::Finished,
        reason: StopReason::FinalAnswer,
        output: Output::plain("seven"),
        used: Used::default(),
        ran_ms: 5,
        effect: ledger::Effect::None,
    }
}
