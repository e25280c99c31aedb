//! Who works on what: claiming, renewing, handing back. The database's clock alone is used.

use std::time::{Duration, Instant};

use answerable_core::run::STATE_VERSION;
#[cfg(feature = "faults")]
use answerable_faults::Guard;
use answerable_faults::{self as faults, Point};
use answerable_ports::{Claimed, Claims, Room};
use sqlx::postgres::types::PgInterval;
use uuid::Uuid;

use crate::error::store_error;
use crate::tx::SystemTx;
use crate::{Result, Store};
use take::Taken;
pub(crate) use turns::Turns;

mod give_back;
mod renew;
mod take;
mod turns;
#[cfg(feature = "faults")]
mod unguarded;

/// Runs that need a newer binary are left to one: while servers are upgraded, old and new share the database.
#[expect(clippy::cast_possible_wrap, reason = "versions are counted by hand")]
const UNDERSTOOD: i16 = STATE_VERSION as i16;

/// A server that was not seen for so long is silent: it says every 400 ms that it lives.
const SILENCE: Duration = Duration::from_millis(1_500);

impl Store {
    /// Claims runs that are due, as many as there is room for. Each tenant has a first place before anybody has a second, these
    /// in turn by weight; then whoever has the fewest places for its weight is next. A run whose thread or concurrency key is
    /// taken stays where it is, and so does one whose tenant has all its places taken, unless it was cancelled or its time is
    /// over: that needs no place. Of a suspended tenant nothing is claimed. Where not all tenants could be looked at in one go,
    /// the next claim goes on with the others.
    ///
    /// # Errors
    /// The database is away.
    pub async fn claim(&self, server: Uuid, room: &Room<'_>, lease_for: Duration) -> Result<Claims> {
        #[cfg(feature = "faults")]
        if faults::without(Guard::ClaimLock) {
            let runs = self.claim_unguarded(server, room.limit, lease_for).await?;
            return Ok(Claims { more: runs.len() >= room.limit, runs });
        }
        let mut tx = self.leasing().await?;
        if self.clock().is_stale() {
            self.hear_time(&mut tx).await?;
        }
        faults::before(Point::Claim);
        let (rows, more) = self.take_due(&mut tx, server, room, lease_for).await?;
        tx.commit().await?;
        if !rows.is_empty() {
            faults::after(Point::Claim);
        }
        Ok(Claims { runs: rows.into_iter().map(Claimed::from).collect(), more })
    }

    /// Claims runs whose server let its lease run out, but none of `held` and none of a suspended tenant. That is taken for its
    /// death, and no longer if it is seen again.
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
            Taken,
            r#"WITH dead AS MATERIALIZED (
                   (SELECT tenant_id, run_id FROM run_queue q
                    WHERE lease_owner IS NOT NULL AND lease_until < now() AND run_id <> ALL ($4) AND needs <= $5
                        AND NOT EXISTS (SELECT FROM tenants t WHERE t.tenant_id = q.tenant_id AND t.suspended_at IS NOT NULL)
                    ORDER BY lease_until LIMIT $2)
                   UNION
                   -- A cancel doesn't wait for the lease of a server that is silent. If it lives, it loses the run to its end.
                   (SELECT tenant_id, run_id FROM run_queue q
                    WHERE lease_owner IS NOT NULL AND urgent AND NOT ended AND run_id <> ALL ($4) AND needs <= $5
                        AND NOT EXISTS (SELECT FROM tenants t WHERE t.tenant_id = q.tenant_id AND t.suspended_at IS NOT NULL)
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
               SELECT tenant_id, run_id, epoch, deaths AS "deaths!", true AS may_start, NULL::boolean AS is_first,
                   NULL::double precision AS weight
               FROM taken
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
