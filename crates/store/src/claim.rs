//! Who works on what: claiming, renewing, handing back. The database's clock alone is used.

use std::time::{Duration, Instant};

use answerable_core::id::{RunId, TenantId};
use answerable_core::run::STATE_VERSION;
use answerable_faults::{self as faults, Guard, Point};
use answerable_ports::{Claimed, Lease};
use sqlx::postgres::types::PgInterval;
use uuid::Uuid;

use crate::error::store_error;
use crate::tx::SystemTx;
use crate::{Result, Store};

mod give_back;
mod renew;
#[cfg(feature = "faults")]
mod unguarded;

/// Serialises claiming between servers, so that limits of tenants are counted and not raced for.
const CLAIM_LOCK: i64 = 0x616e_7377_636c_616d;

/// Runs that need a newer binary are left to one: while servers are upgraded, old and new share the database.
#[expect(clippy::cast_possible_wrap, reason = "versions are counted by hand")]
const UNDERSTOOD: i16 = STATE_VERSION as i16;

/// A server that was not seen for so long is silent: it says every 400 ms that it lives.
const SILENCE: Duration = Duration::from_millis(1_500);
/// How long a claim waits for another server's. A server that stands still in the midst of one must not hold up all the
/// others for longer; they try again.
const CLAIM_PATIENCE: &str = "1s";

struct ClaimRow {
    tenant_id: Uuid,
    run_id: Uuid,
    epoch: i64,
    deaths: i32,
    may_start: Option<bool>,
}

impl From<ClaimRow> for Claimed {
    fn from(row: ClaimRow) -> Self {
        Self {
            lease: Lease { tenant_id: TenantId(row.tenant_id), run_id: RunId(row.run_id), epoch: row.epoch },
            deaths: if faults::without(Guard::RecoveryCounter) {
                0
            } else {
                u32::try_from(row.deaths).unwrap_or(0)
            },
            may_start: row.may_start.unwrap_or(false),
        }
    }
}

impl Store {
    /// Claims up to `limit` runs that are due. Between tenants it goes by weight: whoever has the fewest places for its
    /// weight is next. A run whose thread or concurrency key is taken stays where it is, and so does one whose tenant has
    /// all its places taken, unless it was cancelled or its time is over: that needs no place. With `pressing` no others
    /// are claimed.
    ///
    /// # Errors
    /// The database is away.
    pub async fn claim(
        &self,
        server: Uuid,
        limit: usize,
        lease_for: Duration,
        pressing: bool,
    ) -> Result<Vec<Claimed>> {
        #[cfg(feature = "faults")]
        if faults::without(Guard::ClaimLock) {
            return self.claim_unguarded(server, limit, lease_for).await;
        }
        let mut tx = self.leasing().await?;
        if self.clock().is_stale() {
            self.hear_time(&mut tx).await?;
        }
        faults::before(Point::Claim);
        sqlx::query!(
            r#"SELECT set_config('lock_timeout', $2, true), pg_advisory_xact_lock($1) IS NULL AS "locked!""#,
            CLAIM_LOCK,
            CLAIM_PATIENCE
        )
        .fetch_one(tx.conn())
        .await
        .map_err(store_error)?;
        let rows = tx.claim_due(server, limit, lease_for, pressing).await?;
        tx.commit().await?;
        if !rows.is_empty() {
            faults::after(Point::Claim);
        }
        Ok(rows)
    }

