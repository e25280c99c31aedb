//! Usage, and how near a tenant is to its limits.

use answerable_core::id::AgentId;
use answerable_store::UsageBy;
use chrono::NaiveDate;
use serde::Serialize;

use super::Time;

/// What some runs used together.
#[derive(Debug, Serialize)]
pub(crate) struct UsageRow {
    /// The one thing that it stands for, where there is one row for each of one thing.
    group: Option<String>,
    day: Option<NaiveDate>,
    agent_id: Option<AgentId>,
    model: Option<String>,
    runs: i64,
    steps: i64,
    model_calls: i64,
    tool_calls: i64,
    input_tokens: i64,
    cached_input_tokens: i64,
    output_tokens: i64,
    tokens: i64,
    cost_microusd: i64,
}

impl UsageRow {
    pub(crate) fn of(by: UsageBy, row: answerable_store::UsageRow) -> Self {
        let agent_id = row.agent_id.map(AgentId);
        let group = match (by.day, by.agent, by.model) {
            (true, false, false) => row.day.map(|day| day.to_string()),
            (false, true, false) => agent_id.map(|id| id.to_string()),
            (false, false, true) => row.model.clone(),
            _ => None,
        };
        Self {
            group,
            day: row.day,
            agent_id,
            model: row.model,
            runs: row.runs,
            steps: row.steps,
            model_calls: row.model_calls,
            tool_calls: row.tool_calls,
            input_tokens: row.input_tokens,
            cached_input_tokens: row.cached_input_tokens,
            output_tokens: row.output_tokens,
            tokens: row.input_tokens.saturating_add(row.output_tokens),
            cost_microusd: row.cost_microusd,
        }
    }
}

/// One of a tenant's limits, and how much of it is used.
#[derive(Debug, Serialize)]
pub(crate) struct QuotaUse {
    name: &'static str,
    limit: Option<i64>,
    used: i64,
    reserved: i64,
    resets_at: Option<Time>,
}

impl From<answerable_store::QuotaUse> for QuotaUse {
    fn from(row: answerable_store::QuotaUse) -> Self {
        Self {
            name: row.name,
            limit: row.limit,
            used: row.used,
            reserved: row.reserved,
            resets_at: row.resets_at.map(Time),
        }
    }
}
