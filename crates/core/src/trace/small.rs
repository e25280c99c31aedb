//! `context.build` and `checkpoint.save`.

use super::build::{Build, Viewed};
use super::frame::{Frame, Told};
use super::ids::{checkpoint_span, context_span};
use super::span::{Span, SpanKind};
use crate::run::{Event, Phase, Record};

pub(super) fn context(frame: &Frame, told: &Told<'_>) -> Option<Span> {
    let at = told.event.at();
    let span = |began| {
        let id = context_span(told.before);
        let opened = told.after.step.max(told.before.step);
        Build::of(frame, SpanKind::Context, Viewed::Chain, id, Some(began), at).step(opened)
    };
    match told.event {
        Event::ContextBuilt { manifest, duration_ms, .. } => {
            let rebuilt = told.before.phase == Phase::Rebuild;
            let span = span(at.saturating_sub_unsigned(*duration_ms))
                .count("answerable.context.tokens", manifest.tokens)
                .count("answerable.context.messages", manifest.included.len() as u64)
                .count("answerable.context.omitted", manifest.omitted.len() as u64)
                .maybe("answerable.context.rebuilt", rebuilt.then_some(true));
            Some(span.done())
        }
        Event::ContextOverflowed { tokens, max_tokens, .. } => {
            let span = span(at)
                .count("answerable.context.tokens", *tokens)
                .count("answerable.context.max_tokens", *max_tokens)
                .error(Some("context_overflow"));
            Some(span.done())
        }
        _ => None,
    }
}

/// A checkpoint is saved with the commit that the span is in: it marks the moment, and takes no time of its own. How long
/// commits take is a metric.
pub(super) fn checkpoints(frame: &Frame, told: &Told<'_>) -> Vec<Span> {
    let saved = told.records.iter().filter_map(|record| match record {
        Record::Checkpoint(row) => Some(row.step),
        _ => None,
    });
    let span = |step| {
        let (id, at) = (checkpoint_span(frame.run_id, step), told.event.at());
        Build::of(frame, SpanKind::Checkpoint, Viewed::Chain, id, None, at).step(step).done()
    };
    saved.map(span).collect()
}