    /// Claims runs whose server let its lease run out, but none of `held`. That is taken for its death, and no longer if it is
    /// seen again.
    ///
    /// # Errors
    /// The database is away.
    pub async fn reclaim(
        &self,
        server: Uuid,
        limit: usize,
        lease_for: Duration,
        held: &[Uuid],
    ) -> Result<Vec<Claimed>> {
        let mut tx = self.leasing().await?;
        self.hear_time(&mut tx).await?;
        if !self.clock().is_steady_for(lease_for) {
            // Leases seem to be over by a clock that was set: whoever lives has a whole one to renew them.
            return Ok(Vec::new());
        }
        faults::before(Point::Reclaim);
        tx.leases_mend(lease_for).await?;
        let rows = sqlx::query_as!(
            ClaimRow,
            r#"WITH dead AS MATERIALIZED (
                   (SELECT tenant_id, run_id FROM run_queue
                    WHERE lease_owner IS NOT NULL AND lease_until < now() AND run_id <> ALL ($4) AND needs <= $5
                    ORDER BY lease_until LIMIT $2)
                   UNION
                   -- A cancel doesn't wait for the lease of a server that is silent. If it lives, it loses the run to its end.
                   (SELECT tenant_id, run_id FROM run_queue q
                    WHERE lease_owner IS NOT NULL AND urgent AND NOT ended AND run_id <> ALL ($4) AND needs <= $5
                        AND NOT EXISTS (SELECT FROM servers s
                            WHERE s.server_id = q.lease_owner AND s.seen_at > now() - $6::interval)
                    LIMIT $2)
               ), locked AS MATERIALIZED (
                   -- Everybody locks a run's state before its place in the queue.
                   SELECT s.tenant_id, s.run_id FROM dead CROSS JOIN LATERAL (
                       SELECT tenant_id, run_id FROM run_states s
                       WHERE s.tenant_id = dead.tenant_id AND s.run_id = dead.run_id FOR UPDATE SKIP LOCKED) s
               ), taken AS (
                   UPDATE run_queue q SET lease_owner = $1, lease_until = clock_timestamp() + $3, wake_at = NULL, epoch = q.epoch + 1,
                       deaths = run_deaths(q.deaths, q.suspect, q.suspected_at),
                       suspect = CASE WHEN q.ended THEN NULL ELSE q.lease_owner END, suspected_at = clock_timestamp()
                   FROM locked WHERE q.tenant_id = locked.tenant_id AND q.run_id = locked.run_id
                       AND q.lease_owner IS NOT NULL AND (q.lease_until < now() OR q.urgent)
                   RETURNING q.tenant_id, q.run_id, q.epoch, run_deaths(q.deaths, q.suspect, q.suspected_at) AS deaths
               ), fenced AS (
                   UPDATE run_states s SET epoch = taken.epoch FROM taken
                   WHERE s.tenant_id = taken.tenant_id AND s.run_id = taken.run_id RETURNING s.run_id
               )
               SELECT tenant_id, run_id, epoch, deaths AS "deaths!", true AS may_start FROM taken
               WHERE run_id IN (SELECT run_id FROM fenced)"#,
            server,
            as_count(limit),
            interval(lease_for),
            held,
            UNDERSTOOD,
            interval(SILENCE),
        )
        .fetch_all(tx.conn())
        .await
        .map_err(store_error)?;
        tx.commit().await?;
        if !rows.is_empty() {
            faults::after(Point::Reclaim);
        }
        Ok(rows.into_iter().map(Claimed::from).collect())
    }

    async fn hear_time(&self, tx: &mut SystemTx) -> Result<()> {
        let asked = Instant::now();
        let row = sqlx::query!(r#"SELECT clock_timestamp() AS "time!""#).fetch_one(tx.conn()).await;
        self.clock().heard(row.map_err(store_error)?.time.timestamp_millis(), asked);
        Ok(())
    }
}

impl SystemTx {
    /// Forgets servers that were not seen for a day; gives how many.
    ///
    /// # Errors
    /// The database is away.
    pub async fn servers_prune(&mut self) -> Result<u64> {
        let done = sqlx::query!("DELETE FROM servers WHERE seen_at < now() - interval '1 day'")
            .execute(self.conn())
            .await
            .map_err(store_error)?;
        Ok(done.rows_affected())
    }

