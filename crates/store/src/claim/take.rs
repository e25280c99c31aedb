//! Which runs a claim takes.

use std::time::Duration;

use answerable_core::id::{RunId, TenantId};
use answerable_faults::{self as faults, Guard};
use answerable_ports::{Claimed, Lease, Room};
use uuid::Uuid;

use super::{UNDERSTOOD, as_count, interval};
use crate::error::store_error;
use crate::tx::SystemTx;
use crate::{Result, Store};

/// Serialises claiming between servers, so that limits of tenants are counted and not raced for.
const CLAIM_LOCK: i64 = 0x616e_7377_636c_616d;
/// How long a claim waits for another server's. A server that stands still in the midst of one must not hold up all the
/// others for longer; they try again.
const CLAIM_PATIENCE: &str = "1s";
/// Tenants that one claim chooses from. With more of them it is the turn of the next ones the next time.
const TENANTS_AT_ONCE: i32 = 256;
/// Tenants with due runs that one claim looks at, those included who can be given nothing: about 30 ms.
const LOOKS_AT_ONCE: i32 = 4096;

/// Whom a claim has looked at.
struct Look {
    /// Those who may be given something.
    tenants: Vec<Uuid>,
    /// The last one of all.
    latest: Option<Uuid>,
    /// All were looked at.
    around: bool,
}

/// A run that was taken.
pub(super) struct Taken {
    pub(super) tenant_id: Uuid,
    pub(super) run_id: Uuid,
    pub(super) epoch: i64,
    pub(super) deaths: i32,
    pub(super) may_start: Option<bool>,
    /// Its tenant held no other.
    pub(super) is_first: Option<bool>,
    /// Its tenant's share.
    pub(super) weight: Option<f64>,
}

impl From<Taken> for Claimed {
    fn from(row: Taken) -> Self {
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
    /// The runs of those tenants that are next, within a claim; and whether there may be more.
    pub(super) async fn take_due(
        &self,
        tx: &mut SystemTx,
        server: Uuid,
        room: &Room<'_>,
        lease_for: Duration,
    ) -> Result<(Vec<Taken>, bool)> {
        let turns = self.turns();
        let after = turns.after();
        let look = tx.claim_begin(after, room.pressing).await?;
        let rows = if look.tenants.is_empty() {
            Vec::new()
        } else {
            tx.claim_take(server, room, lease_for, &look.tenants, &turns.of(&look.tenants)).await?
        };
        for row in rows.iter().filter(|row| row.is_first == Some(true)) {
            turns.served(row.tenant_id, row.weight.unwrap_or(1.0));
        }
        let all_seen = turns.looked(after, look.latest.filter(|_| !look.around));
        let is_full = rows.len() >= room.limit;
        if is_full {
            turns.new_round();
        }
        Ok((rows, is_full || !all_seen))
    }
}

impl SystemTx {
    /// From here on nobody else claims. Gives the tenants that have runs which are due, and who may be given one.
    async fn claim_begin(&mut self, after: Uuid, pressing: bool) -> Result<Look> {
        sqlx::query_as!(
            Look,
            r#"SELECT tenants AS "tenants!", latest, around AS "around!" FROM claim_begin($1, $2, $3, $4, $5, $6)"#,
            CLAIM_LOCK,
            CLAIM_PATIENCE,
            after,
            TENANTS_AT_ONCE,
            LOOKS_AT_ONCE,
            pressing,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)
    }

    /// Takes what is next: each tenant's first place before anybody's second, these by `turns`; then whoever has the fewest
    /// places for its weight. What waits for its line isn't due.
    async fn claim_take(
        &mut self,
        server: Uuid,
        room: &Room<'_>,
        lease_for: Duration,
        tenants: &[Uuid],
        turns: &[f64],
    ) -> Result<Vec<Taken>> {
        let except: Vec<Uuid> = room.except.iter().map(|tenant| tenant.0).collect();
        sqlx::query_as!(
            Taken,
            r#"WITH awake AS MATERIALIZED (
                   SELECT t.tenant_id, t.max_concurrent_runs, t.weight, u.turn,
                       (SELECT count(*) FROM run_queue h
                        WHERE h.tenant_id = t.tenant_id AND h.lease_owner IS NOT NULL AND NOT h.ended) AS held
                   FROM unnest($6::uuid[], $7::double precision[]) AS u(tenant_id, turn)
                   JOIN tenants t ON t.tenant_id = u.tenant_id
                   WHERE t.suspended_at IS NULL AND t.tenant_id <> ALL ($8)
               ), due AS MATERIALIZED (
                   SELECT q.tenant_id, q.run_id, q.wake_at, q.may_start, q.due = 2 AS pressing, a.max_concurrent_runs, a.weight, a.turn,
                       a.held + row_number() OVER (PARTITION BY q.tenant_id ORDER BY q.due DESC, q.priority DESC, q.wake_at, q.ord) AS place
                   FROM awake a CROSS JOIN LATERAL (
                       SELECT q.tenant_id, q.run_id, q.due, q.priority, q.wake_at, q.ord,
                           q.started OR (q.first_in_line AND NOT q.urgent) AS may_start
                       FROM run_queue q
                       WHERE q.tenant_id = a.tenant_id AND q.due > 0 AND q.due >= CASE WHEN $4 THEN 2 ELSE 1 END AND q.needs <= $5
                       ORDER BY q.due DESC, q.priority DESC, q.wake_at, q.ord LIMIT $2) q
               ), chosen AS (
                   SELECT tenant_id, run_id, may_start, place = 1 AS is_first, weight FROM due
                   WHERE pressing OR max_concurrent_runs IS NULL OR place <= max_concurrent_runs
                   ORDER BY place > 1, CASE WHEN place > 1 THEN place / weight ELSE turn END, turn, wake_at LIMIT $2
               ), locked AS MATERIALIZED (
                   -- Everybody locks a run's state before its place in the queue.
                   SELECT s.tenant_id, s.run_id, c.may_start, c.is_first, c.weight FROM chosen c CROSS JOIN LATERAL (
                       SELECT tenant_id, run_id FROM run_states s
                       WHERE s.tenant_id = c.tenant_id AND s.run_id = c.run_id FOR UPDATE SKIP LOCKED) s
               ), taken AS (
                   UPDATE run_queue q SET lease_owner = $1, lease_until = clock_timestamp() + $3, wake_at = NULL, epoch = q.epoch + 1
                   FROM locked WHERE q.tenant_id = locked.tenant_id AND q.run_id = locked.run_id AND q.lease_owner IS NULL
                   RETURNING q.tenant_id, q.run_id, q.epoch, run_deaths(q.deaths, q.suspect, q.suspected_at) AS deaths,
                       locked.may_start, locked.is_first, locked.weight
               ), fenced AS (
                   UPDATE run_states s SET epoch = taken.epoch FROM taken
                   WHERE s.tenant_id = taken.tenant_id AND s.run_id = taken.run_id RETURNING s.run_id
               )
               SELECT tenant_id, run_id, epoch, deaths AS "deaths!", may_start, is_first, weight
               FROM taken WHERE run_id IN (SELECT run_id FROM fenced)"#,
            server,
            as_count(room.limit),
            interval(lease_for),
            room.pressing,
            UNDERSTOOD,
            tenants,
            turns,
            &except,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }
}
