//! What a tenant's runs used, at the day on which they did (UTC). Sums that each commit keeps up (`bill_commit` of the
//! schema): whatever becomes of the runs, what they used stays. Replays asked nobody and don't count.

use chrono::{DateTime, NaiveDate, Utc};
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

/// What one row stands for; none of them: all together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageBy {
    /// Its day.
    pub day: bool,
    /// Its agent.
    pub agent: bool,
    /// Its model.
    pub model: bool,
}

/// What some runs used together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRow {
    /// The day, where there is a row for each.
    pub day: Option<NaiveDate>,
    /// The agent, likewise; `None` also for agents that came with their runs.
    pub agent_id: Option<Uuid>,
    /// `PROVIDER/MODEL`, likewise; `None` also for what no model is known of.
    pub model: Option<String>,
    /// Runs that were begun; of a model those that asked it for the first time.
    pub runs: i64,
    /// Steps that were begun.
    pub steps: i64,
    /// Attempts on models.
    pub model_calls: i64,
    /// Tool calls that were executed.
    pub tool_calls: i64,
    /// Input tokens, cached ones included.
    pub input_tokens: i64,
    /// Of these, the cached ones.
    pub cached_input_tokens: i64,
    /// Output tokens.
    pub output_tokens: i64,
    /// In micro-USD.
    pub cost_microusd: i64,
}

impl TenantTx {
    /// What was used on the days that lie, with some part of theirs, between `from` and `to`: oldest day first, then most
    /// tokens; at most `limit` rows.
    ///
    /// # Errors
    /// The database is away.
    pub async fn usage_list(
        &mut self,
        from: DateTime<Utc>,
        to: DateTime<Utc>,
        by: UsageBy,
        limit: i64,
    ) -> Result<Vec<UsageRow>> {
        sqlx::query_as!(
            UsageRow,
            r#"SELECT CASE WHEN $4 THEN day END AS day,
                   CASE WHEN $5 THEN nullif(agent_id, '00000000-0000-0000-0000-000000000000') END AS agent_id,
                   CASE WHEN $6 THEN nullif(model, '') END AS model,
                   least(sum(CASE WHEN $6 THEN model_runs ELSE runs END), 9e15)::bigint AS "runs!",
                   least(sum(steps), 9e15)::bigint AS "steps!",
                   least(sum(model_calls), 9e15)::bigint AS "model_calls!",
                   least(sum(tool_calls), 9e15)::bigint AS "tool_calls!",
                   least(sum(input_tokens), 4e15)::bigint AS "input_tokens!",
                   least(sum(cached_input_tokens), 4e15)::bigint AS "cached_input_tokens!",
                   least(sum(output_tokens), 4e15)::bigint AS "output_tokens!",
                   least(sum(cost_microusd), 9e15)::bigint AS "cost_microusd!"
               FROM usage_days
               WHERE tenant_id = $1 AND $2::timestamptz < $3::timestamptz
                   AND day >= ($2::timestamptz AT TIME ZONE 'UTC')::date
                   AND day <= (($3::timestamptz - interval '1 microsecond') AT TIME ZONE 'UTC')::date
               GROUP BY 1, 2, 3
               -- That some run was begun is no model's.
               HAVING NOT $6 OR sum(model_runs + steps + model_calls + tool_calls) > 0
                   OR sum(input_tokens) > 0 OR sum(output_tokens) > 0 OR sum(cost_microusd) > 0
               ORDER BY 1, least(sum(input_tokens::numeric + output_tokens), 9e18) DESC, 2, 3 LIMIT $7"#,
            self.tenant(),
            from,
            to,
            by.day,
            by.agent,
            by.model,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// Takes the tenant's sums away, with the tenant.
    pub(crate) async fn usage_forget(&mut self) -> Result<()> {
        let tenant = self.tenant();
        for sums in [
            sqlx::query!("DELETE FROM usage_days WHERE tenant_id = $1", tenant),
            sqlx::query!("DELETE FROM day_use WHERE tenant_id = $1", tenant),
        ] {
            sums.execute(self.conn()).await.map_err(store_error)?;
        }
        Ok(())
    }

    /// Sums up the parts of a day that is over, and drops what is only for quotas of days before it.
    pub(crate) async fn usage_fold(&mut self, day: NaiveDate) -> Result<()> {
        // Whoever deletes the tenant must not miss what is written here.
        if !self.tenant_hold().await? {
            return Ok(());
        }
        let tenant = self.tenant();
        sqlx::query!(
            "WITH parts AS (
                 DELETE FROM usage_days WHERE tenant_id = $1 AND day = $2 RETURNING *
             )
             INSERT INTO usage_days (tenant_id, day, agent_id, model, part, runs, model_runs, steps, model_calls, tool_calls,
                 input_tokens, cached_input_tokens, output_tokens, cost_microusd)
             SELECT tenant_id, day, agent_id, model, 0, sum(runs), sum(model_runs), sum(steps), sum(model_calls), sum(tool_calls),
                 least(sum(input_tokens), 4e18), least(sum(cached_input_tokens), 4e18), least(sum(output_tokens), 4e18),
                 least(sum(cost_microusd), 4e18)
             FROM parts GROUP BY tenant_id, day, agent_id, model",
            tenant,
            day,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        sqlx::query!("DELETE FROM day_use WHERE tenant_id = $1 AND day <= $2", tenant, day)
            .execute(self.conn())
            .await
            .map_err(store_error)?;
        Ok(())
    }
}