    async fn claim_due(
        &mut self,
        server: Uuid,
        limit: usize,
        lease_for: Duration,
        pressing: bool,
    ) -> Result<Vec<Claimed>> {
        let rows = sqlx::query_as!(
            ClaimRow,
            r#"WITH held AS MATERIALIZED (
                   SELECT tenant_id, count(*) AS places FROM run_queue
                   WHERE lease_owner IS NOT NULL AND NOT ended GROUP BY tenant_id
               ), due AS MATERIALIZED (
                   SELECT d.*, t.max_concurrent_runs, t.weight, coalesce(h.places, 0)
                       + row_number() OVER (PARTITION BY d.tenant_id ORDER BY d.pressing DESC, d.priority DESC, d.wake_at, d.ord) AS place
                   FROM tenants t
                   LEFT JOIN held h ON h.tenant_id = t.tenant_id
                   CROSS JOIN LATERAL (
                       (SELECT q.tenant_id, q.run_id, q.priority, q.wake_at, q.ord, true AS pressing, q.started AS may_start
                        FROM run_queue q
                        WHERE q.tenant_id = t.tenant_id AND q.lease_owner IS NULL AND q.urgent AND q.needs <= $5 LIMIT $2)
                       UNION ALL
                       (SELECT q.tenant_id, q.run_id, q.priority, q.wake_at, q.ord, f.over AS pressing,
                            (q.started OR NOT f.blocked) AS may_start
                        FROM run_queue q
                        CROSS JOIN LATERAL (
                            SELECT coalesce(q.expires_at <= now(), false) AS over, NOT q.started AND (
                                (q.thread_id IS NOT NULL AND EXISTS (
                                    SELECT FROM run_queue e WHERE e.tenant_id = q.tenant_id AND e.thread_id = q.thread_id
                                    AND e.ord < q.ord AND NOT e.ended))
                                OR (q.concurrency_key IS NOT NULL AND EXISTS (
                                    SELECT FROM run_queue e WHERE e.tenant_id = q.tenant_id
                                    AND e.concurrency_key = q.concurrency_key AND e.ord < q.ord AND NOT e.ended))
                            ) AS blocked
                        ) f
                        WHERE q.tenant_id = t.tenant_id AND q.lease_owner IS NULL AND NOT q.urgent AND q.wake_at <= now()
                          AND (f.over OR NOT f.blocked) AND q.needs <= $5
                        ORDER BY q.priority DESC, q.wake_at LIMIT $2)
                   ) d
               ), chosen AS (
                   SELECT tenant_id, run_id, may_start FROM due
                   WHERE pressing OR (NOT $4 AND (max_concurrent_runs IS NULL OR place <= max_concurrent_runs))
                   ORDER BY pressing DESC, place / weight, wake_at LIMIT $2
               ), locked AS MATERIALIZED (
                   -- Everybody locks a run's state before its place in the queue.
                   SELECT s.tenant_id, s.run_id, chosen.may_start FROM chosen CROSS JOIN LATERAL (
                       SELECT tenant_id, run_id FROM run_states s
                       WHERE s.tenant_id = chosen.tenant_id AND s.run_id = chosen.run_id FOR UPDATE SKIP LOCKED) s
               ), taken AS (
                   UPDATE run_queue q SET lease_owner = $1, lease_until = clock_timestamp() + $3, wake_at = NULL, epoch = q.epoch + 1
                   FROM locked WHERE q.tenant_id = locked.tenant_id AND q.run_id = locked.run_id AND q.lease_owner IS NULL
                   RETURNING q.tenant_id, q.run_id, q.epoch,
                       run_deaths(q.deaths, q.suspect, q.suspected_at) AS deaths, locked.may_start
               ), fenced AS (
                   UPDATE run_states s SET epoch = taken.epoch FROM taken
                   WHERE s.tenant_id = taken.tenant_id AND s.run_id = taken.run_id RETURNING s.run_id
               )
               SELECT tenant_id, run_id, epoch, deaths AS "deaths!", may_start FROM taken WHERE run_id IN (SELECT run_id FROM fenced)"#,
            server,
            as_count(limit),
            interval(lease_for),
            pressing,
            UNDERSTOOD,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        Ok(rows.into_iter().map(Claimed::from).collect())
    }
}

impl SystemTx {
    /// When the database's clock is set back, leases end too late: a dead server's runs would lie there for as long. None
    /// can be longer than ten minutes, so those that are get a whole one from now on; whoever lives renews it.
    async fn leases_mend(&mut self, lease_for: Duration) -> Result<()> {
        sqlx::query!(
            "WITH late AS MATERIALIZED (
                 SELECT tenant_id, run_id FROM run_queue
                 WHERE lease_owner IS NOT NULL AND lease_until > now() + interval '11 minutes'
                 ORDER BY tenant_id, run_id LIMIT 1000 FOR UPDATE SKIP LOCKED
             )
             UPDATE run_queue q SET lease_until = now() + $1 FROM late
             WHERE q.tenant_id = late.tenant_id AND q.run_id = late.run_id",
            interval(lease_for),
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }
}

fn as_count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn interval(duration: Duration) -> PgInterval {
    PgInterval { months: 0, days: 0, microseconds: i64::try_from(duration.as_micros()).unwrap_or(i64::MAX) }
}
