//! The next turn: what the model is shown, and how it is asked.

use std::time::Instant;

use answerable_core::budget::{Estimate, output_cap};
use answerable_core::context::{
    ContextOverflow, Next, messages_of_turn, next, summary_request, target_of_turn,
};
use answerable_core::id::MessageId;
use answerable_core::message::{Message, Role};
use answerable_core::model::{ModelRequest, Purpose};
use answerable_core::model_retry::{Progress, Reask};
use answerable_core::registry::Registry;
use answerable_core::run::{Event, RunState};
use answerable_core::trace::model_span;
use answerable_ports::ModelTarget;
use serde_json::Value;
use uuid::Uuid;

use crate::session::{Session, find_target};

/// Fields of a request that speak of tools, or of the form of an answer: nothing for a summary.
const OF_TURNS: [&str; 5] =
    ["tool_choice", "parallel_tool_calls", "response_format", "text", "output_format"];

impl Session {
    /// Builds the context of the next turn, or finds that a summary must be made first: the event that it leads to, and the
    /// provider that will be asked.
    pub(crate) async fn context_event(
        &self,
        registry: &Registry,
        state: &RunState,
        history: &[Message],
    ) -> (Event, Option<ModelTarget>) {
        let began = Instant::now();
        let next = next(registry, state, history, &self.sizes);
        let (provider, model) = target_of_turn(&registry.spec.model, state);
        let target = match next {
            Next::Overflow(_) => None,
            Next::Turn(..) | Next::Summary(_) => find_target(&self.env, &self.facts, provider).await,
        };
        let price = target.as_ref().and_then(|target| target.prices.get(model));
        let at = self.now();
        let event = match next {
            Next::Overflow(ContextOverflow { tokens, max_tokens }) => {
                Event::ContextOverflowed { at, tokens, max_tokens }
            }
            Next::Summary(plan) => {
                let estimate = Estimate::of(&plan.size, price);
                Event::SummaryNeeded { at, task: plan.into(), estimate }
            }
            Next::Turn(manifest, size) => {
                let estimate = Estimate::of(&size, price);
                let (provider, model) = (provider.to_owned(), model.to_owned());
                let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                Event::ContextBuilt { at, manifest, estimate, provider, model, duration_ms }
            }
        };
        (event, target)
    }

    /// The request that is outstanding. `None`: its context can't be built any more (the history didn't change, so this
    /// doesn't happen).
    pub(crate) fn request(&self) -> Option<ModelRequest> {
        let state = &self.state;
        let spec = &self.registry.spec;
        Some(ModelRequest {
            system: spec.instructions.clone(),
            messages: messages_of_turn(&self.registry, state, &self.history, &self.sizes).ok()?,
            note: note(&state.model, spec.output_schema.as_ref()),
            tools: self.registry.offers(),
            output_schema: spec.output_schema.clone(),
            turn: state.turns,
            ..self.request_of(Purpose::Turn, spec.model.max_output_tokens)?
        })
    }

    /// The request for the summary that is outstanding. `None`: as with a turn's.
    pub(crate) fn summary_request(&self) -> Option<ModelRequest> {
        let text = summary_request(&self.registry, &self.state, &self.history, &self.sizes)?;
        // A cap that is for answers may be too small for it.
        let least = self.state.summing.task.as_ref()?.max_tokens.into();
        let cap = self.registry.spec.model.max_output_tokens.map(|cap| cap.max(least));
        let mut request = ModelRequest {
            system: text.system,
            messages: vec![Message::text(MessageId(Uuid::nil()), 1, Role::User, text.transcript)],
            ..self.request_of(Purpose::Summary, cap)?
        };
        request.params.retain(|name, _| !OF_TURNS.contains(&name.as_str()));
        Some(request)
    }

    /// What is the same whatever is asked for.
    fn request_of(&self, purpose: Purpose, cap: Option<u64>) -> Option<ModelRequest> {
        let state = &self.state;
        let spec = &self.registry.spec.model;
        let (provider, model) = spec.target(state.model.target)?;
        let (budgets, used, cut) = (&state.budgets, &state.used, state.model.cap_cut);
        Some(ModelRequest {
            purpose,
            model: model.to_owned(),
            provider: provider.to_owned(),
            temperature: spec.temperature,
            max_output_tokens: output_cap(budgets, used, &state.estimate, cap, cut),
            params: spec.params(state.model.target),
            traceparent: Some(self.facts.traceparent(&model_span(state))),
            ..ModelRequest::default()
        })
    }
}

/// Why the model is asked again, in words for it.
fn note(progress: &Progress, schema: Option<&Value>) -> Option<String> {
    let note = match progress.reasked? {
        Reask::Truncated => "Your last reply was cut off because it was too long; nothing of it was used. \
                             Reply again, more briefly."
            .into(),
        Reask::Empty => "Your last reply was empty. Reply again: call a tool, or give the answer.".into(),
        Reask::OutputInvalid => {
            let fault = progress.fault.as_deref().map(|fault| format!(": {fault}")).unwrap_or_default();
            let schema = schema.map(ToString::to_string).unwrap_or_default();
            format!(
                "Your last answer could not be used{fault}. Answer with JSON alone that matches this schema: {schema}"
            )
        }
    };
    Some(note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_model_is_told_what_was_wrong_with_its_answer() {
        let schema = json!({"required": ["n"]});
        let asked = |reasked, fault: Option<&str>| {
            let progress = Progress { reasked, fault: fault.map(str::to_owned), ..Progress::default() };
            note(&progress, Some(&schema))
        };
        assert_eq!(asked(None, None), None);
        let told =
            asked(Some(Reask::OutputInvalid), Some("/n: \"x\" is not of type \"integer\"")).expect("a note");
        assert!(
            told.contains("could not be used: /n: \"x\" is not") && told.ends_with(r#"{"required":["n"]}"#)
        );
        let old = asked(Some(Reask::OutputInvalid), None).expect("a note");
        assert!(old.starts_with("Your last answer could not be used. Answer"), "{old}");
    }
}
