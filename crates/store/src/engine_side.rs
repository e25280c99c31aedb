//! [`RunStore`]: the engine's side of the store, put together from the resources.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use answerable_core::id::{CallId, LedgerId, TenantId};
use answerable_core::ledger::Outcome;
use answerable_core::run::KeyHolder;
use answerable_core::tool::{ErrorCode, ResultStatus, ToolResult};
use answerable_ports::commit::{Commit, CommitOutcome, Inbound, StoredArtifact};
use answerable_ports::store::Rules;
use answerable_ports::{Claimed, Lease, LoadedRun, ModelTarget, RunStore, Wake};
use async_trait::async_trait;
use secrecy::SecretString;
use uuid::Uuid;

use crate::error::store_error;
use crate::load::decode;
use crate::tx::TenantTx;
use crate::{Result, Store};

/// The store as the engine sees it.
#[derive(Debug, Clone)]
pub struct EngineStore {
    store: Store,
    public_url: String,
}

impl EngineStore {
    /// `public_url` leads to this service, for the links in what webhooks hear.
    pub fn new(store: Store, public_url: String) -> Self {
        Self { store, public_url }
    }
}

/// A result that was written before it was clear what became of the call, by what the ledger says now.
fn as_it_turned_out(result: ToolResult, ledger: &str) -> ToolResult {
    let was_open = matches!(result.status, ResultStatus::Cancelled | ResultStatus::Uncertain);
    match ledger {
        "succeeded" if was_open => ToolResult::without_run(
            ResultStatus::Succeeded,
            None,
            "It was done by an earlier call; its answer was not kept.",
        ),
        "failed" if result.status == ResultStatus::Uncertain => {
            let message = "An earlier call was not done, and it is not sent again.";
            ToolResult::without_run(ResultStatus::Failed, Some(ErrorCode::Unavailable), message)
        }
        "uncertain" if result.status == ResultStatus::Cancelled => {
            let message = "An earlier call may have happened or not, and can't be told. Don't assume either.";
            ToolResult::without_run(ResultStatus::Uncertain, Some(ErrorCode::SideEffectUncertain), message)
        }
        _ => result,
    }
}

#[async_trait]
impl RunStore for EngineStore {
    async fn claim(
        &self,
        server: Uuid,
        limit: usize,
        lease_for: Duration,
        pressing: bool,
    ) -> Result<Vec<Claimed>> {
        self.store.claim(server, limit, lease_for, pressing).await
    }

    async fn reclaim(
        &self,
        server: Uuid,
        limit: usize,
        lease_for: Duration,
        held: &[Uuid],
    ) -> Result<Vec<Claimed>> {
        self.store.reclaim(server, limit, lease_for, held).await
    }

    async fn renew(&self, server: Uuid, leases: &[Lease], lease_for: Duration) -> Result<BTreeSet<Uuid>> {
        self.store.renew(server, leases, lease_for).await
    }

    async fn hand_back(&self, lease: Lease, wake: Wake, known_inbox: i64) -> Result<()> {
        let mut tx = self.store.tenant(lease.tenant_id).await?;
        tx.hand_back(lease, wake, known_inbox).await?;
        tx.commit().await
    }

    async fn load(&self, lease: Lease) -> Result<Option<LoadedRun>> {
        self.store.tenant(lease.tenant_id).await?.run_load(lease).await
    }

    async fn commit(&self, lease: Lease, seq: i64, commit: Commit, id: Uuid) -> Result<CommitOutcome> {
        self.store.commit_run(lease, seq, commit, id, &self.public_url).await
    }

    async fn inbox(&self, lease: Lease, after: i64) -> Result<Vec<Inbound>> {
        self.store.tenant(lease.tenant_id).await?.inbox_after(lease.run_id.0, after).await
    }

    async fn rules(&self, lease: Lease, thread_id: Option<Uuid>, agent_id: Option<Uuid>) -> Result<Rules> {
        let mut tx = self.store.tenant(lease.tenant_id).await?;
        Ok(Rules {
            tenant_policy: tx.policy_fetch().await?.map(|(_, policy)| policy),
            grants: tx.grants_covering(lease.run_id.0, thread_id, agent_id).await?,
        })
    }

