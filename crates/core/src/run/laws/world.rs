//! What comes of what the shell does: models and tools of every mood.

use serde_json::{Value, json};

use super::tape::Tape;
use crate::budget::Budgets;
use crate::ledger::Effect;
use crate::model::{FailureKind, Finish, ModelReply};
use crate::permission::Policy;
use crate::run::trial::{Trial, not_done, refused, said, unclear};
use crate::run::{Event, RunTools, StopReason};
use crate::tool::{Attempt, ErrorCode, Output, Reconciled, ResultStatus};

pub(super) const TOOLS: [&str; 24] = [
    "look",
    "pay",
    "mail",
    "note",
    "charge",
    "refund",
    "ship",
    "order",
    "risky",
    "gate",
    "ask_user",
    "sign",
    "peek",
    "poll",
    "wipe",
    "stamp",
    "find",
    "help",
    "team",
    "no_such_tool",
    "srv__read",
    "srv__odd name",
    "look around!",
    "",
];

/// Tools that people are asked about, and some that they aren't.
pub(super) const ASKED: [&str; 9] =
    ["risky", "gate", "note", "order", "sign", "help", "mail", "look", "charge"];

/// Changes of the agent, so that people are asked about nearly all that it does.
pub(super) fn asking(tape: &mut Tape) -> Value {
    let asks = |tool: &str| json!({"tool": tool, "effect": "ask"});
    let others = json!({"tool": "note", "effect": "ask", "self_approval": false, "remind_every_ms": 60_000, "expires_ms": 200_000});
    let two = json!({"tool": "gate", "effect": "ask", "approvals": 2, "expires_ms": 3_000, "on_expiry": tape.one(&["deny", "stop"])});
    json!({"policy": {"max_denials": tape.one(&[50, 50, 3]),
        "rules": [two, others, asks("order"), asks("sign"), asks("help"), asks("mail")]}})
}

/// Changes of the agent, so that in every other life its limits are in the way.
pub(super) fn changes(tape: &mut Tape) -> Value {
    let gate = |on_expiry: &str, approvals: u32| json!({"tool": "gate", "effect": "ask", "expires_ms": 3000, "on_expiry": on_expiry, "approvals": approvals});
    if tape.pick(2) == 0 {
        return json!({"policy": {"max_denials": 50, "rules": [gate("deny", 1)]}});
    }
    json!({
        "policy": {"max_denials": tape.one(&[9, 1, 2, 3]), "on_deny": tape.one(&["observe", "observe", "stop"]),
            "rules": [gate(tape.one(&["deny", "stop"]), tape.one(&[1, 2]))]},
        "budgets": {"max_steps": tape.one(&[20, 20, 1, 2, 5]), "max_tool_calls": tape.one(&[50, 50, 0, 1, 3, 8]),
            "max_tokens": tape.one(&[200_000, 200_000, 60, 200]), "timeout_ms": tape.one(&[600_000, 60_000, 3_000]),
            "max_cost_microusd": tape.one(&[None, None, Some(30)]), "on_exhausted": tape.one(&["stop", "ask"])},
        "loop_guard": {"max_repeated_calls": tape.one(&[9, 2, 3]), "max_repeated_errors": tape.one(&[9, 2, 3])},
        "context": {"max_tokens": tape.one(&[32_000, 470, 510]), "overflow": "summarize"},
        "output_schema": tape.one(&[Value::Null, Value::Null, json!({"type": "object", "required": ["n"]})]),
        "mcp": tape.one(&[json!([]), server("none"), server("write")]),
    })
}

/// A policy of the tenant's.
pub(super) fn policy(tape: &mut Tape) -> Policy {
    let mut rule = || {
        json!({
            "tool": tape.one(&["g*", "risky", "note", "o*", "*"]), "effect": tape.one(&["ask", "allow", "ask", "deny"]),
            "approvals": tape.one(&[1, 2, 3]), "expires_ms": tape.one(&[3_000, 200_000, 86_400_000]),
            "on_expiry": tape.one(&["deny", "deny", "stop"]), "self_approval": tape.one(&[true, false]),
            "remind_every_ms": tape.one(&[Some(60_000), None]),
        })
    };
    let rules = [rule(), rule()];
    let max_denials = tape.one(&[None, None, Some(6)]);
    serde_json::from_value(json!({"rules": rules, "max_denials": max_denials})).expect("a policy")
}

/// A server whose tools the agent takes.
fn server(side_effect: &str) -> Value {
    json!([{"server": "srv", "allow": ["*"], "defaults": {"side_effect": side_effect, "on_uncertain": "observe"}}])
}

/// What servers offer.
pub(super) fn listing(tape: &mut Tape, trial: &Trial) -> Event {
    let has_list = trial.state.tools.as_ref().is_some_and(RunTools::has_list);
    match tape.pick(16) {
        15 if !has_list => trial.unavailable(),
        12 | 13 | 15 if has_list => trial.kept(),
        14 => trial.goes_without(),
        n => trial.listed([&["read", "odd name"][..], &["read"], &["odd name", "more"], &[]][n % 4]),
    }
}

