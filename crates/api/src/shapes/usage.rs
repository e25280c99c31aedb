//! Usage.

use answerable_core::id::AgentId;
use serde::Serialize;

/// What some runs used together.
#[derive(Debug, Serialize)]
pub(crate) struct UsageRow {
    group: Option<String>,
    runs: i64,
    steps: i64,
    tool_calls: i64,
    input_tokens: i64,
    output_tokens: i64,
    tokens: i64,
    cost_microusd: i64,
}

impl From<answerable_store::UsageRow> for UsageRow {
    fn from(row: answerable_store::UsageRow) -> Self {
        Self {
            group: row.name.or_else(|| row.agent_id.map(|id| AgentId(id).to_string())),
            runs: row.runs,
            steps: row.steps,
            tool_calls: row.tool_calls,
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            tokens: row.input_tokens.saturating_add(row.output_tokens),
            cost_microusd: row.cost_microusd,
        }
    }
}
