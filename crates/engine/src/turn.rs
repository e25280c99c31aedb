//! The next turn: what the model is shown, and how it is asked.

use answerable_core::budget::{self, Estimate, output_cap};
use answerable_core::context::{Context, ContextOverflow, Source, build};
use answerable_core::message::Message;
use answerable_core::model::{ModelRequest, Usage};
use answerable_core::model_retry::Reask;
use answerable_core::run::{Event, RunState};
use answerable_ports::ModelTarget;

use crate::session::{Session, find_target};

impl Session {
    /// Builds the context of the next turn: the event that it leads to, and the provider that will be asked.
    pub(crate) async fn context_event(
        &self,
        state: &RunState,
        history: &[Message],
    ) -> (Event, Option<ModelTarget>) {
        let at = self.now();
        let spec = &self.registry.spec.model;
        // A rebuild stays with its target; a new step begins with the main one.
        let index = if state.phase == answerable_core::run::Phase::Rebuild { state.model.target } else { 0 };
        let (provider, model) = spec.target(index).unwrap_or((&spec.provider, &spec.model));
        match self.context(state, history) {
            Err(ContextOverflow { tokens, max_tokens }) => {
                (Event::ContextOverflowed { at, tokens, max_tokens }, None)
            }
            Ok(context) => {
                let target = find_target(&self.env, &self.facts, provider).await;
                let estimate = estimate(&context, target.as_ref(), model);
                let (provider, model) = (provider.to_owned(), model.to_owned());
                (Event::ContextBuilt { at, manifest: context.manifest, estimate, provider, model }, target)
            }
        }
    }

    fn context(&self, state: &RunState, history: &[Message]) -> Result<Context, ContextOverflow> {
        let spec = &self.registry.spec;
        let offers = self.registry.offers();
        // A new step begins afresh; only within one a provider's word that it was too long counts.
        let shrink = state.model.shrunk && state.phase != answerable_core::run::Phase::Boundary;
        build(&Source {
            system: &spec.instructions,
            tools: &offers,
            history,
            max_tokens: spec.context.max_tokens,
            overflow: spec.context.overflow,
            shrink,
        })
    }

    /// The request that is outstanding. `None`: its context can't be built any more (the history didn't change, so this
    /// doesn't happen).
    pub(crate) fn request(&self) -> Option<ModelRequest> {
        let state = &self.state;
        let spec = &self.registry.spec;
        let (provider, model) = spec.model.target(state.model.target)?;
        let context = self.context(state, &self.history).ok()?;
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
