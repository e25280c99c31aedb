//! What a tenant's runs used. A run counts at the time it was created, also after it was deleted (`past_usage`). Replays
//! don't count: they asked nobody.

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
            r#"WITH counted AS (
                   SELECT r.created_at, r.agent_id,
                       used_by_itself(s.state, 'steps') AS steps,
                       used_by_itself(s.state, 'tool_calls') AS tool_calls,
                       used_by_itself(s.state, 'input_tokens') AS input_tokens,
                       used_by_itself(s.state, 'output_tokens') AS output_tokens,
                       used_by_itself(s.state, 'cost_microusd') AS cost_microusd
                   FROM runs r JOIN run_states s ON s.tenant_id = r.tenant_id AND s.run_id = r.run_id
                   WHERE r.tenant_id = $1 AND r.created_at >= $2 AND r.created_at < $3
                       AND r.origin_kind IS DISTINCT FROM 'replay'
                   UNION ALL
                   SELECT created_at, agent_id, steps, tool_calls, input_tokens, output_tokens, cost_microusd
                   FROM past_usage WHERE tenant_id = $1 AND created_at >= $2 AND created_at < $3
               )
               SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS name, NULL::uuid AS agent_id,
                   count(*) AS "runs!",
                   least(sum(steps), 9e15)::bigint AS "steps!",
                   least(sum(tool_calls), 9e15)::bigint AS "tool_calls!",
                   least(sum(input_tokens), 4e15)::bigint AS "input_tokens!",
                   least(sum(output_tokens), 4e15)::bigint AS "output_tokens!",
                   least(sum(cost_microusd), 9e15)::bigint AS "cost_microusd!"
               FROM counted
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
            r#"WITH counted AS (
                   SELECT r.created_at, r.agent_id,
                       used_by_itself(s.state, 'steps') AS steps,
                       used_by_itself(s.state, 'tool_calls') AS tool_calls,
                       used_by_itself(s.state, 'input_tokens') AS input_tokens,
                       used_by_itself(s.state, 'output_tokens') AS output_tokens,
                       used_by_itself(s.state, 'cost_microusd') AS cost_microusd
                   FROM runs r JOIN run_states s ON s.tenant_id = r.tenant_id AND s.run_id = r.run_id
                   WHERE r.tenant_id = $1 AND r.created_at >= $2 AND r.created_at < $3
                       AND r.origin_kind IS DISTINCT FROM 'replay'
                   UNION ALL
                   SELECT created_at, agent_id, steps, tool_calls, input_tokens, output_tokens, cost_microusd
                   FROM past_usage WHERE tenant_id = $1 AND created_at >= $2 AND created_at < $3
               )
               SELECT NULL::text AS name, agent_id,
                   count(*) AS "runs!",
                   least(sum(steps), 9e15)::bigint AS "steps!",
                   least(sum(tool_calls), 9e15)::bigint AS "tool_calls!",
                   least(sum(input_tokens), 4e15)::bigint AS "input_tokens!",
                   least(sum(output_tokens), 4e15)::bigint AS "output_tokens!",
                   least(sum(cost_microusd), 9e15)::bigint AS "cost_microusd!"
               FROM counted
               GROUP BY agent_id
               ORDER BY least(sum(input_tokens + output_tokens), 9e15) DESC, agent_id LIMIT $4"#,
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
                       AND r.origin_kind IS DISTINCT FROM 'replay'
               ), summed AS (
                   SELECT name, count(DISTINCT run_id) AS runs, count(*) AS steps, sum(calls) AS calls, sum(input) AS input,
                       sum(output) AS output, sum(cost) AS cost
                   FROM counted GROUP BY name
                   UNION ALL
                   SELECT m.name, 1, m.steps, m.tool_calls, m.input_tokens, m.output_tokens, m.cost_microusd
                   FROM past_usage p CROSS JOIN LATERAL jsonb_to_recordset(p.models)
                       AS m(name text, steps bigint, tool_calls numeric, input_tokens numeric, output_tokens numeric,
                            cost_microusd numeric)
                   WHERE p.tenant_id = $1 AND p.created_at >= $2 AND p.created_at < $3
               )
               SELECT name, NULL::uuid AS agent_id, sum(runs)::bigint AS "runs!", sum(steps)::bigint AS "steps!",
                   sum(calls)::bigint AS "tool_calls!",
                   least(sum(input), 4e15)::bigint AS "input_tokens!",
                   least(sum(output), 4e15)::bigint AS "output_tokens!",
                   least(sum(cost), 9e15)::bigint AS "cost_microusd!"
               FROM summed GROUP BY name ORDER BY least(sum(input + output), 9e15) DESC, name LIMIT $4"#,
            self.tenant(),
            from,
            to,
            MAX_ROWS,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// Keeps what runs used that are about to be deleted, as the sums above count it.
    pub(crate) async fn usage_keep(&mut self, runs: &[Uuid]) -> Result<()> {
        let tenant = self.tenant();
        sqlx::query!(
            "INSERT INTO past_usage (tenant_id, created_at, agent_id, steps, tool_calls, input_tokens, output_tokens,
                 cost_microusd, models)
             SELECT r.tenant_id, r.created_at, r.agent_id,
                 used_by_itself(s.state, 'steps'),
                 used_by_itself(s.state, 'tool_calls'),
                 used_by_itself(s.state, 'input_tokens'),
                 used_by_itself(s.state, 'output_tokens'),
                 used_by_itself(s.state, 'cost_microusd'),
                 coalesce((
                     SELECT jsonb_agg(m) FROM (
                         SELECT (p.model ->> 'provider') || '/' || (p.model ->> 'model') AS name, count(*) AS steps,
                             sum((SELECT count(*) FROM ledger l WHERE l.tenant_id = p.tenant_id AND l.run_id = p.run_id
                                 AND l.step = p.number)) AS tool_calls,
                             coalesce(sum((p.model ->> 'input_tokens')::numeric), 0) AS input_tokens,
                             coalesce(sum((p.model ->> 'output_tokens')::numeric), 0) AS output_tokens,
                             coalesce(sum((p.model ->> 'cost_microusd')::numeric), 0) AS cost_microusd
                         FROM steps p
                         WHERE p.tenant_id = r.tenant_id AND p.run_id = r.run_id AND p.model IS NOT NULL
                         GROUP BY 1) m), '[]')
             FROM runs r JOIN run_states s ON s.tenant_id = r.tenant_id AND s.run_id = r.run_id
             WHERE r.tenant_id = $1 AND r.run_id = ANY($2) AND r.origin_kind IS DISTINCT FROM 'replay'",
            tenant,
            runs,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }
}
