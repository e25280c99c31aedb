//! `model.call`: one attempt on a model, the one that a server died with included.

use serde_json::Value;

use super::build::{Build, Viewed};
use super::content;
use super::frame::{Frame, Told};
use super::ids::model_span;
use super::span::{Span, SpanKind};
use crate::Millis;
use crate::model::Usage;
use crate::reply::ReplyKind;
use crate::run::{Event, Phase, ReplyFacts, RunState};
use crate::text;

/// Code points of a finish reason.
const MAX_REASON: usize = 64;

pub(super) fn attempt(frame: &Frame, told: &Told<'_>) -> Option<Span> {
    let at = told.event.at();
    match told.event {
        Event::ModelReplied { reply, calls, .. } => {
            let span = base(frame, told, Some(at.saturating_sub_unsigned(reply.duration_ms)))
                .maybe("gen_ai.provider.name", reply.wire.as_deref().map(provider))
                .maybe("gen_ai.response.finish_reasons", reasons(reply))
                .error(fault(reply));
            let span = usage(span, &reply.usage, reply.cost_microusd)
                .maybe("gen_ai.output.messages", content::reply(frame, told, reply, calls));
            Some(span.done())
        }
        Event::ModelFailed { failure, cost_microusd, duration_ms, wire, .. }
        | Event::SummaryFailed { failure, cost_microusd, duration_ms, wire, .. } => {
            let kind =
                serde_json::to_value(failure.kind).ok().and_then(|kind| kind.as_str().map(str::to_owned));
            let why = failure.status.map(|status| status.to_string()).or(kind);
            let span = base(frame, told, Some(at.saturating_sub_unsigned(*duration_ms)))
                .maybe("gen_ai.provider.name", wire.as_deref().map(provider))
                .error(why);
            let used = failure.usage.unwrap_or_default();
            let span = if failure.usage.is_some() { usage(span, &used, *cost_microusd) } else { span };
            Some(span.done())
        }
        Event::Summarized { reply, .. } => {
            let span = base(frame, told, Some(at.saturating_sub_unsigned(reply.duration_ms)))
                .maybe("gen_ai.provider.name", reply.wire.as_deref().map(provider))
                .maybe("gen_ai.response.finish_reasons", reasons(reply))
                .error(reply.kind.summary_fault());
            Some(usage(span, &reply.usage, reply.cost_microusd).done())
        }
        // It may or may not have been answered; nobody will know.
        Event::Recovered { deaths, .. } if *deaths > told.before.deaths && is_asked(told.before) => {
            Some(base(frame, told, None).error(Some("worker_lost")).done())
        }
        // Nobody was asked.
        Event::QuotaUsedUp { .. } => Some(base(frame, told, None).error(Some("quota_exceeded")).done()),
        // The run ended first: the answer, if there will be one, is nobody's.
        _ if told.after.is_ended() && is_asked(told.before) => {
            Some(base(frame, told, None).error(Some("cancelled")).done())
        }
        _ => None,
    }
}

fn is_asked(state: &RunState) -> bool {
    matches!(state.phase, Phase::Model | Phase::Summary) && state.model.not_before.is_none()
}

/// An attempt of the state before, which ends now. `began`: as far as it was measured.
fn base(frame: &Frame, told: &Told<'_>, began: Option<Millis>) -> Build {
    let (state, spec) = (told.before, &told.registry.spec.model);
    let (name, model) = spec.target(state.model.target).unwrap_or((&spec.provider, &spec.model));
    let began = began.max(state.model.asked_at);
    Build::of(frame, SpanKind::Model, Viewed::Llm, model_span(state), began, told.event.at())
        .step(state.step)
        .with("gen_ai.operation.name", "chat")
        .with("gen_ai.request.model", model)
        .maybe("gen_ai.conversation.id", frame.thread_id.map(|id| id.to_string()))
        .maybe("gen_ai.request.temperature", spec.temperature)
        .maybe("gen_ai.request.max_tokens", spec.max_output_tokens)
        .with("answerable.provider", name)
        .with("answerable.model.attempt", state.model.attempts + 1)
        .maybe("answerable.purpose", (state.phase == Phase::Summary).then_some("summary"))
}

fn usage(span: Build, usage: &Usage, cost_microusd: u64) -> Build {
    let some =
        |count: u64| (count > 0).then_some(count).map(|count| i64::try_from(count).unwrap_or(i64::MAX));
    span.count("gen_ai.usage.input_tokens", usage.input_tokens)
        .count("gen_ai.usage.output_tokens", usage.output_tokens)
        .maybe("gen_ai.usage.cache_read.input_tokens", some(usage.cached_input_tokens))
        .maybe("gen_ai.usage.cache_creation.input_tokens", some(usage.cache_write_tokens))
        .maybe("answerable.usage_estimated", usage.estimated.then_some(true))
        .count("answerable.cost_microusd", cost_microusd)
}

/// The provider's word for why it stopped, as far as it is one.
fn reasons(reply: &ReplyFacts) -> Option<Vec<&str>> {
    reply.finish_reason.as_deref().map(|word| vec![text::head(word, MAX_REASON)])
}

/// Why a reply that came was of no use.
fn fault(reply: &ReplyFacts) -> Option<&'static str> {
    match reply.kind {
        ReplyKind::Truncated => Some("reply_truncated"),
        ReplyKind::Empty => Some("empty_reply"),
        ReplyKind::Refusal => Some("model_refusal"),
        ReplyKind::Final if reply.output_fault.is_some() => Some("output_invalid"),
        ReplyKind::Final | ReplyKind::Calls => None,
    }
}

/// The conventions' name for who speaks a wire; many servers speak OpenAI's.
fn provider(wire: &str) -> Value {
    let name = match wire {
        "openai_chat" | "openai_responses" => "openai",
        other => other,
    };
    name.into()
}
