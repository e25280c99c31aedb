//! ContextBuilder: what does the model see this turn, and what was left out, why?
//!
//! Always shown are instructions, tools and output schema, pinned messages, the newest turn, and the newest of a user's:
//! it is what the run works on. Then come the newest turns as far as they fit. A turn is a user's message, or an
//! assistant's with all of its results; turns are never split. What a summary covers is shown by the summary alone.

mod layout;
mod manifest;
mod select;
mod sizes;
mod summary;
#[cfg(test)]
mod tests;

use crate::agent::{ModelSpec, Overflow};
use crate::budget::Size;
use crate::correction::{Correction, before_correction};
use crate::message::Message;
use crate::registry::Registry;
use crate::run::{Phase, RunState};
use crate::tokens::Counter;

pub use manifest::{Manifest, Omitted, PartTokens};
pub(crate) use sizes::FixedSizes;
pub use sizes::{Fixed, Sizes};
pub use summary::{Plan, SummaryText, summary_request};

use layout::Layout;
use select::select;

/// What is to be asked next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// The turn itself: what it is shown, and how large that is.
    Turn(Manifest, Size),
    /// A summary of the oldest turns, so that the turn fits.
    Summary(Plan),
    /// Nothing: the turn doesn't fit, and nothing more may be left out.
    Overflow(ContextOverflow),
}

/// The history doesn't fit, and nothing more may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the context needs {tokens} tokens, {max_tokens} are allowed")]
pub struct ContextOverflow {
    /// Needed, estimated.
    pub tokens: u64,
    /// Allowed.
    pub max_tokens: u64,
}

/// What a context is built of.
#[derive(Debug, Clone, Copy)]
struct Source {
    /// Tokens of what is shown in any case.
    fixed: Fixed,
    counter: Counter,
    /// What counts are corrected by, in permille.
    corrected_by: u32,
    /// Tokens that the request may have.
    max_tokens: u64,
    /// What happens over that.
    overflow: Overflow,
    /// The provider said that the last one was too long: half of the history's tokens at most.
    shrink: bool,
    /// It fitted the model that was asked before, which counts otherwise: what must be shown is shown.
    lenient: bool,
}

impl Source {
    /// Tokens, as they are counted, that a request may have.
    fn counted_room(&self) -> u64 {
        before_correction(self.max_tokens, self.corrected_by)
    }

    fn size(&self, counted: u64) -> Size {
        Size { counter: self.counter, counted, corrected_by: self.corrected_by }
    }

    fn overflow_of(&self, counted: u64) -> ContextOverflow {
        let tokens = self.size(counted.saturating_add(self.fixed.total())).tokens();
        ContextOverflow { tokens, max_tokens: self.max_tokens }
    }
}

/// What a run in this state asks next, at a step's boundary or where its open step is asked again.
pub fn next(registry: &Registry, state: &RunState, history: &[Message], sizes: &Sizes) -> Next {
    let source = source_of_turn(registry, state);
    let layout = Layout::of(history, sizes.messages(source.counter, history));
    let may_sum_up = source.overflow == Overflow::Summarize
        && state.phase == Phase::Boundary
        && state.summing.may_be_tried();
    if may_sum_up && let Some(plan) = summary::plan(&source, &layout) {
        return Next::Summary(plan);
    }
    match select(&source, &layout) {
        Ok(selected) => {
            let size = source.size(selected.tokens() + source.fixed.total());
            let missing_servers = state.tools.as_ref().map(|tools| tools.missing.clone()).unwrap_or_default();
            let manifest = manifest::manifest(&source, &layout, &selected);
            Next::Turn(Manifest { missing_servers, ..manifest }, size)
        }
        Err(overflow) => Next::Overflow(overflow),
    }
}

/// The messages of the open step's context, oldest first: a history that any provider accepts.
///
/// # Errors
/// They don't fit. They did when the step began.
pub fn messages_of_turn(
    registry: &Registry,
    state: &RunState,
    history: &[Message],
    sizes: &Sizes,
) -> Result<Vec<Message>, ContextOverflow> {
    let source = source_of_turn(registry, state);
    let layout = Layout::of(history, sizes.messages(source.counter, history));
    select(&source, &layout).map(|selected| selected.messages(&layout))
}

fn source_of_turn(registry: &Registry, state: &RunState) -> Source {
    let spec = &registry.spec;
    // A new step begins afresh; only within one a provider's word that it was too long counts.
    let shrink = state.model.shrunk && state.phase != Phase::Boundary;
    let (counter, corrected_by) = if is_being_built(state) {
        let (provider, model) = target_of_turn(&spec.model, state);
        (Counter::of(model), Correction::permille_for(state.correction.as_ref(), provider, model))
    } else {
        // Whoever is asked, and whatever was learnt meanwhile: the step shows what its manifest says.
        (state.estimate.counter, state.estimate.correction())
    };
    let fixed = registry.fixed.of(counter, registry);
    let (max_tokens, overflow) = (spec.context.max_tokens, spec.context.overflow);
    let lenient = state.model.target > 0 && state.phase != Phase::Boundary;
    Source { fixed, counter, corrected_by, max_tokens, overflow, shrink, lenient }
}

fn is_being_built(state: &RunState) -> bool {
    matches!(state.phase, Phase::Boundary | Phase::Rebuild)
}

/// Provider and model that are asked once the context is built: a rebuild stays with its target, a new step begins with
/// the main one.
pub fn target_of_turn<'a>(spec: &'a ModelSpec, state: &RunState) -> (&'a str, &'a str) {
    let index = if state.phase == Phase::Rebuild { state.model.target } else { 0 };
    spec.target(index).unwrap_or((&spec.provider, &spec.model))
}

/// Tokens of a message, estimated, with what surrounds it on the wire.
pub fn message_tokens(message: &Message) -> u64 {
    Counter::Estimate.message(message)
}
