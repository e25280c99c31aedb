//! Agents.

use answerable_core::agent::redacted;
use answerable_core::id::AgentId;
use answerable_store::AgentRow;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Time;
use crate::body::RequestBody;

/// An agent as a tenant writes it; see [`crate::agents::read_spec`].
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct AgentBody(pub(crate) Value);

impl RequestBody for AgentBody {}

/// An agent in one version: what it is, and which.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Agent(Map<String, Value>);

/// What an agent is, as it is shown: what a tool doesn't have is left out, as in requests, and secrets that are written out
/// in it are hidden.
pub(crate) fn shown(spec: Value) -> Map<String, Value> {
    let mut shown = match redacted(&spec) {
        Value::Object(spec) => spec,
        _ => Map::new(),
    };
    for tool in shown.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(tool) = tool.as_object_mut() {
            tool.retain(|_, value| !value.is_null());
        }
    }
    if let Some(model) = shown.get_mut("model").and_then(Value::as_object_mut) {
        model.retain(|name, value| name == "temperature" || !value.is_null());
    }
    shown
}

impl From<AgentRow> for Agent {
    fn from(row: AgentRow) -> Self {
        let mut shown = shown(row.spec);
        let time = |at| serde_json::to_value(Time(at)).unwrap_or_default();
        let own = [
            ("id", AgentId(row.agent_id).to_string().into()),
            ("object", "agent".into()),
            ("version", row.version.into()),
            ("created_at", time(row.created_at)),
            ("archived_at", row.archived_at.map(time).unwrap_or_default()),
        ];
        shown.extend(own.map(|(name, value): (&str, Value)| (name.to_owned(), value)));
        Self(shown)
    }
}
