//! Approvals as they are shown. Deciding them is in [`crate::decisions`].

use answerable_core::id::{ApprovalId, RunId, TenantId};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::error::store_error;
use crate::links;
use crate::tx::{SystemTx, TenantTx};
use crate::{Result, Store};

/// An approval (contract, "Approvals").
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ApprovalRecord {
    /// Its id.
    pub approval_id: Uuid,
    /// Order of asking.
    pub ord: i64,
    /// Run.
    pub run_id: Uuid,
    /// The run's stored agent, if it has one.
    pub agent_id: Option<Uuid>,
    /// The run's thread.
    pub thread_id: Option<Uuid>,
    /// The call it is about; none for a budget.
    pub call_id: Option<Uuid>,
    /// Step.
    pub step: i32,
    /// `tool_call`, `uncertain_effect` or `budget`.
    pub kind: String,
    /// Tool.
    pub tool_name: Option<String>,
    /// The input that people are asked about: the model's own, or, where they are asked anew, what a person made of it.
    pub input: Option<Value>,
    /// What a person put in its place.
    pub edited_input: Option<Value>,
    /// Hash of the input it is bound to.
    pub input_hash: Option<String>,
    /// Hash of the tool as it was when they were asked; none in older rows.
    pub tool_version: Option<String>,
    /// The tool's risk.
    pub risk: Option<String>,
    /// Why people are asked.
    pub reason: String,
    /// `pending`, `approved`, `denied`, `expired` or `cancelled`.
    pub status: String,
    /// Different deciders that it takes.
    pub required: i32,
    /// Whoever started the run may approve, too.
    pub self_approval: bool,
    /// Votes so far: `{decision, by, at, of, key}`; `of` says for which input or answer.
    pub votes: Value,
    /// `approve`, `deny` or `answer`, once it is decided.
    pub decision: Option<String>,
    /// People have until then.
    pub expires_at: DateTime<Utc>,
    /// When they were asked.
    pub created_at: DateTime<Utc>,
    /// When it was decided.
    pub decided_at: Option<DateTime<Utc>>,
    /// Who decided.
    pub decided_by: Option<String>,
    /// When the call began by it.
    pub used_at: Option<DateTime<Utc>>,
    /// When it was found that it can't be used any more.
    pub voided_at: Option<DateTime<Utc>>,
    /// What had changed.
    pub void_reason: Option<String>,
    /// The void approval of the same call in whose place people were asked anew.
    pub replaces: Option<Uuid>,
}

impl TenantTx {
    /// All that a run asked for, oldest first, after place `after`.
    ///
    /// # Errors
    /// The database is away.
    pub async fn approval_list_of_run(
        &mut self,
        run_id: RunId,
        after: i64,
        limit: i64,
    ) -> Result<Vec<ApprovalRecord>> {
        let tenant = self.tenant();
        let ids = sqlx::query_scalar!(
            "SELECT approval_id FROM approvals WHERE tenant_id = $1 AND run_id = $2 AND ord > $3 ORDER BY ord LIMIT $4",
            tenant,
            run_id.0,
            after,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        self.approval_fetch_all(&ids).await
    }

    /// One approval.
    ///
    /// # Errors
    /// The database is away.
    pub async fn approval_fetch(&mut self, approval_id: ApprovalId) -> Result<Option<ApprovalRecord>> {
        Ok(self.approval_fetch_all(&[approval_id.0]).await?.pop())
    }

    /// Those of the approvals that exist, oldest first.
    pub(crate) async fn approval_fetch_all(&mut self, approvals: &[Uuid]) -> Result<Vec<ApprovalRecord>> {
        let tenant = self.tenant();
        sqlx::query_as!(
            ApprovalRecord,
            r#"SELECT a.approval_id, a.ord, a.run_id, r.agent_id, r.thread_id, a.call_id, a.step, a.kind, a.tool_name,
                   asked_input(a, c) AS input, a.edited_input, a.input_hash, a.tool_version, a.risk, a.reason, a.status,
                   a.required, a.self_approval, a.votes, a.decision, a.expires_at, a.created_at, a.decided_at, a.decided_by,
                   a.used_at, a.voided_at, a.void_reason,
                   (SELECT v.approval_id FROM approvals v
                    WHERE v.tenant_id = a.tenant_id AND v.run_id = a.run_id AND v.call_id = a.call_id AND v.ord < a.ord
                        AND v.voided_at IS NOT NULL
                    ORDER BY v.ord DESC LIMIT 1) AS replaces
               FROM approvals a JOIN runs r ON r.tenant_id = a.tenant_id AND r.run_id = a.run_id
               LEFT JOIN calls c ON c.tenant_id = a.tenant_id AND c.call_id = a.call_id
               WHERE a.tenant_id = $1 AND a.approval_id = ANY($2)
               ORDER BY a.ord"#,
            tenant,
            approvals,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }
}

/// Whose approval a link is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkedApproval {
    /// This tenant's, and the link still holds.
    Of(TenantId),
    /// The link's time is over.
    Expired,
    /// The link holds, and its tenant is suspended.
    Suspended,
    /// The link isn't ours, or not for this approval.
    Forged,
}

impl Store {
    /// What a decision link's token can't be good for any more by its own words: anybody may make tokens up, and these
    /// cost nothing.
    #[must_use]
    pub fn approval_link_refused(&self, token: &str) -> Option<LinkedApproval> {
        match links::read(token) {
            None => Some(LinkedApproval::Forged),
            Some(token) if token.expires_at <= self.clock().now() => Some(LinkedApproval::Expired),
            Some(_) => None,
        }
    }

    /// Looks at a decision link's token.
    ///
    /// # Errors
    /// The database is away.
    pub async fn approval_link(&self, approval_id: ApprovalId, token: &str) -> Result<LinkedApproval> {
        let Some(token) = links::read(token) else { return Ok(LinkedApproval::Forged) };
        let mut tx = self.system().await?;
        let Some((tenant_id, suspended, input_hash, now)) = tx.approval_tenant(approval_id).await? else {
            return Ok(LinkedApproval::Forged);
        };
        let hash = input_hash.unwrap_or_default();
        Ok(if !links::is_ours(self.sealer(), approval_id, &hash, &token) {
            LinkedApproval::Forged
        } else if token.expires_at <= now.timestamp_millis() {
            LinkedApproval::Expired
        } else if suspended {
            LinkedApproval::Suspended
        } else {
            LinkedApproval::Of(tenant_id)
        })
    }
}

impl SystemTx {
    /// Whose an approval is, whether that tenant is suspended, the hash that its link is bound to, and the database's clock.
    async fn approval_tenant(
        &mut self,
        approval_id: ApprovalId,
    ) -> Result<Option<(TenantId, bool, Option<String>, DateTime<Utc>)>> {
        let row = sqlx::query!(
            r#"SELECT a.tenant_id, t.suspended_at IS NOT NULL AS "suspended!", a.input_hash, clock_timestamp() AS "now!"
               FROM approvals a JOIN tenants t ON t.tenant_id = a.tenant_id WHERE a.approval_id = $1"#,
            approval_id.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        Ok(row.map(|row| (TenantId(row.tenant_id), row.suspended, row.input_hash, row.now)))
    }
}
