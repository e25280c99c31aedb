//! What a tenant may have at once and in a day.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::Result;
use crate::counts::Counted;
use crate::error::store_error;
use crate::runs::RunRefused;
use crate::tx::TenantTx;

/// How near a tenant is to one of its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaUse {
    /// The quota's name.
    pub name: &'static str,
    /// `None`: there is no limit.
    pub limit: Option<i64>,
    /// Used of it.
    pub used: i64,
    /// What requests that are out may still take.
    pub reserved: i64,
    /// Nothing is used of it from then on; `None`: it comes back as what uses it goes.
    pub resets_at: Option<DateTime<Utc>>,
}

impl TenantTx {
    /// Why the tenant may not have another run now.
    pub(crate) async fn quota_refuses(&mut self) -> Result<Option<RunRefused>> {
        let quotas = self.quotas().await?;
        let quota = |name: &str| quotas.get(name).and_then(Value::as_i64);
        if let Some(max) = quota("max_queued_runs")
            && self.queue_is_full(max).await?
        {
            return Ok(Some(RunRefused::QueueFull));
        }
        // Whatever it would add: a run that is under way goes on.
        for of in [Counted::ArtifactBytes, Counted::WorkspaceBytes] {
            if let Some(full) = self.is_full(of, &quotas).await? {
                return Ok(Some(RunRefused::Full(full)));
            }
        }
        let (tokens, money) = (quota("max_tokens_per_day"), quota("max_cost_microusd_per_day"));
        if tokens.is_none() && money.is_none() {
            return Ok(None);
        }
        let today = self.used_today().await?;
        let left = Duration::from_secs(u64::try_from(today.left_s).unwrap_or(1).max(1));
        Ok(if tokens.is_some_and(|max| today.tokens >= max) {
            Some(RunRefused::TokensUsedUp(left))
        } else if money.is_some_and(|max| today.cost_microusd >= max) {
            Some(RunRefused::MoneyUsedUp(left))
        } else {
            None
        })
    }

    async fn quotas(&mut self) -> Result<Value> {
        let quotas = sqlx::query_scalar!("SELECT quotas FROM tenants WHERE tenant_id = $1", self.tenant())
            .fetch_optional(self.conn())
            .await
            .map_err(store_error)?;
        Ok(quotas.unwrap_or_default())
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

    /// What was used today (UTC), whatever became of the runs that used it.
    async fn used_today(&mut self) -> Result<Today> {
        sqlx::query_as!(
            Today,
            r#"WITH today AS (SELECT (now() AT TIME ZONE 'UTC')::date AS day)
               SELECT least(coalesce(sum(d.tokens), 0), 9e15)::bigint AS "tokens!",
                   least(coalesce(sum(d.cost_microusd), 0), 9e15)::bigint AS "cost_microusd!",
                   ceil(extract(epoch FROM ((SELECT day FROM today) + 1)::timestamp AT TIME ZONE 'UTC' - now()))::bigint
                       AS "left_s!",
                   (((SELECT day FROM today) + 1)::timestamp AT TIME ZONE 'UTC') AS "ends_at!"
               FROM day_use d WHERE d.tenant_id = $1 AND d.day = (SELECT day FROM today)"#,
            self.tenant(),
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)
    }

    /// The tenant's limits, and how much of each is used.
    ///
    /// # Errors
    /// The database is away.
    pub async fn quota_list(&mut self) -> Result<Vec<QuotaUse>> {
        let quotas = self.quotas().await?;
        let (today, at_once) = (self.used_today().await?, self.used_at_once().await?);
        let quota = |name, used, reserved, resets_at| {
            let limit = quotas.get(name).and_then(Value::as_i64);
            QuotaUse { name, limit, used, reserved, resets_at }
        };
        let next_day = Some(today.ends_at);
        let counted = self.counted().await?;
        let had = Counted::ALL.into_iter().filter_map(|of| {
            let (name, limit) = (of.quota()?, Some(of.limit(&quotas)));
            Some(QuotaUse { name, limit, used: Self::used_of(&counted, of), reserved: 0, resets_at: None })
        });
        let today = [
            quota("max_concurrent_runs", at_once.working, 0, None),
            quota("max_queued_runs", at_once.queued, 0, None),
            quota("max_requests_per_minute", at_once.requests, 0, at_once.minute_ends),
            quota("max_tokens_per_day", today.tokens, at_once.reserved_tokens, next_day),
            quota("max_cost_microusd_per_day", today.cost_microusd, at_once.reserved_cost, next_day),
        ];
        Ok(today.into_iter().chain(had).collect())
    }

    async fn used_at_once(&mut self) -> Result<AtOnce> {
        sqlx::query_as!(
            AtOnce,
            r#"SELECT q.working AS "working!", q.queued AS "queued!", coalesce(w.taken, 0) AS "requests!",
                   w.ends AS minute_ends, a.tokens AS "reserved_tokens!", a.cost AS "reserved_cost!"
               FROM (SELECT count(*) FILTER (WHERE lease_owner IS NOT NULL AND started) AS working,
                         count(*) FILTER (WHERE NOT started) AS queued
                     FROM run_queue WHERE tenant_id = $1 AND NOT ended) AS q
               CROSS JOIN (
                   SELECT least(coalesce(sum(o.tokens), 0), 9e15)::bigint AS tokens,
                       least(coalesce(sum(o.cost_microusd), 0), 9e15)::bigint AS cost
                   FROM day_allowances o
                   JOIN run_queue q ON q.tenant_id = o.tenant_id AND q.run_id = o.run_id AND q.epoch = o.epoch
                       AND q.lease_owner IS NOT NULL AND NOT q.ended
                   WHERE o.tenant_id = $1) AS a
               LEFT JOIN (
                   SELECT taken, began + interval '1 minute' AS ends FROM request_windows
                   WHERE tenant_id = $1 AND began > now() - interval '1 minute') AS w ON true"#,
            self.tenant(),
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)
    }
}

struct Today {
    tokens: i64,
    cost_microusd: i64,
    /// Seconds until the next day begins.
    left_s: i64,
    ends_at: DateTime<Utc>,
}

struct AtOnce {
    working: i64,
    queued: i64,
    /// Of the minute that runs now, if one does.
    requests: i64,
    minute_ends: Option<DateTime<Utc>>,
    reserved_tokens: i64,
    reserved_cost: i64,
}