/// What the model says; nothing but an answer when all goes well.
pub(super) fn reply(tape: &mut Tape, tools: &[&'static str]) -> ModelReply {
    match tape.pick(32) {
        0 => said(r#"{"n": 1}"#, &[]),
        1 => said("I think that it is done.", &[]),
        2 => tape.one(&[said(" ", &[]), said("", &[])]),
        3 => ModelReply {
            finish: tape.one(&[Finish::Length, Finish::Length, Finish::Refusal]),
            ..said("and then", &[("pay", json!({}))])
        },
        4 if tape.rarely(6) => many_calls(tape),
        _ => {
            let count = 1 + tape.pick(5);
            let text = tape.one(&["", "Let me see.", " "]);
            let calls: Vec<(&str, Value)> = (0..count).map(|_| (tape.one(tools), arguments(tape))).collect();
            said(text, &calls)
        }
    }
}

fn many_calls(tape: &mut Tape) -> ModelReply {
    let (tool, count) = (tape.one(&["look", "poll", "pay", "no_such_tool"]), tape.one(&[20, 130]));
    let calls: Vec<(&str, Value)> = (0..count).map(|n| (tool, json!({"n": n}))).collect();
    said("", &calls)
}

fn arguments(tape: &mut Tape) -> Value {
    match tape.pick(12) {
        0 => json!(""),
        1 => json!("{\"n\": "),
        2 => json!({"n": "one"}),
        3 => json!([1]),
        n => json!({"n": n % 3}),
    }
}

/// What comes of an attempt to get a summary.
pub(super) fn summary(tape: &mut Tape, trial: &mut Trial) -> Event {
    if tape.rarely(3) {
        let (kind, status, after) = failure(tape);
        return trial.summary_failed(kind, status, after);
    }
    let reply = match tape.pick(8) {
        0 => said(" ", &[]),
        1 => ModelReply { finish: Finish::Length, ..said("It was", &[]) },
        2 => ModelReply { finish: Finish::Refusal, ..said("No.", &[]) },
        3 => said("", &[("look", json!({}))]),
        4 => said(&"It was long. ".repeat(9), &[]),
        _ => said("It went well.", &[]),
    };
    trial.summarized(&reply)
}

/// How an attempt on the model fails.
pub(super) fn model_failure(tape: &mut Tape, trial: &Trial) -> Event {
    let (kind, status, after) = failure(tape);
    trial.failed(kind, status, after)
}

fn failure(tape: &mut Tape) -> (FailureKind, u16, Option<u64>) {
    use FailureKind::{CapOverWindow, ContextOverflow, Filtered, Held, Passing, Refused, Unusable};
    let kind = tape.one(&[
        Passing,
        Passing,
        Passing,
        Held,
        Unusable,
        ContextOverflow,
        CapOverWindow,
        Refused,
        Filtered,
    ]);
    let retry_after = tape.one(&[None, None, Some(0), Some(1_500), Some(400_000)]);
    (kind, tape.one(&[503, 429, 400]), retry_after)
}

/// What comes of one attempt of a call.
pub(super) fn attempt(tape: &mut Tape) -> Attempt {
    match tape.pick(8) {
        0..=2 => Attempt::Succeeded(Output::plain(tape.one(&["done", "", "seen", "x"]))),
        3 => Attempt::Succeeded(Output { too_large: true, ..Output::plain("too much") }),
        4 => refused(),
        5 => tape.one(&[not_done(), Attempt::NotDone(ErrorCode::Unavailable, "away".into(), Some(400_000))]),
        _ => unclear(),
    }
}

/// Who the agent of a call is, or that it can't be called.
pub(super) fn found(tape: &mut Tape) -> Option<Budgets> {
    let budgets = Budgets { max_tokens: tape.one(&[300, 40, 90_000]), ..Budgets::default() };
    (!tape.rarely(6)).then_some(Budgets { timeout_ms: tape.one(&[600_000, 900]), ..budgets })
}

/// How a child ends, with what effect, and which part of a hundred of its limits it used.
pub(super) fn child(tape: &mut Tape) -> (StopReason, Effect, u64) {
    use StopReason::{Cancelled, FinalAnswer, MaxTokens, ModelError, Timeout};
    let reason =
        tape.one(&[FinalAnswer, FinalAnswer, FinalAnswer, MaxTokens, ModelError, Timeout, Cancelled]);
    let effect = tape.one(&[Effect::None, Effect::None, Effect::Committed, Effect::Possible]);
    (reason, effect, tape.one(&[0, 10, 50, 100]))
}

pub(super) fn reconciled(tape: &mut Tape) -> Reconciled {
    tape.one(&[Reconciled::Applied, Reconciled::NotApplied, Reconciled::Unknown])
}

/// Who has a business key.
pub(super) fn holder(tape: &mut Tape) -> Option<(bool, ResultStatus)> {
    let found = [
        None,
        None,
        Some((true, ResultStatus::Succeeded)),
        Some((true, ResultStatus::Failed)),
        Some((true, ResultStatus::Uncertain)),
        Some((false, ResultStatus::Succeeded)),
    ];
    tape.one(&found)
}
