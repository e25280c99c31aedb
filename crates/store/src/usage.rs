//! What a tenant's runs used. A run counts at the time it was created.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

/// Most rows of one answer.
const MAX_ROWS: i64 = 1000;

/// What some runs used together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRow {
    /// The day (`2026-01-02`) or `PROVIDER/MODEL`; `None` for agents.
    pub name: Option<String>,
    /// The agent; `None` for inline ones, days and models.
    pub agent_id: Option<Uuid>,
    /// Runs.
    pub runs: i64,
    /// Steps.
    pub steps: i64,
    /// Tool calls that were executed.
    pub tool_calls: i64,
    /// Input tokens, cached ones included.
    pub input_tokens: i64,
    /// Output tokens.
    pub output_tokens: i64,
    /// In micro-USD.
    pub cost_microusd: i64,
}

impl TenantTx {
    /// By UTC day, oldest first.
    ///
    /// # Errors
    /// The database is away.
    pub async fn usage_by_day(&mut self, from: DateTime<Utc>, to: DateTime<Utc>) -> Result<Vec<UsageRow>> {
        sqlx::query_as!(
            UsageRow,
            r#"SELECT to_char(r.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS name, NULL::uuid AS agent_id,
                   count(*) AS "runs!",
                   least(sum((s.state #>> '{used,steps}')::numeric), 9e15)::bigint AS "steps!",
                   least(sum((s.state #>> '{used,tool_calls}')::numeric), 9e15)::bigint AS "tool_calls!",
                   least(sum((s.state #>> '{used,input_tokens}')::numeric), 4e15)::bigint AS "input_tokens!",
                   least(sum((s.state #>> '{used,output_tokens}')::numeric), 4e15)::bigint AS "output_tokens!",
                   least(sum((s.state #>> '{used,cost_microusd}')::numeric), 9e15)::bigint AS "cost_microusd!"
               FROM runs r JOIN run_states s ON s.tenant_id = r.tenant_id AND s.run_id = r.run_id
               WHERE r.tenant_id = $1 AND r.created_at >= $2 AND r.created_at < $3
               GROUP BY 1 ORDER BY 1 LIMIT $4"#,
            self.tenant(),
            from,
            to,
            MAX_ROWS,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// By agent, most tokens first.
    ///
    /// # Errors
    /// The database is away.
    pub async fn usage_by_agent(&mut self, from: DateTime<Utc>, to: DateTime<Utc>) -> Result<Vec<UsageRow>> {
        sqlx::query_as!(
            UsageRow,
            r#"SELECT NULL::text AS name, r.agent_id,
                   count(*) AS "runs!",
                   least(sum((s.state #>> '{used,steps}')::numeric), 9e15)::bigint AS "steps!",
                   least(sum((s.state #>> '{used,tool_calls}')::numeric), 9e15)::bigint AS "tool_calls!",
                   least(sum((s.state #>> '{used,input_tokens}')::numeric), 4e15)::bigint AS "input_tokens!",
                   least(sum((s.state #>> '{used,output_tokens}')::numeric), 4e15)::bigint AS "output_tokens!",
                   least(sum((s.state #>> '{used,cost_microusd}')::numeric), 9e15)::bigint AS "cost_microusd!"
               FROM runs r JOIN run_states s ON s.tenant_id = r.tenant_id AND s.run_id = r.run_id
               WHERE r.tenant_id = $1 AND r.created_at >= $2 AND r.created_at < $3
               GROUP BY r.agent_id
               ORDER BY least(sum((s.state #>> '{used,input_tokens}')::numeric
                   + (s.state #>> '{used,output_tokens}')::numeric), 9e15) DESC, r.agent_id LIMIT $4"#,
            self.tenant(),
            from,
            to,
            MAX_ROWS,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// By provider and model, most tokens first. Counted from the steps, by the model that answered each.
    ///
    /// # Errors
    /// The database is away.
    pub async fn usage_by_model(&mut self, from: DateTime<Utc>, to: DateTime<Utc>) -> Result<Vec<UsageRow>> {
        sqlx::query_as!(
            UsageRow,
            r#"WITH counted AS (
                   SELECT p.run_id, (p.model ->> 'provider') || '/' || (p.model ->> 'model') AS name,
                       (p.model ->> 'input_tokens')::numeric AS input, (p.model ->> 'output_tokens')::numeric AS output,
                       (p.model ->> 'cost_microusd')::numeric AS cost,
                       (SELECT count(*) FROM ledger l WHERE l.tenant_id = p.tenant_id AND l.run_id = p.run_id
                           AND l.step = p.number) AS calls
                   FROM runs r JOIN steps p ON p.tenant_id = r.tenant_id AND p.run_id = r.run_id
                   WHERE r.tenant_id = $1 AND r.created_at >= $2 AND r.created_at < $3 AND p.model IS NOT NULL
               )
               SELECT name, NULL::uuid AS agent_id, count(DISTINCT run_id) AS "runs!", count(*) AS "steps!",
                   sum(calls)::bigint AS "tool_calls!",
                   least(sum(input), 4e15)::bigint AS "input_tokens!",
                   least(sum(output), 4e15)::bigint AS "output_tokens!",
                   least(sum(cost), 9e15)::bigint AS "cost_microusd!"
               FROM counted GROUP BY name ORDER BY least(sum(input + output), 9e15) DESC, name LIMIT $4"#,
            self.tenant(),
            from,
            to,
            MAX_ROWS,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }
}
