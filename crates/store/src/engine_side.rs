//! [`RunStore`]: the engine's side of the store, put together from the resources.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use answerable_core::id::{AgentId, ArtifactId, LedgerId, TenantId};
use answerable_core::run::{KeyHolder, PinnedAgent};
use answerable_core::tool::{ErrorCode, ResultStatus, ToolResult};
use answerable_ports::commit::{Commit, CommitOutcome, Inbound};
use answerable_ports::store::Rules;
use answerable_ports::{
    Allowance, AllowanceWanted, ArtifactsKept, Claimed, Claims, LateOutcome, Lease, LoadedRun, ModelTarget,
    PlaceTaken, PlaceWanted, Placed, Renewal, Room, RunStore, Wake,
};
use async_trait::async_trait;
use secrecy::SecretString;
use uuid::Uuid;

use crate::commit::CommitWith;
use crate::error::store_error;
use crate::load::decode;
use crate::tx::TenantTx;
use crate::{Result, Store};

/// The store as the engine sees it.
#[derive(Debug, Clone)]
pub struct EngineStore {
    store: Store,
    public_url: String,
    export_spans: bool,
}

impl EngineStore {
    /// `public_url` leads to this service, for the links in what webhooks hear. `export_spans`: what is committed here
    /// is to be exported.
    pub fn new(store: Store, public_url: String, export_spans: bool) -> Self {
        Self { store, public_url, export_spans }
    }
}

/// What the ledger alone says of an earlier call, where its result isn't kept or was written before it was clear.
pub(crate) fn as_the_ledger_has_it(status: &str, side_effect: &str) -> ToolResult {
    let (status, code, words) = match status {
        "succeeded" => {
            (ResultStatus::Succeeded, None, "It was done by an earlier call; its answer was not kept.")
        }
        "failed" if side_effect != "none" => (
            ResultStatus::Failed,
            Some(ErrorCode::Unavailable),
            "An earlier call ended without an answer. What it had changed by then stays changed, and it is not made again.",
        ),
        "failed" => (
            ResultStatus::Failed,
            Some(ErrorCode::Unavailable),
            "An earlier call was not done, and it is not sent again.",
        ),
        _ => (
            ResultStatus::Uncertain,
            Some(ErrorCode::SideEffectUncertain),
            "An earlier call may have happened or not, and can't be told. Don't assume either.",
        ),
    };
    ToolResult::without_run(status, code, words)
}

/// A result that was written before it was clear what became of the call, by what the ledger says now.
pub(crate) fn as_it_turned_out(result: ToolResult, ledger: &str, side_effect: &str) -> ToolResult {
    match (result.status, ledger) {
        (ResultStatus::Cancelled, "failed") if side_effect != "none" => {
            as_the_ledger_has_it(ledger, side_effect)
        }
        (ResultStatus::Cancelled | ResultStatus::Uncertain, "succeeded")
        | (ResultStatus::Uncertain, "failed")
        | (ResultStatus::Cancelled, "uncertain") => as_the_ledger_has_it(ledger, side_effect),
        _ => result,
    }
}

