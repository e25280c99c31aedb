//! What spans tell, in the words of OpenTelemetry's GenAI conventions (v1.41): operations, tokens, and their price.

use std::time::Duration;

use answerable_core::trace::{Span, SpanKind};
use opentelemetry::KeyValue;
use serde_json::Value;

use super::instruments::Instruments;
use super::labels::{Capped, error, provider};

/// Whose operations tool calls and runs are: the runtime's own.
const OURS: &str = "answerable";

/// Models that are named; the label of all others is `other`.
pub(super) const MODELS: usize = 100;
/// The same of the words for why something failed.
const ERRORS: usize = 64;

/// Names that were seen.
#[derive(Debug)]
pub(super) struct Names {
    models: Capped,
    errors: Capped,
}

impl Default for Names {
    fn default() -> Self {
        Self { models: Capped::at(MODELS), errors: Capped::at(ERRORS) }
    }
}

impl Instruments {
    /// An operation ended. A result that was never executed for, and what is no operation of the conventions, isn't one.
    pub(super) fn span(&self, span: &Span, names: &Names) {
        match span.kind {
            SpanKind::Model => self.chat(span, names),
            SpanKind::Tool if is_executed(span) => self.operation(span, own(span), names),
            SpanKind::Agent => self.operation(span, own(span), names),
            _ => {}
        }
    }

    fn chat(&self, span: &Span, names: &Names) {
        let model =
            KeyValue::new("gen_ai.request.model", names.models.label(text(span, "gen_ai.request.model")));
        let labels = vec![
            KeyValue::new("gen_ai.operation.name", "chat"),
            KeyValue::new("gen_ai.provider.name", provider(text(span, "gen_ai.provider.name"))),
            model.clone(),
        ];
        for (kind, name) in [("input", "gen_ai.usage.input_tokens"), ("output", "gen_ai.usage.output_tokens")]
        {
            if let Some(tokens) = count(span, name) {
                let mut labels = labels.clone();
                labels.push(KeyValue::new("gen_ai.token.type", kind));
                self.tokens.record(tokens, &labels);
            }
        }
        if let Some(cost) = count(span, "answerable.cost_microusd") {
            self.cost.add(cost, &[model]);
        }
        self.operation(span, labels, names);
    }

    fn operation(&self, span: &Span, mut labels: Vec<KeyValue>, names: &Names) {
        if let Some(why) = &span.error {
            labels.push(KeyValue::new("error.type", error(why, &names.errors)));
        }
        let took = u64::try_from(span.ended - span.began).unwrap_or(0);
        self.operation_seconds.record(Duration::from_millis(took).as_secs_f64(), &labels);
    }
}

fn own(span: &Span) -> Vec<KeyValue> {
    let operation = if span.kind == SpanKind::Agent { "invoke_agent" } else { "execute_tool" };
    vec![KeyValue::new("gen_ai.operation.name", operation), KeyValue::new("gen_ai.provider.name", OURS)]
}

fn is_executed(span: &Span) -> bool {
    span.attributes.get("answerable.tool.executed") != Some(&Value::Bool(false))
}

fn text<'a>(span: &'a Span, name: &str) -> &'a str {
    span.attributes.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn count(span: &Span, name: &str) -> Option<u64> {
    span.attributes.get(name).and_then(Value::as_u64)
}
