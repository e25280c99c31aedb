//! A span while it is put together.

use serde_json::{Map, Value, json};

use super::frame::Frame;
use super::ids::agent_span;
use super::span::{Span, SpanId, SpanKind};
use crate::Millis;

/// What a span is to viewers of agents (OpenInference).
#[derive(Debug, Clone, Copy)]
pub(super) enum Viewed {
    Agent,
    Llm,
    Tool,
    Guardrail,
    Chain,
}

impl Viewed {
    fn word(self) -> &'static str {
        match self {
            Self::Agent => "AGENT",
            Self::Llm => "LLM",
            Self::Tool => "TOOL",
            Self::Guardrail => "GUARDRAIL",
            Self::Chain => "CHAIN",
        }
    }
}

pub(super) struct Build(Span);

impl Build {
    /// A span of a run, from `began` (`None`: it took no time) to `ended`.
    pub(super) fn of(
        frame: &Frame,
        kind: SpanKind,
        viewed: Viewed,
        id: SpanId,
        began: Option<Millis>,
        ended: Millis,
    ) -> Self {
        let parent =
            if kind == SpanKind::Agent { frame.parent.clone() } else { Some(agent_span(frame.run_id)) };
        // Clocks may differ by a little; nothing of a run began before it.
        let began = began.unwrap_or(ended).max(frame.accepted_at).min(ended);
        let (attributes, links, error) = (Map::new(), Vec::new(), None);
        Self(Span { kind, id, parent, began, ended, error, attributes, links })
            .with("openinference.span.kind", viewed.word())
            .with("answerable.run_id", frame.run_id.to_string())
    }

    /// An attribute.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.attributes.insert(name.to_owned(), value.into());
        self
    }

    /// A count, as large as attributes can be.
    pub(super) fn count(self, name: &str, value: u64) -> Self {
        self.with(name, i64::try_from(value).unwrap_or(i64::MAX))
    }

    /// An attribute that may be absent.
    pub(super) fn maybe(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The step that it belongs to; 0: before the first.
    pub(super) fn step(self, step: u32) -> Self {
        self.maybe("answerable.step", (step > 0).then_some(step))
    }

    /// It failed.
    pub(super) fn error(mut self, why: Option<impl Into<String>>) -> Self {
        if let Some(why) = why {
            let why = why.into();
            self.0.attributes.insert("error.type".into(), json!(why));
            self.0.error = Some(why);
        }
        self
    }

    pub(super) fn linked(mut self, links: &[super::SpanLink]) -> Self {
        self.0.links.extend_from_slice(links);
        self
    }

    pub(super) fn done(self) -> Span {
        self.0
    }
}
