//! The manifest: an answer to "why did the model not see X?".

use serde::{Deserialize, Serialize};

use super::Source;
use super::layout::Layout;
use super::select::Selected;
use crate::catalog::Missing;
use crate::correction::EXACT;
use crate::id::MessageId;
use crate::tokens::Counter;

/// What a model is shown, and not (contract, "Step").
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Messages shown, in order.
    pub included: Vec<MessageId>,
    /// Messages left out.
    pub omitted: Vec<Omitted>,
    /// Tokens of the whole request, as the provider is expected to count them.
    pub tokens: u64,
    /// Those of instructions, tools and output schema.
    #[serde(default)]
    pub fixed_tokens: u64,
    /// The same tokens by what they are spent on.
    #[serde(default)]
    pub parts: PartTokens,
    /// Tokens that the request may have.
    #[serde(default)]
    pub max_tokens: u64,
    /// What they were counted with.
    #[serde(default)]
    pub counter: Counter,
    /// What the provider's own counts corrected that by, in permille.
    #[serde(default = "exact")]
    pub corrected_by: u32,
    /// MCP servers whose tools it is without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_servers: Vec<Missing>,
}

fn exact() -> u32 {
    EXACT
}

/// Tokens of a request by what they are spent on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartTokens {
    /// The agent's instructions.
    pub instructions: u64,
    /// Its tools.
    pub tools: u64,
    /// What its answers must match.
    pub output_schema: u64,
    /// The summary of older messages.
    pub summary: u64,
    /// Pinned messages.
    pub pinned: u64,
    /// All other messages.
    pub history: u64,
}

/// A message that the model isn't shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omitted {
    /// Which.
    pub message_id: MessageId,
    /// Why.
    pub reason: String,
    /// The summary that stands for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_id: Option<MessageId>,
}

impl Omitted {
    /// Left out for this reason.
    pub fn because(message_id: MessageId, reason: &str) -> Self {
        Self { message_id, reason: reason.to_owned(), summary_id: None }
    }

    /// Left out since a summary stands for it.
    pub fn covered(message_id: MessageId, summary: MessageId) -> Self {
        Self { message_id, reason: format!("covered by summary {summary}"), summary_id: Some(summary) }
    }
}

/// Names what is shown and what isn't.
pub(super) fn manifest(source: &Source, layout: &Layout<'_>, selected: &Selected) -> Manifest {
    let tokens = source.size(selected.tokens() + source.fixed.total()).tokens();
    let parts = parts(source, selected, tokens);
    Manifest {
        included: selected.places(layout).into_iter().map(|at| layout.history[at].id).collect(),
        omitted: omitted(source, layout, selected),
        tokens,
        fixed_tokens: parts.instructions + parts.tools + parts.output_schema,
        parts,
        max_tokens: source.max_tokens,
        counter: source.counter,
        corrected_by: source.corrected_by,
        missing_servers: Vec::new(),
    }
}

/// Corrected like the whole; what is lost by rounding goes to the history, so that they add up to `all`.
fn parts(source: &Source, selected: &Selected, all: u64) -> PartTokens {
    let corrected = |tokens: u64| {
        let tokens = u128::from(tokens) * u128::from(source.corrected_by) / u128::from(EXACT);
        u64::try_from(tokens).unwrap_or(u64::MAX)
    };
    let fixed = &source.fixed;
    let parts = PartTokens {
        instructions: corrected(fixed.instructions),
        tools: corrected(fixed.tools),
        output_schema: corrected(fixed.output_schema),
        summary: corrected(selected.summary_tokens),
        pinned: corrected(selected.pinned_tokens),
        history: 0,
    };
    let others = parts.instructions + parts.tools + parts.output_schema + parts.summary + parts.pinned;
    PartTokens { history: all.saturating_sub(others), ..parts }
}

fn omitted(source: &Source, layout: &Layout<'_>, selected: &Selected) -> Vec<Omitted> {
    let dropped = if source.shrink {
        "the provider said that the context was too long"
    } else {
        "over the token budget"
    };
    let summary = layout.summary.map(|(at, _)| layout.history[at].id);
    let mut omitted: Vec<(usize, Omitted)> = Vec::new();
    for (turn, _) in layout.turns.iter().zip(&selected.turns).filter(|(_, shown)| !**shown) {
        let covered_by = summary.filter(|_| turn.covered);
        let named = turn.range.clone().map(|at| {
            let id = layout.history[at].id;
            (at, covered_by.map_or_else(|| Omitted::because(id, dropped), |by| Omitted::covered(id, by)))
        });
        omitted.extend(named);
    }
    let superseded = layout.superseded.iter().map(|at| (*at, "superseded summary"));
    let unshown = layout.summary.filter(|_| !selected.summary).map(|(at, _)| (at, dropped));
    let summaries = superseded.chain(unshown);
    omitted.extend(summaries.map(|(at, why)| (at, Omitted::because(layout.history[at].id, why))));
    omitted.sort_by_key(|(at, _)| *at);
    omitted.into_iter().map(|(_, omitted)| omitted).collect()
}