    async fn model_target(&self, tenant_id: TenantId, name: &str) -> Result<Option<ModelTarget>> {
        self.store.tenant(tenant_id).await?.provider_open(name).await
    }

    async fn secrets(&self, tenant_id: TenantId, names: &[String]) -> Result<BTreeMap<String, SecretString>> {
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        self.store.tenant(tenant_id).await?.secrets_open(names).await
    }

    async fn signing_secrets(&self, tenant_id: TenantId) -> Result<Vec<SecretString>> {
        let mut tx = self.store.tenant(tenant_id).await?;
        let secrets = tx.signing_secrets_open().await?;
        tx.commit().await?;
        Ok(secrets)
    }

    async fn key_holder(
        &self,
        tenant_id: TenantId,
        tool_name: &str,
        key: &str,
        input_hash: &str,
    ) -> Result<Option<std::result::Result<KeyHolder, ()>>> {
        self.store.tenant(tenant_id).await?.key_holder(tool_name, key, input_hash).await
    }

    async fn late_outcome(
        &self,
        lease: Lease,
        ledger_id: LedgerId,
        attempts: u32,
        outcome: Outcome,
        artifact: Option<StoredArtifact>,
    ) -> Result<()> {
        let mut tx = self.store.tenant(lease.tenant_id).await?;
        tx.late_outcome(lease.run_id.0, ledger_id, attempts, outcome, artifact).await?;
        tx.commit().await
    }

    async fn settle_ended(&self, lease: Lease) -> Result<()> {
        let mut tx = self.store.tenant(lease.tenant_id).await?;
        tx.settle_ended(lease).await?;
        tx.commit().await
    }
}

impl TenantTx {
    /// Who has a business key; `Err(())` inside: somebody whose call is still under way.
    async fn key_holder(
        &mut self,
        tool_name: &str,
        key: &str,
        input_hash: &str,
    ) -> Result<Option<std::result::Result<KeyHolder, ()>>> {
        let row = sqlx::query!(
            "SELECT l.ledger_id, l.input_hash, l.status, c.result
             FROM ledger l JOIN calls c ON c.tenant_id = l.tenant_id AND c.call_id = l.call_id
             WHERE l.tenant_id = $1 AND l.tool_name = $2 AND l.idempotency_key = $3 AND l.business_key",
            self.tenant(),
            tool_name,
            key,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let Some(row) = row else { return Ok(None) };
        let same_input = row.input_hash == input_hash;
        let result = row.result.map(|result| decode::<ToolResult>(result, "result")).transpose()?;
        Ok(Some(match result {
            // With another input it is a conflict whatever comes of the first.
            None if same_input => Err(()),
            Some(_) if same_input && row.status == "started" => Err(()),
            result => Ok(KeyHolder {
                ledger_id: LedgerId(row.ledger_id),
                same_input,
                result: result.map_or_else(
                    || ToolResult::without_run(ResultStatus::Failed, None, ""),
                    |result| as_it_turned_out(result, &row.status),
                ),
            }),
        }))
    }

    /// Writes down what became of a call whose run has ended, if its entry is still open.
    async fn late_outcome(
        &mut self,
        run: Uuid,
        ledger_id: LedgerId,
        attempts: u32,
        outcome: Outcome,
        artifact: Option<StoredArtifact>,
    ) -> Result<()> {
        let closed = sqlx::query_scalar!(
            "UPDATE ledger SET status = $3, side_effect = $4, error_code = $5, attempts = greatest(attempts, $6),
                 finished_at = now()
             WHERE tenant_id = $1 AND ledger_id = $2 AND status = 'started' RETURNING call_id",
            self.tenant(),
            ledger_id.0,
            outcome.status.as_str(),
            outcome.effect.as_str(),
            outcome.error_code.map(|code| code.as_str()),
            i32::try_from(attempts).unwrap_or(i32::MAX),
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        if let (Some(call), Some(artifact)) = (closed, artifact) {
            self.artifact_insert(run, CallId(call), &artifact).await?;
        }
        Ok(())
    }

    async fn artifact_insert(&mut self, run: Uuid, call: CallId, artifact: &StoredArtifact) -> Result<()> {
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
    async fn settle_ended(&mut self, lease: Lease) -> Result<()> {
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
