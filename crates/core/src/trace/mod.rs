//! TraceSink's pure part: what a run did, as spans of OpenTelemetry.
//!
//! Spans follow from the run's state and what happened to it, and from nothing else: [`spans`] is asked at each event, in
//! the same breath in which the event is written to the journal, and gives the spans that ended with it. So what a journal
//! implies, what is stored beside it and what a collector gets are the same.
//!
//! A trace is flat: below the run's span stand its contexts, attempts on models, decisions, attempts of tool calls and
//! checkpoints. Names and attributes follow OpenTelemetry's GenAI conventions (v1.41); what those don't have begins with
//! `answerable.`. `openinference.span.kind` is for viewers of agents, which read the rest from the conventions' names.

mod agent;
mod build;
mod content;
mod context;
mod frame;
mod ids;
mod model;
mod permission;
mod small;
mod span;
#[cfg(test)]
mod tests;
mod tool;

pub use context::TraceContext;
pub use frame::{Frame, Told};
pub use ids::{agent_span, model_span, reconcile_span, tool_span};
pub use span::{Span, SpanId, SpanKind, SpanLink};

/// The spans that ended with an event, in the order in which the run works.
pub fn spans(frame: &Frame, told: &Told<'_>) -> Vec<Span> {
    let mut spans = Vec::new();
    spans.extend(small::context(frame, told));
    spans.extend(model::attempt(frame, told));
    spans.extend(permission::decisions(frame, told));
    spans.extend(tool::attempts(frame, told));
    spans.extend(small::checkpoints(frame, told));
    spans.extend(agent::run(frame, told));
    spans
}
