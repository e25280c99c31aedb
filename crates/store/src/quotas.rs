//! What a tenant may have at once and in a day.

use std::time::Duration;

use serde_json::Value;

use crate::Result;
use crate::error::store_error;
use crate::runs::RunRefused;
use crate::tx::TenantTx;

impl TenantTx {
    /// Why the tenant may not have another run now.
    pub(crate) async fn quota_refuses(&mut self) -> Result<Option<RunRefused>> {
        let tenant = self.tenant();
        let quotas = sqlx::query_scalar!("SELECT quotas FROM tenants WHERE tenant_id = $1", tenant)
            .fetch_optional(self.conn())
            .await
            .map_err(store_error)?
            .unwrap_or_default();
        let quota = |name: &str| quotas.get(name).and_then(Value::as_i64);
        if let Some(max) = quota("max_queued_runs")
            && self.queue_is_full(max).await?
        {
            return Ok(Some(RunRefused::QueueFull));
        }
        let (tokens, money) = (quota("max_tokens_per_day"), quota("max_cost_microusd_per_day"));
        if tokens.is_none() && money.is_none() {
            return Ok(None);
        }
        let today = self.used_today().await?;
        Ok(if tokens.is_some_and(|max| today.tokens >= max) {
            Some(RunRefused::TokensUsedUp(today.left))
        } else if money.is_some_and(|max| today.cost_microusd >= max) {
            Some(RunRefused::MoneyUsedUp(today.left))
        } else {
            None
        })
    }

    /// The tenant's row is locked until this transaction ends, so places are counted one after another and not raced for.
    async fn queue_is_full(&mut self, max: i64) -> Result<bool> {
        let tenant = self.tenant();
        sqlx::query!("SELECT tenant_id FROM tenants WHERE tenant_id = $1 FOR NO KEY UPDATE", tenant)
            .fetch_optional(self.conn())
            .await
            .map_err(store_error)?;
        let queued = sqlx::query_scalar!(
            r#"SELECT count(*) AS "queued!" FROM run_queue WHERE tenant_id = $1 AND NOT started AND NOT ended"#,
            tenant,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        Ok(queued >= max)
    }

    /// What the runs that were accepted today (UTC) have used; deleting one gives nothing back, and a replay takes nothing.
    async fn used_today(&mut self) -> Result<Today> {
        let tenant = self.tenant();
        let row = sqlx::query!(
            r#"WITH today AS (
                   SELECT date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' AS began
               ), used AS (
                   SELECT used_by_itself(state, 'input_tokens') + used_by_itself(state, 'output_tokens') AS tokens,
                       used_by_itself(state, 'cost_microusd') AS cost
                   FROM run_states s WHERE tenant_id = $1 AND run_id >= uuid_floor((SELECT began FROM today))
                       AND NOT EXISTS (SELECT FROM runs r WHERE r.tenant_id = s.tenant_id AND r.run_id = s.run_id
                           AND r.origin_kind = 'replay')
                   UNION ALL
                   -- Runs that began today with calls that are older.
                   SELECT used_by_itself(state, 'input_tokens') + used_by_itself(state, 'output_tokens'),
                       used_by_itself(state, 'cost_microusd')
                   FROM children c JOIN run_states s ON s.tenant_id = c.tenant_id AND s.run_id = c.run_id
                   WHERE c.tenant_id = $1 AND c.began_at >= (SELECT began FROM today)
                       AND c.run_id < uuid_floor((SELECT began FROM today))
                   UNION ALL
                   SELECT input_tokens + output_tokens, cost_microusd
                   FROM past_usage WHERE tenant_id = $1 AND created_at >= (SELECT began FROM today)
               )
               SELECT coalesce(sum(tokens), 0)::bigint AS "tokens!", coalesce(sum(cost), 0)::bigint AS "cost!",
                   ceil(extract(epoch FROM (SELECT began FROM today) + interval '24 hours' - now()))::bigint AS "left!"
               FROM used"#,
            tenant,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        let left = Duration::from_secs(u64::try_from(row.left).unwrap_or(1).max(1));
        Ok(Today { tokens: row.tokens, cost_microusd: row.cost, left })
    }
}

struct Today {
    tokens: i64,
    cost_microusd: i64,
    /// Until the next day begins.
    left: Duration,
}
