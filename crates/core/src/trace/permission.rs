//! `permission.decision`: the gate decided, or a person did; then the span is the wait for them.

use super::build::{Build, Viewed};
use super::frame::{Frame, Told};
use super::ids::{budget_span, decision_span};
use super::span::{Span, SpanId, SpanKind};
use crate::Millis;
use crate::id::{ApprovalId, CallId};
use crate::permission::Owner;
use crate::run::{ApprovalKind, ApprovalStatus, Call, Decision, Event, Record, Stage, StopReason};

pub(super) fn decisions(frame: &Frame, told: &Told<'_>) -> Vec<Span> {
    let mut spans = Vec::new();
    for (before, after) in told.calls() {
        let answered = on_questions(frame, told, before, after);
        if answered.is_empty() {
            spans.extend(by_gate(frame, told, before, after));
        }
        spans.extend(answered);
        spans.extend(on_unclear_effect(frame, told, before, after));
    }
    spans.extend(on_budget(frame, told));
    spans
}

/// Whether a call may run, where people were asked and need not answer any more: one span each time that they were asked.
fn on_questions(frame: &Frame, told: &Told<'_>, before: Option<&Call>, call: &Call) -> Vec<Span> {
    let open = |call: &Call| matches!(call.stage, Stage::Asked { .. }).then(|| call.approval_id());
    let was_open = before.and_then(|before| Some((open(before)?, before.since)));
    // What is decided before they are asked anew is decided on what they were asked before.
    let asked_at = told.records.iter().position(|record| asks(record, call, ApprovalKind::ToolCall));
    let (first, second) = told.records.split_at(asked_at.unwrap_or(told.records.len()));
    let asked_now = match second.first() {
        Some(Record::ApprovalOpened(row)) => Some((row.id, None)),
        _ => None,
    };
    let is_over = |(id, since): (ApprovalId, _)| (open(call) != Some(id)).then_some((id, since));
    let span = |(id, since): (ApprovalId, Option<Millis>), records: &[Record]| {
        let id_of_span = decision_span(frame.run_id, call.id, &id.to_string());
        let span = base(frame, told, id_of_span, ApprovalKind::ToolCall, since);
        let span = about(span, call).with("answerable.permission.asked", true);
        decided(span, decision_on(records, call.id))
            .maybe("answerable.permission.void", void(told, id))
            .done()
    };
    let answered = was_open.and_then(is_over).map(|asked| span(asked, first));
    answered.into_iter().chain(asked_now.and_then(is_over).map(|asked| span(asked, second))).collect()
}

/// Whether a call may run, where nobody had to be asked, or what people said is void by the rules of now.
fn by_gate(frame: &Frame, told: &Told<'_>, before: Option<&Call>, call: &Call) -> Option<Span> {
    let is_asked = matches!(call.stage, Stage::Asked { .. });
    let nth = match (told.event, before) {
        (_, None) if is_asked => return None,
        (_, None) => "call".to_owned(),
        (_, Some(before)) if matches!(before.stage, Stage::Asked { .. }) => return None,
        (Event::RulesChanged { .. }, Some(_)) => format!("rules {} {}", call.rules, told.event.at()),
        _ => "too old".to_owned(),
    };
    let decision = decision_on(told.records, call.id)?;
    let id = decision_span(frame.run_id, call.id, &nth);
    let span = about(base(frame, told, id, ApprovalKind::ToolCall, None), call);
    let void = before.and_then(|before| void(told, before.approval_id()));
    Some(decided(span, Some(decision)).maybe("answerable.permission.void", void).done())
}

/// People are asked this about `call`.
fn asks(record: &Record, call: &Call, wanted: ApprovalKind) -> bool {
    matches!(record, Record::ApprovalOpened(row) if row.call == Some(call.id) && row.kind == wanted)
}

fn decision_on(records: &[Record], call: CallId) -> Option<&Decision> {
    records.iter().rev().find_map(|record| match record {
        Record::CallDecided { call: id, decision } if *id == call => Some(decision),
        _ => None,
    })
}

/// Why an approval can't be used.
fn void<'a>(told: &'a Told<'_>, approval: ApprovalId) -> Option<&'a str> {
    told.records.iter().find_map(|record| match record {
        Record::ApprovalVoid { approval_id, reason } if *approval_id == approval => Some(reason.as_str()),
        _ => None,
    })
}

fn decided(span: Build, decision: Option<&Decision>) -> Build {
    let Some(decision) = decision else {
        // The run ended before anybody decided.
        return span.with("answerable.permission.effect", "ask").with("answerable.permission.by", "run");
    };
    span.with("answerable.permission.effect", decision.effect.as_str())
        .with("answerable.permission.by", decision.by.as_str())
        .maybe("answerable.permission.rule", decision.rule.map(|rule| rule as u64))
        .maybe("answerable.permission.policy", decision.policy.map(owner))
        .maybe("answerable.permission.policy_version", decision.policy_version.as_deref())
}

fn owner(owner: Owner) -> &'static str {
    match owner {
        Owner::Agent => "agent",
        Owner::Tenant => "tenant",
        Owner::Run => "run",
    }
}

/// Whether a call happened.
fn on_unclear_effect(frame: &Frame, told: &Told<'_>, before: Option<&Call>, call: &Call) -> Option<Span> {
    let asked = before.filter(|before| matches!(before.stage, Stage::AskedUncertain { .. }));
    let was_asked = asked.is_some()
        || told.records.iter().any(|record| asks(record, call, ApprovalKind::UncertainEffect));
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
