//! Deleting runs with all that belongs to them. Two things outlive a run, without saying which it was: what it used, which
//! stands in sums of its days, and which business keys it took, so that nothing is sent twice.

use answerable_core::audit::Action;
use answerable_core::id::RunId;
use answerable_ports::Signal;
use serde_json::json;
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

/// What became of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunDeleted {
    /// The run and all that belonged to it are gone.
    Deleted,
    /// It has not ended.
    NotEnded,
    /// It has ended, and calls of it are out still: what becomes of them is yet to be written down.
    CallsOut,
    /// A run that stands on it has not ended.
    StoodOn,
    /// A run that it called has not ended, or the one that called it has not heard of its end.
    Awaited,
    /// There is no such run.
    Unknown,
}

impl TenantTx {
    /// Deletes a run that has ended, and with it those that it called.
    ///
    /// # Errors
    /// The database is away.
    pub async fn run_delete(&mut self, run_id: RunId) -> Result<RunDeleted> {
        let tenant = self.tenant();
        // The tenant before its runs, as whoever deletes the tenant locks them.
        self.tenant_hold().await?;
        let below = self.runs_below(run_id).await?;
        let all: Vec<Uuid> = std::iter::once(run_id.0).chain(below.iter().copied()).collect();
        if !self.states_lock(&all).await?.contains(&run_id.0) {
            return Ok(RunDeleted::Unknown);
        }
        if self.runs_below(run_id).await? != below {
            // One of them called another run just now.
            return Ok(RunDeleted::Awaited);
        }
        self.heirs_hold_off(&all).await?;
        let found = sqlx::query!(
            r#"SELECT finished_at IS NOT NULL AS "ended!", run_can_go(tenant_id, run_id) AS "can_go!",
                   EXISTS (SELECT FROM unnest($3::uuid[]) AS b(run_id) WHERE NOT run_can_go($1, b.run_id))
                       OR EXISTS (SELECT FROM children c WHERE c.tenant_id = $1 AND c.run_id = $2 AND c.told_at IS NULL)
                   AS "awaited!",
                   EXISTS (SELECT FROM run_queue q WHERE q.tenant_id = r.tenant_id AND q.run_id = r.run_id) AS "held!"
               FROM runs r WHERE tenant_id = $1 AND run_id = $2"#,
            tenant,
            run_id.0,
            &below,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        match found {
            None => Ok(RunDeleted::Unknown),
            Some(found) if !found.ended => Ok(RunDeleted::NotEnded),
            Some(found) if found.held => Ok(RunDeleted::CallsOut),
            Some(found) if found.awaited => Ok(RunDeleted::Awaited),
            Some(found) if !found.can_go => Ok(RunDeleted::StoodOn),
            Some(_) => {
                self.runs_take_away(&all).await?;
                self.act(Action::RunDelete, run_id, json!({"runs": all.len()}));
                // Whoever watches them looks, and finds that there is nothing left to watch.
                all.into_iter().for_each(|run| self.announce(Signal::Progress(run)));
                Ok(RunDeleted::Deleted)
            }
        }
    }

    /// Deletes those of these runs that can go and that nobody is busy with; gives how many.
    pub(crate) async fn runs_delete(&mut self, runs: &[Uuid]) -> Result<u64> {
        let tenant = self.tenant();
        let found =
            sqlx::query!("SELECT FROM tenants WHERE tenant_id = $1 FOR KEY SHARE SKIP LOCKED", tenant)
                .fetch_optional(self.conn())
                .await
                .map_err(store_error)?;
        if found.is_none() {
            return Ok(0);
        }
        let locked = sqlx::query_scalar!(
            "SELECT run_id FROM run_states WHERE tenant_id = $1 AND run_id = ANY($2) ORDER BY run_id FOR UPDATE SKIP LOCKED",
            tenant,
            runs,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        self.heirs_hold_off(&locked).await?;
        let going = sqlx::query_scalar!(
            "SELECT run_id FROM runs
             WHERE tenant_id = $1 AND run_id = ANY($2) AND finished_at IS NOT NULL AND run_can_go(tenant_id, run_id)",
            tenant,
            &locked,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        if !going.is_empty() {
            self.runs_take_away(&going).await?;
        }
        Ok(going.len() as u64)
    }

    /// From here on no run begins to stand on these, or to rely on their effects; those that have begun are waited for.
    /// What is asked after this, in a statement of its own, sees them.
    async fn heirs_hold_off(&mut self, runs: &[Uuid]) -> Result<()> {
        let tenant = self.tenant();
        for lock in [
            sqlx::query!(
                "SELECT FROM runs WHERE tenant_id = $1 AND run_id = ANY($2) ORDER BY run_id FOR UPDATE",
                tenant,
                runs
            ),
            sqlx::query!(
                "SELECT FROM ledger WHERE tenant_id = $1 AND run_id = ANY($2) ORDER BY ledger_id FOR UPDATE",
                tenant,
                runs
            ),
        ] {
            lock.execute(self.conn()).await.map_err(store_error)?;
        }
        Ok(())
    }

    /// Deletes runs that have ended and are locked.
    async fn runs_take_away(&mut self, runs: &[Uuid]) -> Result<()> {
        self.entries_keep(runs).await?;
        let relied_on = self.entries_relied_on(runs).await?;
        self.requests_forget(runs).await?;
        let workspaces = self.workspaces_of(runs).await?;
        let tenant = self.tenant();
        for elsewhere in [
            sqlx::query!("DELETE FROM events WHERE tenant_id = $1 AND run_id = ANY($2)", tenant, runs),
            sqlx::query!("DELETE FROM journal WHERE tenant_id = $1 AND run_id = ANY($2)", tenant, runs),
            sqlx::query!("DELETE FROM deliveries WHERE tenant_id = $1 AND run_id = ANY($2)", tenant, runs),
            sqlx::query!(
                "DELETE FROM grants WHERE tenant_id = $1 AND scope = 'run' AND scope_id = ANY($2)",
                tenant,
                runs
            ),
            // That it was started stays known.
            sqlx::query!(
                "UPDATE schedule_firings SET run_id = NULL WHERE tenant_id = $1 AND run_id = ANY($2)",
                tenant,
                runs
            ),
            // Those that they called and that are kept longer are nobody's from here on.
            sqlx::query!(
                "UPDATE children SET parent_run_id = NULL WHERE tenant_id = $1 AND parent_run_id = ANY($2)",
                tenant,
                runs
            ),
            // All else refers to the run and goes with it.
            sqlx::query!("DELETE FROM runs WHERE tenant_id = $1 AND run_id = ANY($2)", tenant, runs),
        ] {
            elsewhere.execute(self.conn()).await.map_err(store_error)?;
        }
        self.workspaces_leave(&workspaces).await?;
        self.entries_drop(&relied_on).await
    }

    /// Entries that others rely on stay, as bare facts: of writes with a business key, and of writes that a run which stands
    /// on these may take.
    async fn entries_keep(&mut self, runs: &[Uuid]) -> Result<()> {
        let tenant = self.tenant();
        // None is open after a run's end. If one were, nobody would ever learn what became of it.
        sqlx::query!(
            "UPDATE ledger l SET run_id = NULL, resolution = NULL,
                 status = CASE WHEN status = 'started' THEN 'uncertain' ELSE status END,
                 side_effect = CASE WHEN status = 'started' THEN 'possible' ELSE side_effect END,
                 error_code = CASE WHEN status = 'started' THEN 'SIDE_EFFECT_UNCERTAIN' ELSE error_code END,
                 finished_at = coalesce(finished_at, now())
             WHERE tenant_id = $1 AND run_id = ANY($2) AND writes AND (business_key OR EXISTS (
                 SELECT FROM inherited_effects i WHERE i.tenant_id = l.tenant_id AND i.ledger_id = l.ledger_id
                     AND i.run_id <> ALL($2)))",
            tenant,
            runs,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// Bare entries that these runs may take effects from.
    async fn entries_relied_on(&mut self, runs: &[Uuid]) -> Result<Vec<Uuid>> {
        let tenant = self.tenant();
        sqlx::query_scalar!(
            "SELECT ledger_id FROM ledger l WHERE tenant_id = $1 AND run_id IS NULL AND NOT business_key
                 AND ledger_id IN (SELECT ledger_id FROM inherited_effects WHERE tenant_id = $1 AND run_id = ANY($2))
             ORDER BY ledger_id FOR UPDATE",
            tenant,
            runs,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// Drops those of these bare entries that nobody relies on any more.
    async fn entries_drop(&mut self, entries: &[Uuid]) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let tenant = self.tenant();
        sqlx::query!(
            "DELETE FROM ledger l WHERE tenant_id = $1 AND ledger_id = ANY($2) AND NOT EXISTS (
                 SELECT FROM inherited_effects i WHERE i.tenant_id = l.tenant_id AND i.ledger_id = l.ledger_id)",
            tenant,
            entries,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// Answers that tell of the runs are gone; their keys stay taken, or a request that is sent once more would start
    /// such a run again. An answer to many decisions goes whole: deciding them again changes nothing.
    async fn requests_forget(&mut self, runs: &[Uuid]) -> Result<()> {
        let tenant = self.tenant();
        sqlx::query!(
            "UPDATE idempotency_keys SET run_id = NULL, status = 404, headers = NULL, body = NULL
             WHERE tenant_id = $1 AND run_id = ANY($2)",
            tenant,
            runs,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        let named: Vec<String> = runs.iter().map(|run| RunId(*run).to_string()).collect();
        sqlx::query!(
            "DELETE FROM idempotency_keys WHERE tenant_id = $1 AND route = 'POST /v1/approvals/decisions'
                 AND EXISTS (SELECT FROM unnest($2::text[]) AS run WHERE position(run IN body) > 0)",
            tenant,
            &named,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }
}
