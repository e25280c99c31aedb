//! Requests for runs that stand on other runs.

use answerable_core::budget::BudgetPatch;
use answerable_core::message::InputMessage;
use serde::Deserialize;
use serde_json::Value;

use super::runs::input_messages;
use crate::body::RequestBody;
use crate::problem::Problem;

/// A run is to go on where it ended.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContinueRequest {
    #[serde(default)]
    pub(crate) budgets: BudgetPatch,
    #[serde(default)]
    input: Option<Value>,
}

impl RequestBody for ContinueRequest {
    const CONTENT: &'static [&'static str] = &["/input"];
}

impl ContinueRequest {
    /// What is said to it.
    pub(crate) fn messages(&self) -> Result<Vec<InputMessage>, Problem> {
        said(self.input.as_ref())
    }
}

/// A run is to go on from a checkpoint.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkRequest {
    pub(crate) after_step: u32,
    #[serde(default)]
    pub(crate) agent: Option<Value>,
    #[serde(default)]
    input: Option<Value>,
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
    /// What is said to it.
    pub(crate) fn messages(&self) -> Result<Vec<InputMessage>, Problem> {
        said(self.input.as_ref())
    }

    /// Effects are made again.
    pub(crate) fn repeats_effects(&self) -> bool {
        self.effects == EffectsWord::Repeat
    }
}

fn said(input: Option<&Value>) -> Result<Vec<InputMessage>, Problem> {
    input.map_or_else(|| Ok(Vec::new()), input_messages)
}