#[async_trait]
impl RunStore for EngineStore {
    async fn claim(&self, server: Uuid, room: &Room<'_>, lease_for: Duration) -> Result<Claims> {
        self.store.claim(server, room, lease_for).await
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

    async fn put_back(&self, server: Uuid, held: &[Uuid]) -> Result<u64> {
        self.store.put_back(server, held).await
    }

    async fn renew(&self, server: Uuid, leases: &[Lease], lease_for: Duration) -> Result<Renewal> {
        self.store.renew(server, leases, lease_for).await
    }

    async fn hand_back(&self, lease: Lease, wake: Wake, known_inbox: i64) -> Result<()> {
        let mut tx = self.store.working(lease.tenant_id).await?;
        tx.hand_back(lease, wake, known_inbox).await?;
        tx.commit().await
    }

    async fn load(&self, lease: Lease) -> Result<Option<LoadedRun>> {
        self.store.working(lease.tenant_id).await?.run_load(lease).await
    }

    async fn commit(&self, lease: Lease, seq: i64, commit: Commit, id: Uuid) -> Result<CommitOutcome> {
        let with = CommitWith { public_url: &self.public_url, export_spans: self.export_spans };
        self.store.commit_run(lease, seq, commit, id, &with).await
    }

    async fn inbox(&self, lease: Lease, after: i64) -> Result<Vec<Inbound>> {
        self.store.working(lease.tenant_id).await?.inbox_after(lease.run_id.0, after).await
    }

    async fn rules(&self, lease: Lease, thread_id: Option<Uuid>, agent_id: Option<Uuid>) -> Result<Rules> {
        self.store.working(lease.tenant_id).await?.rules_fetch(lease.run_id, thread_id, agent_id).await
    }

    async fn model_target(&self, tenant_id: TenantId, name: &str) -> Result<Option<ModelTarget>> {
        self.store.working(tenant_id).await?.provider_open(name).await
    }

    async fn artifacts_kept(&self, lease: Lease) -> Result<ArtifactsKept> {
        self.store.working(lease.tenant_id).await?.artifacts_kept(lease.run_id).await
    }

    async fn artifacts(
        &self,
        tenant_id: TenantId,
        ids: &[ArtifactId],
    ) -> Result<BTreeMap<ArtifactId, Arc<[u8]>>> {
        self.store.working(tenant_id).await?.artifacts_load(ids).await
    }

    async fn secrets(&self, tenant_id: TenantId, names: &[String]) -> Result<BTreeMap<String, SecretString>> {
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        self.store.working(tenant_id).await?.secrets_open(names).await
    }

    async fn signing_secrets(&self, tenant_id: TenantId) -> Result<Vec<SecretString>> {
        let mut tx = self.store.working(tenant_id).await?;
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
        self.store.working(tenant_id).await?.key_holder(tool_name, key, input_hash).await
    }

    async fn earlier_effect(
        &self,
        lease: Lease,
        tool_name: &str,
        input_hash: &str,
    ) -> Result<Option<std::result::Result<KeyHolder, ()>>> {
        self.store.working(lease.tenant_id).await?.effect_find(lease.run_id.0, tool_name, input_hash).await
    }

    async fn take_allowance(&self, lease: Lease, wanted: AllowanceWanted) -> Result<Allowance> {
        let mut tx = self.store.working(lease.tenant_id).await?;
        let allowance = tx.allowance_take(lease, wanted).await?;
        tx.commit().await?;
        Ok(allowance)
    }

    async fn take_place(&self, lease: Lease, wanted: &PlaceWanted) -> Result<Placed> {
        let mut tx = self.store.working(lease.tenant_id).await?;
        let placed = tx.place_take(lease, wanted).await?;
        tx.commit().await?;
        Ok(placed)
    }

    async fn free_place(&self, lease: Lease, place: &PlaceTaken, left: bool) -> Result<()> {
        let mut tx = self.store.working(lease.tenant_id).await?;
        tx.place_free(lease, place, left).await?;
        tx.commit().await
    }

    async fn places(&self, lease: Lease) -> Result<Vec<PlaceTaken>> {
        self.store.working(lease.tenant_id).await?.place_list(lease.run_id).await
    }

    async fn late_outcome(&self, lease: Lease, late: &LateOutcome) -> Result<bool> {
        let mut tx = self.store.working(lease.tenant_id).await?;
        let written = tx.late_outcome(lease.run_id, late).await?;
        tx.commit().await?;
        Ok(written)
    }

    async fn settle_ended(&self, lease: Lease) -> Result<()> {
        let mut tx = self.store.working(lease.tenant_id).await?;
        tx.settle_ended(lease).await?;
        tx.commit().await?;
        self.store.children_hear(lease.tenant_id, Some(lease.run_id), &[]).await;
        Ok(())
    }

    async fn called_agent(
        &self,
        tenant_id: TenantId,
        agent: AgentId,
        version: Option<u32>,
    ) -> Result<std::result::Result<PinnedAgent, String>> {
        self.store.working(tenant_id).await?.called_agent(agent, version).await
    }

    async fn tell_children(&self) -> Result<u64> {
        self.store.children_sweep().await
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
            r#"SELECT l.ledger_id, l.input_hash, l.status, l.side_effect, l.run_id IS NULL AS "is_bare!", c.result AS "result?"
               FROM ledger l LEFT JOIN calls c ON c.tenant_id = l.tenant_id AND c.call_id = l.call_id
               WHERE l.tenant_id = $1 AND l.tool_name = $2 AND l.idempotency_key = $3 AND l.business_key"#,
            self.tenant(),
            tool_name,
            key,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let Some(row) = row else { return Ok(None) };
        let same_input = row.input_hash == input_hash;
        if row.is_bare {
            let result = as_the_ledger_has_it(&row.status, &row.side_effect);
            return Ok(Some(Ok(KeyHolder {
                ledger_id: LedgerId(row.ledger_id),
                same_input,
                result,
                inherited: false,
            })));
        }
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
                    |result| as_it_turned_out(result, &row.status, &row.side_effect),
                ),
                inherited: false,
            }),
        }))
    }
}
