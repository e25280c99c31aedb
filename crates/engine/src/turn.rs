//! The next turn: what the model is shown, and how it is asked.

use std::time::Instant;

use answerable_core::budget::{self, Estimate, output_cap};
use answerable_core::context::{Context, ContextOverflow, of_turn, target_of_turn};
use answerable_core::message::Message;
use answerable_core::model::{ModelRequest, Usage};
use answerable_core::model_retry::Reask;
use answerable_core::run::{Event, RunState};
use answerable_core::trace::model_span;
use answerable_ports::ModelTarget;

use crate::session::{Session, find_target};

impl Session {
    /// Builds the context of the next turn: the event that it leads to, and the provider that will be asked.
    pub(crate) async fn context_event(
        &self,
        state: &RunState,
        history: &[Message],
    ) -> (Event, Option<ModelTarget>) {
        let began = Instant::now();
        let spec = &self.registry.spec.model;
        let (provider, model) = target_of_turn(spec, state);
        match of_turn(&self.registry, state, history) {
            Err(ContextOverflow { tokens, max_tokens }) => {
                (Event::ContextOverflowed { at: self.now(), tokens, max_tokens }, None)
            }
            Ok(context) => {
                let target = find_target(&self.env, &self.facts, provider).await;
                let estimate = estimate(&context, target.as_ref(), model);
                let (provider, model) = (provider.to_owned(), model.to_owned());
                let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                let (at, manifest) = (self.now(), context.manifest);
                (Event::ContextBuilt { at, manifest, estimate, provider, model, duration_ms }, target)
            }
        }
    }

    /// The request that is outstanding. `None`: its context can't be built any more (the history didn't change, so this
    /// doesn't happen).
    pub(crate) fn request(&self) -> Option<ModelRequest> {
        let state = &self.state;
        let spec = &self.registry.spec;
        let (provider, model) = spec.model.target(state.model.target)?;
        let context = of_turn(&self.registry, state, &self.history).ok()?;
        let wanted = spec.model.max_output_tokens;
        let wanted = if state.model.cap_cut { wanted.map(|cap| (cap / 2).max(1)) } else { wanted };
        Some(ModelRequest {
            model: model.to_owned(),
            provider: provider.to_owned(),
            system: spec.instructions.clone(),
            messages: context.messages,
            note: state.model.reasked.map(|why| note(why, spec.output_schema.as_ref())),
            tools: self.registry.offers(),
            temperature: spec.model.temperature,
            max_output_tokens: output_cap(&state.budgets, &state.used, &state.estimate, wanted),
            params: spec.model.params.clone(),
            turn: state.turns,
            traceparent: Some(self.facts.traceparent(&model_span(state))),
        })
    }
}

fn estimate(context: &Context, target: Option<&ModelTarget>, model: &str) -> Estimate {
    let input_tokens = context.manifest.tokens;
    let price = target.and_then(|target| target.prices.get(model));
    let usage = Usage { input_tokens, output_tokens: 1, ..Usage::default() };
    let cost_microusd = price.map_or(0, |price| budget::cost(price, &usage));
    Estimate { input_tokens, cost_microusd, priced: price.is_some() }
}

/// Why the model is asked again, in words for it.
fn note(why: Reask, schema: Option<&serde_json::Value>) -> String {
    match why {
        Reask::Truncated => "Your last reply was cut off because it was too long; nothing of it was used. \
                             Reply again, more briefly."
            .into(),
        Reask::Empty => "Your last reply was empty. Reply again: call a tool, or give the answer.".into(),
        Reask::OutputInvalid => {
            let schema = schema.map(ToString::to_string).unwrap_or_default();
            format!(
                "Your last answer could not be used. Answer with JSON alone that matches this schema: {schema}"
            )
        }
    }
}
