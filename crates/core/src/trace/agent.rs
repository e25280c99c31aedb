//! `agent.run`: the run as a whole, told of once, at its end.

use super::build::{Build, Viewed};
use super::content;
use super::frame::{Frame, Told};
use super::ids::agent_span;
use super::span::{Span, SpanKind};
use crate::budget::Used;
use crate::run::{RunState, Status};

pub(super) fn run(frame: &Frame, told: &Told<'_>) -> Option<Span> {
    let end = told.after.end.as_ref().filter(|_| !told.before.is_ended())?;
    let (state, spec) = (told.after, &told.registry.spec);
    let own = own_use(state);
    let failed = state.status == Status::Failed;
    let thread = frame.thread_id.map(|id| id.to_string());
    let (answer, text) = content::answer(frame, told).unzip();
    let id = agent_span(frame.run_id);
    let span = Build::of(frame, SpanKind::Agent, Viewed::Agent, id, Some(frame.accepted_at), told.event.at())
        .with("gen_ai.operation.name", "invoke_agent")
        .with("gen_ai.agent.name", spec.name.as_str())
        .maybe("gen_ai.agent.id", frame.agent.map(|(id, _)| id.to_string()))
        .maybe("gen_ai.agent.version", frame.agent.map(|(_, version)| version.to_string()))
        .maybe("gen_ai.conversation.id", thread)
        .with("answerable.tenant_id", frame.tenant_id.to_string())
        .with("answerable.status", state.status.as_str())
        .with("answerable.stop_reason", end.reason.as_str())
        .with("answerable.attempt", state.attempt())
        .with("answerable.steps", own.steps)
        .with("answerable.tool_calls", own.tool_calls)
        // Not under the conventions' names: viewers would count them once more.
        .count("answerable.input_tokens", own.input_tokens)
        .count("answerable.output_tokens", own.output_tokens)
        .count("answerable.cost_microusd", own.cost_microusd)
        .error(failed.then_some(end.code.as_str()))
        .maybe("gen_ai.output.messages", answer)
        .maybe("output.value", text)
        .linked(&frame.links);
    Some(span.done())
}

/// What the run itself used; what it brought along and what its children used stands on the spans of the runs that used it.
fn own_use(state: &RunState) -> Used {
    let before = state.inherited.as_ref().map(|inherited| inherited.used.clone()).unwrap_or_default();
    let below = &state.by_children;
    let used = &state.used;
    Used {
        steps: used.steps.saturating_sub(before.steps),
        input_tokens: used
            .input_tokens
            .saturating_sub(before.input_tokens)
            .saturating_sub(below.input_tokens),
        output_tokens: used
            .output_tokens
            .saturating_sub(before.output_tokens)
            .saturating_sub(below.output_tokens),
        tool_calls: used.tool_calls.saturating_sub(before.tool_calls),
        cost_microusd: used
            .cost_microusd
            .saturating_sub(before.cost_microusd)
            .saturating_sub(below.cost_microusd),
        ..Used::default()
    }
}
