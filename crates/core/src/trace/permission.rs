//! `permission.decision`: the gate decided, or a person did; then the span is the wait for them.

use super::build::{Build, Viewed};
use super::frame::{Frame, Told};
use super::ids::{budget_span, decision_span};
use super::span::{Span, SpanId, SpanKind};
use crate::Millis;
use crate::id::CallId;
use crate::permission::Effect;
use crate::run::{ApprovalKind, ApprovalStatus, Call, Decision, Event, Record, Stage, StopReason};

pub(super) fn decisions(frame: &Frame, told: &Told<'_>) -> Vec<Span> {
    let mut spans = Vec::new();
    for (before, after) in told.calls() {
        spans.extend(on_call(frame, told, before, after));
        spans.extend(on_unclear_effect(frame, told, before, after));
    }
    spans.extend(on_budget(frame, told));
    spans
}

/// Whether a call may run.
fn on_call(frame: &Frame, told: &Told<'_>, before: Option<&Call>, call: &Call) -> Option<Span> {
    if matches!(call.stage, Stage::Asked { .. }) {
        return None;
    }
    let asked = before.filter(|before| matches!(before.stage, Stage::Asked { .. }));
    let was_asked = asked.is_some() || asked_now(told, call, ApprovalKind::ToolCall);
    let decision = told.records.iter().rev().find_map(|record| match record {
        Record::CallDecided { call: id, decision } if *id == call.id => Some(decision),
        _ => None,
    });
    if decision.is_none() && asked.is_none() {
        return None;
    }
    let id = decision_span(frame.run_id, call.id, "call");
    let span = base(frame, told, id, ApprovalKind::ToolCall, asked.and_then(|asked| asked.since));
    let span = about(span, call).maybe("answerable.permission.asked", was_asked.then_some(true));
    Some(decided(span, decision).done())
}

fn decided(span: Build, decision: Option<&Decision>) -> Build {
    let Some(decision) = decision else {
        // The run ended before anybody decided.
        return span.with("answerable.permission.effect", "ask").with("answerable.permission.by", "run");
    };
    let effect = match decision.effect {
        Effect::Allow => "allow",
        Effect::Ask => "ask",
        Effect::Deny => "deny",
    };
    span.with("answerable.permission.effect", effect)
        .with("answerable.permission.by", decision.by.as_str())
        .maybe("answerable.permission.rule", decision.rule.map(|rule| rule as u64))
}

/// People were asked with this very event, and need not answer any more.
fn asked_now(told: &Told<'_>, call: &Call, wanted: ApprovalKind) -> bool {
    let asked = |record: &Record| matches!(record, Record::ApprovalOpened(row) if row.call == Some(call.id) && row.kind == wanted);
    told.records.iter().any(asked)
}

/// Whether a call happened.
fn on_unclear_effect(frame: &Frame, told: &Told<'_>, before: Option<&Call>, call: &Call) -> Option<Span> {
    let asked = before.filter(|before| matches!(before.stage, Stage::AskedUncertain { .. }));
    let was_asked = asked.is_some() || asked_now(told, call, ApprovalKind::UncertainEffect);
    if !was_asked || matches!(call.stage, Stage::AskedUncertain { .. }) {
        return None;
    }
    let (effect, by) = match told.event {
        Event::EffectSettled { applied, by, .. } => {
            (if *applied { "applied" } else { "not_applied" }, by.as_str())
        }
        _ => ("unknown", "run"),
    };
    let id = decision_span(frame.run_id, call.id, "effect");
    let span = base(frame, told, id, ApprovalKind::UncertainEffect, asked.and_then(|asked| asked.since));
    let span = about(span, call).with("answerable.permission.asked", true);
    let span = span.with("answerable.permission.effect", effect).with("answerable.permission.by", by);
    Some(span.done())
}

/// Whether the run may spend more.
fn on_budget(frame: &Frame, told: &Told<'_>) -> Option<Span> {
    let ask = told.before.budget_ask?;
    if told.after.budget_ask.is_some_and(|after| after.approval_id == ask.approval_id) {
        return None;
    }
    let (effect, by) = match told.event {
        Event::BudgetChanged { by, .. } => ("allow", by.as_str()),
        Event::BudgetDenied { by, .. } => ("deny", by.as_str()),
        _ if closed_as(told, ApprovalStatus::Expired) => ("deny", "expiry"),
        _ => ("ask", "run"),
    };
    let span =
        base(frame, told, budget_span(frame.run_id, told.before.asks), ApprovalKind::Budget, ask.since)
            .with("answerable.permission.asked", true)
            .with("answerable.permission.limit", StopReason::from(ask.limit).as_str())
            .with("answerable.permission.effect", effect)
            .with("answerable.permission.by", by);
    Some(span.done())
}

fn closed_as(told: &Told<'_>, wanted: ApprovalStatus) -> bool {
    let closed =
        |record: &Record| matches!(record, Record::ApprovalClosed { status, .. } if *status == wanted);
    told.records.iter().any(closed)
}

fn base(frame: &Frame, told: &Told<'_>, id: SpanId, kind: ApprovalKind, asked_at: Option<Millis>) -> Build {
    let step = told.after.step;
    Build::of(frame, SpanKind::Permission, Viewed::Guardrail, id, asked_at, told.event.at())
        .step(step)
        .with("answerable.permission.kind", kind.as_str())
}

fn about(span: Build, call: &Call) -> Build {
    let id: CallId = call.id;
    span.with("answerable.tool.name", call.tool_name.as_str())
        .with("answerable.tool_call_id", id.to_string())
        .with("answerable.tool.input_hash", call.input_hash.as_str())
}
