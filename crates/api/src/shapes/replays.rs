//! Requests for replays.

use answerable_core::budget::BudgetPatch;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::body::RequestBody;

/// A run is to be played again.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplayRequest {
    #[expect(dead_code, reason = "the document allows one word, and it says what everybody gets")]
    tools: Tools,
    #[serde(default)]
    pub(crate) agent: Option<Value>,
    #[serde(default)]
    pub(crate) policy: Option<Value>,
    #[serde(default)]
    pub(crate) context: Option<Map<String, Value>>,
    #[serde(default)]
    pub(crate) budgets: BudgetPatch,
    #[serde(default)]
    pub(crate) metadata: Option<Map<String, Value>>,
}

impl RequestBody for ReplayRequest {}

/// Who answers in the tools' place.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Tools {
    Recorded,
}
