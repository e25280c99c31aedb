//! `tool.call`: an attempt of a call, or a result that needed none; and the question of what became of one.

use super::build::{Build, Viewed};
use super::content;
use super::frame::{Frame, Told};
use super::ids::{reconcile_span, tool_span};
use super::span::{Span, SpanId, SpanKind};
use crate::id::RunId;
use crate::json::sha256_hex;
use crate::ledger::EntryStatus;
use crate::run::{Call, CallOutcome, ChildEnd, Event, Record, Stage};
use crate::tool::{Attempt, ErrorCode, Reconciled, ResultStatus};

/// The name of a tool that there isn't.
const UNKNOWN_TOOL: &str = "unknown";

pub(super) fn attempts(frame: &Frame, told: &Told<'_>) -> Vec<Span> {
    let span = |(before, call): (Option<&Call>, &Call)| {
        let before_stage = before.map(|before| &before.stage);
        match before_stage {
            Some(stage) if *stage == call.stage => None,
            Some(Stage::Out { attempt, .. }) => Some(attempt_ended(frame, told, before?, call, *attempt)),
            // It was told to end, and is not at its end yet.
            Some(Stage::Child { .. }) if matches!(call.stage, Stage::Child { .. }) => None,
            Some(Stage::Parked { .. } | Stage::Child { .. }) => {
                Some(attempt_ended(frame, told, before?, call, 1))
            }
            Some(Stage::Reconciling { attempt, .. }) => {
                Some(reconciled(frame, told, before?, call, *attempt))
            }
            None | Some(Stage::Ready | Stage::Key | Stage::Asked { .. }) => {
                without_attempt(frame, told, before, call)
            }
            Some(Stage::Backoff { .. } | Stage::AskedUncertain { .. } | Stage::Done(_)) => None,
        }
    };
    let unsent = |(_, call): (Option<&Call>, &Call)| never_sent(frame, told, call);
    told.calls().flat_map(|pair| span(pair).into_iter().chain(unsent(pair))).collect()
}

/// An attempt that was written down, and did not leave because the run ended in the same breath.
fn never_sent(frame: &Frame, told: &Told<'_>, call: &Call) -> Option<Span> {
    let attempt = written_down(told, call).filter(|_| call.is_done())?;
    let ended = Ended { status: "cancelled", why: Some(word(ErrorCode::Cancelled)), side_effect: "none" };
    Some(attempt_span(frame, told, call, call, attempt, ended))
}

/// The attempt that is written down with this event.
fn written_down(told: &Told<'_>, call: &Call) -> Option<u32> {
    told.records.iter().rev().find_map(|record| match record {
        Record::LedgerOpened(row) if row.id == call.ledger_id() => Some(1),
        Record::LedgerAttempt { ledger_id, attempt, .. } if *ledger_id == call.ledger_id() => Some(*attempt),
        _ => None,
    })
}

/// How an attempt ended, in a word, and why it didn't succeed.
struct Ended {
    status: &'static str,
    why: Option<String>,
    side_effect: &'static str,
}

fn attempt_ended(frame: &Frame, told: &Told<'_>, before: &Call, call: &Call, attempt: u32) -> Span {
    attempt_span(frame, told, before, call, attempt, how(told, before, call))
}

fn attempt_span(
    frame: &Frame,
    told: &Told<'_>,
    before: &Call,
    call: &Call,
    attempt: u32,
    ended: Ended,
) -> Span {
    let id = tool_span(frame.run_id, call.id, attempt);
    let span = base(frame, told, before, id)
        .with("answerable.tool.status", ended.status)
        .with("answerable.tool.side_effect", ended.side_effect)
        .with("answerable.tool.retry_count", attempt - 1)
        .with("answerable.tool.idempotency_key", key(call))
        .with("answerable.ledger_id", call.ledger_id().to_string())
        .maybe("answerable.tool.client", call.client.then_some(true))
        .maybe("answerable.tool.child_run_id", call.agent.then(|| RunId(call.id.0).to_string()))
        .error(ended.why);
    content::call(span, frame, told, call).done()
}

fn how(told: &Told<'_>, before: &Call, call: &Call) -> Ended {
    if let Event::ToolAttempted { call: id, outcome, .. } = told.event
        && *id == call.id
    {
        return how_answered(before, call, outcome);
    }
    let possible = if call.writes { "possible" } else { "none" };
    match (&call.stage, told.event) {
        (_, Event::ChildEnded { call: id, end, .. }) if *id == call.id => childs(call, end),
        (_, Event::Recovered { .. }) if !before.client => {
            Ended { status: "worker_lost", why: Some("worker_lost".into()), side_effect: possible }
        }
        // A client's answer, or nobody's in time, or the run's end.
        (Stage::Done(done), _) => {
            let side_effect = match done.status {
                ResultStatus::Succeeded if call.writes => "committed",
                ResultStatus::Failed => "none",
                _ => possible,
            };
            Ended { status: done.status.as_str(), why: why(done), side_effect }
        }
        _ => Ended { status: "unclear", why: Some(word(ErrorCode::Timeout)), side_effect: possible },
    }
}

