//! Requests for runs that stand on other runs.

use answerable_core::budget::BudgetPatch;
use serde::Deserialize;
use serde_json::Value;

use crate::body::RequestBody;

/// A run is to go on where it ended.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContinueRequest {
    #[serde(default)]
    pub(crate) budgets: BudgetPatch,
    #[serde(default)]
    pub(crate) input: Option<Value>,
}

impl RequestBody for ContinueRequest {
    const CONTENT: &'static [&'static str] = &["/input"];
}

/// A run is to go on from a checkpoint.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkRequest {
    pub(crate) after_step: u32,
    #[serde(default)]
    pub(crate) agent: Option<Value>,
    #[serde(default)]
    pub(crate) input: Option<Value>,
    #[serde(default)]
    effects: EffectsWord,
}

impl RequestBody for ForkRequest {
    const CONTENT: &'static [&'static str] = &["/input"];
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum EffectsWord {
    #[default]
    Ledger,
    Repeat,
}

impl ForkRequest {
    /// Effects are made again.
    pub(crate) fn repeats_effects(&self) -> bool {
        self.effects == EffectsWord::Repeat
    }
}
