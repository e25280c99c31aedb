//! What becomes known of a call when its run doesn't wait for it any more: the run has ended, or another server has it.

use answerable_core::id::{CallId, RunId};
use answerable_core::ledger::{EntryStatus, Outcome};
use answerable_core::run::RunState;
use answerable_ports::commit::{DecisionWord, StoredArtifact};
use answerable_ports::{LateOutcome, Lease, Signal};

use crate::Result;
use crate::error::store_error;
use crate::ledger::{LedgerRecord, Resolve, asking};
use crate::tx::TenantTx;

impl TenantTx {
    /// Writes down what became of a call; `false`: its run's new owner has not yet said what it takes the call for, so it is
    /// too early. What a person settled, or a later attempt made of it, stays.
    pub(crate) async fn late_outcome(&mut self, run_id: RunId, late: &LateOutcome) -> Result<bool> {
        let Some(locked) = self.run_lock(run_id).await? else { return Ok(true) };
        let Some(entry) = self.ledger_lock(run_id, late.ledger_id).await? else { return Ok(true) };
        let attempts = i32::try_from(late.attempts).unwrap_or(i32::MAX);
        if entry.resolution.is_some() || entry.attempts > attempts {
            return Ok(true);
        }
        let is_open = match entry.status.as_str() {
            "started" if !locked.state.is_ended() => return Ok(false),
            "started" => true,
            "uncertain" => late.outcome.status != EntryStatus::Uncertain,
            _ => false,
        };
        if is_open {
            self.late_write(run_id, &locked.state, &entry, late).await?;
            self.announce(Signal::Progress(run_id.0));
        }
        Ok(true)
    }

    async fn late_write(
        &mut self,
        run_id: RunId,
        state: &RunState,
        entry: &LedgerRecord,
        late: &LateOutcome,
    ) -> Result<()> {
        let mut kept = self.artifacts_kept(run_id).await?;
        for artifact in &late.artifacts {
            if !kept.take(artifact.content.len() as u64) {
                tracing::warn!(%run_id, "a run's artifacts take all their room; a late one is left out");
                continue;
            }
            self.artifact_insert(run_id.0, CallId(entry.call_id), artifact).await?;
        }
        let Some(approval) = asking(state, entry.call_id) else {
            return self.ledger_close(entry, &late.outcome).await;
        };
        // A person is asked what nobody has to be asked any more.
        let resolve = Resolve {
            applied: late.outcome.status == EntryStatus::Succeeded,
            content: late.content.clone(),
            note: Some("its answer came late".into()),
            by: "runtime".into(),
        };
        self.ledger_settle(entry, &resolve).await?;
        let word = if resolve.applied { DecisionWord::Approve } else { DecisionWord::Deny };
        self.approval_follow(approval, word, &resolve.by).await?;
        self.settled_tell(run_id, entry.call_id, &resolve).await
    }

    async fn ledger_close(&mut self, entry: &LedgerRecord, outcome: &Outcome) -> Result<()> {
        let tenant = self.tenant();
        sqlx::query!(
            "UPDATE ledger SET status = $3, side_effect = $4, error_code = $5, finished_at = now()
             WHERE tenant_id = $1 AND ledger_id = $2",
            tenant,
            entry.ledger_id,
            outcome.status.as_str(),
            outcome.effect.as_str(),
            outcome.error_code.map(|code| code.as_str()),
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    async fn artifact_insert(
        &mut self,
        run: uuid::Uuid,
        call: CallId,
        artifact: &StoredArtifact,
    ) -> Result<()> {
        let bytes = i64::try_from(artifact.content.len()).unwrap_or(i64::MAX);
        sqlx::query!(
            "INSERT INTO artifacts (tenant_id, artifact_id, run_id, call_id, media_type, bytes, sha256, content, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, now())",
            self.tenant(),
            artifact.id.0,
            run,
            call.0,
            artifact.media_type,
            bytes,
            answerable_core::json::sha256_hex(&artifact.content),
            &artifact.content[..],
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// Nobody will learn any more what became of an ended run's calls: writes are uncertain, reads came to nothing.
    pub(crate) async fn settle_ended(&mut self, lease: Lease) -> Result<()> {
        let held = sqlx::query!(
            "DELETE FROM run_queue WHERE tenant_id = $1 AND run_id = $2 AND epoch = $3 AND ended",
            self.tenant(),
            lease.run_id.0,
            lease.epoch,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        if held.rows_affected() == 0 {
            return Ok(());
        }
        sqlx::query!(
            "UPDATE ledger SET finished_at = now(),
                 status = CASE WHEN writes THEN 'uncertain' ELSE 'failed' END,
                 side_effect = CASE WHEN writes THEN 'possible' ELSE 'none' END,
                 error_code = CASE WHEN writes THEN 'SIDE_EFFECT_UNCERTAIN' ELSE 'CANCELLED' END
             WHERE tenant_id = $1 AND run_id = $2 AND status = 'started'",
            self.tenant(),
            lease.run_id.0,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }
}