/// What another agent's run came to.
fn childs(call: &Call, end: &ChildEnd) -> Ended {
    let outcome = end.outcome(call.writes);
    let status = match outcome.status {
        EntryStatus::Succeeded => "succeeded",
        EntryStatus::Uncertain => "unclear",
        _ => "failed",
    };
    let side_effect = outcome.effect.as_str();
    match &call.stage {
        Stage::Done(done) => {
            let status = if status == "unclear" { status } else { done.status.as_str() };
            Ended { status, why: why(done), side_effect }
        }
        _ => Ended { status, why: outcome.error_code.map(word), side_effect },
    }
}

fn how_answered(before: &Call, call: &Call, outcome: &Attempt) -> Ended {
    let tainted = matches!(before.stage, Stage::Out { tainted: true, .. });
    let possible = if call.writes { "possible" } else { "none" };
    let clear = if tainted { possible } else { "none" };
    let (status, code, side_effect) = match outcome {
        Attempt::Succeeded(_) => ("succeeded", None, if call.writes { "committed" } else { "none" }),
        Attempt::Refused(code, _) => ("failed", Some(*code), clear),
        Attempt::NotDone(code, ..) => ("not_done", Some(*code), clear),
        Attempt::Unclear(code, _) => ("unclear", Some(*code), possible),
    };
    match &call.stage {
        // It came through, and still is no success to the model: its output was too large.
        Stage::Done(done) if code.is_none() => {
            Ended { status: done.status.as_str(), why: why(done), side_effect }
        }
        _ => Ended { status, why: code.map(word), side_effect },
    }
}

/// The far side was asked what became of an attempt; the span is the asking.
fn reconciled(frame: &Frame, told: &Told<'_>, before: &Call, call: &Call, attempt: u32) -> Span {
    let state = match told.event {
        Event::ToolReconciled { call: id, reconciliation, .. } if *id == call.id => {
            match reconciliation.state {
                Reconciled::Applied => "applied",
                Reconciled::NotApplied => "not_applied",
                Reconciled::Unknown => "unknown",
            }
        }
        _ => "unknown",
    };
    let asked = told.registry.tool(&call.tool_name).and_then(|tool| tool.reconcile.as_ref());
    let name = asked.map_or(call.tool_name.as_str(), |reconcile| reconcile.tool.as_str());
    let of = tool_span(frame.run_id, call.id, attempt);
    let span = base(frame, told, before, reconcile_span(frame.run_id, call.id, attempt))
        .with("gen_ai.tool.name", name)
        .with("answerable.tool.reconciles", of.as_str())
        .with("answerable.tool.reconciled", state)
        .with("answerable.tool.side_effect", "none");
    span.error((state == "unknown").then_some("unknown")).done()
}

/// A result that no attempt made: the call was no legal one, the ledger had its outcome, or a person answered.
fn without_attempt(frame: &Frame, told: &Told<'_>, before: Option<&Call>, call: &Call) -> Option<Span> {
    let Stage::Done(done) = &call.stage else { return None };
    let begun = written_down(told, call).is_some();
    if begun || matches!(done.status, ResultStatus::Denied | ResultStatus::Cancelled) {
        // That is told apart, the decision says so, or nothing was begun.
        return None;
    }
    let source = match told.event {
        Event::KeyTaken { .. } => "ledger",
        Event::CallDecided { .. } if done.status == ResultStatus::Succeeded => "person",
        _ => "none",
    };
    let began = before.unwrap_or(call);
    let span = base(frame, told, began, tool_span(frame.run_id, call.id, 0))
        .with("answerable.tool.status", done.status.as_str())
        .with("answerable.tool.executed", false)
        .with("answerable.tool.source", source)
        .with("answerable.tool.side_effect", "none")
        .error(why(done));
    Some(content::call(span, frame, told, call).done())
}

/// What a call is, since it came where it was.
fn base(frame: &Frame, told: &Told<'_>, before: &Call, id: SpanId) -> Build {
    let at = told.event.at();
    let began = before.since.filter(|since| *since <= at).unwrap_or(at);
    // What is no tool of the agent's is the model's word.
    let known = told.registry.tool(&before.tool_name);
    let name = if known.is_some() { before.tool_name.as_str() } else { UNKNOWN_TOOL };
    let mcp = known.and_then(|tool| tool.mcp.as_ref());
    Build::of(frame, SpanKind::Tool, Viewed::Tool, id, Some(began), at)
        .step(told.after.step)
        .with("gen_ai.operation.name", "execute_tool")
        .with("gen_ai.tool.name", name)
        .with("gen_ai.tool.type", "function")
        .with("gen_ai.tool.call.id", before.id.to_string())
        .maybe("answerable.mcp.server", mcp.map(|at| at.server.as_str()))
        .maybe("answerable.mcp.tool", mcp.map(|at| at.tool.as_str()))
        .with("answerable.tool.input_hash", before.input_hash.as_str())
        .with("answerable.tool.duration_ms", at - began)
}

/// The runtime's own keys say nothing. An agent's may be made of what people said, so only its hash is shown.
fn key(call: &Call) -> String {
    if call.business_key { sha256_hex(call.idempotency_key.as_bytes()) } else { call.idempotency_key.clone() }
}

fn why(done: &CallOutcome) -> Option<String> {
    let failed = done.status != ResultStatus::Succeeded;
    done.error_code.map(word).or_else(|| failed.then(|| done.status.as_str().to_owned()))
}

fn word(code: ErrorCode) -> String {
    code.as_str().to_owned()
}
