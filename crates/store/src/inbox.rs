//! The inbox of a run: what came in from outside, numbered in its order, for whichever server has the run.

use answerable_core::Millis;
use answerable_core::id::RunId;
use answerable_core::run::RunState;
use answerable_ports::Signal;
use answerable_ports::commit::InboundBody;

use crate::Result;
use crate::error::{as_json, store_error};
use crate::load::read_state;
use crate::tx::TenantTx;

/// Things that may wait for one run. More at once are of no use to it, and nobody may fill its memory.
pub(crate) const MAX_WAITING: i64 = 256;

/// A run whose state can't change before this transaction ends. Whoever changes what belongs to a run from outside takes
/// this lock first, then any others: the engine's commit does the same, so they never wait for each other in a circle.
#[derive(Debug)]
pub(crate) struct LockedRun {
    /// What is true of it.
    pub(crate) state: RunState,
    /// The database's clock, after the lock was got.
    pub(crate) at: Millis,
}

impl TenantTx {
    /// Locks a run; `None` if there is no such run.
    pub(crate) async fn run_lock(&mut self, run_id: RunId) -> Result<Option<LockedRun>> {
        let tenant = self.tenant();
        let state = sqlx::query_scalar!(
            "SELECT state FROM run_states WHERE tenant_id = $1 AND run_id = $2 FOR UPDATE",
            tenant,
            run_id.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let Some(state) = state else { return Ok(None) };
        // A statement of its own: the clock of the one above may have been read before it had to wait.
        let at = sqlx::query_scalar!(r#"SELECT clock_timestamp() AS "at!""#)
            .fetch_one(self.conn())
            .await
            .map_err(store_error)?;
        Ok(Some(LockedRun { state: read_state(state)?, at: at.timestamp_millis() }))
    }

    /// Puts something into a run's inbox and wakes whoever must deal with it. `urgent`: a server must take the run up for
    /// this, whatever the limits.
    pub(crate) async fn inbox_add(&mut self, run_id: RunId, body: &InboundBody, urgent: bool) -> Result<()> {
        let tenant = self.tenant();
        let body = as_json(body)?;
        sqlx::query_scalar!("SELECT inbox_add($1, $2, $3::text::json, $4)", tenant, run_id.0, body, urgent)
            .fetch_one(self.conn())
            .await
            .map_err(store_error)?;
        self.announce(Signal::Inbox(run_id.0));
        self.announce(Signal::Work);
        Ok(())
    }

    /// How many things wait for a run, and whether a cancel is among them.
    pub(crate) async fn inbox_count(&mut self, run_id: RunId) -> Result<(i64, bool)> {
        let tenant = self.tenant();
        let row = sqlx::query!(
            r#"SELECT count(*) AS "waiting!", coalesce(bool_or((body -> 'Cancel') IS NOT NULL), false) AS "cancel!"
               FROM inbox WHERE tenant_id = $1 AND run_id = $2"#,
            tenant,
            run_id.0,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        Ok((row.waiting, row.cancel))
    }
}
