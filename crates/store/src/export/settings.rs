//! A tenant's settings, agents and schedules.

use super::paging::{FEW, MANY, by_id, by_id_and_number, by_name, by_number};
use super::{ExportKind, ExportPlace, ExportRow};
use crate::error::store_error;
use crate::tx::TenantTx;
use crate::{Result, StoreError};

impl TenantTx {
    pub(super) async fn export_settings(
        &mut self,
        kind: ExportKind,
        after: &ExportPlace,
    ) -> Result<Vec<ExportRow>> {
        let rows = match kind {
            ExportKind::Tenant => by_id!(
                self, after, MANY, "tenants", "tenant_id",
                "'ten_' || t.tenant_id AS id, t.name, t.quotas, t.trust_traceparent, t.created_at, t.suspended_at"
            ),
            ExportKind::Key => by_id!(
                self, after, MANY, "api_keys", "key_id",
                "'key_' || t.key_id AS id, t.name, t.scopes, t.expires_at, t.created_at, t.last_used_at, t.revoked_at, t.rotated_at,
                 t.previous_until, t.previous_used_at"
            ),
            ExportKind::Provider => by_name!(
                self, after, FEW, "providers", "name",
                "t.name, t.kind, t.base_url, t.has_api_key, t.header_names, t.prices, t.options, t.script, t.created_at,
                 t.updated_at"
            ),
            ExportKind::Secret => by_name!(
                self, after, MANY, "secrets", "name", "t.name, t.version, t.created_at, t.updated_at"
            ),
            ExportKind::SigningSecret => by_number!(
                self, after, MANY, "signing_secrets", "version", "t.version, t.created_at, t.valid_until"
            ),
            ExportKind::McpServer => by_name!(
                self, after, MANY, "mcp_servers", "name",
                "t.name, t.url, t.stdio, t.header_names, t.timeout_ms, t.created_at, t.updated_at"
            ),
            ExportKind::Policy => by_id!(
                self, after, FEW, "tenant_policies", "tenant_id", "t.version, t.policy, t.updated_at"
            ),
            ExportKind::PolicyVersion => by_number!(
                self, after, FEW, "tenant_policy_versions", "version", "t.version, t.policy, t.created_at, t.created_by"
            ),
            ExportKind::AgentSpec => {
                by_name!(self, after, FEW, "agent_specs", "spec_hash", "t.spec_hash, t.spec")
            }
            ExportKind::Agent => by_id!(
                self, after, MANY, "agents", "agent_id",
                "'agt_' || t.agent_id AS id, t.version, t.created_at, t.archived_at"
            ),
            ExportKind::AgentVersion => by_id_and_number!(
                self, after, MANY, "agent_versions", "agent_id", "version",
                "'agt_' || t.agent_id AS agent_id, t.version, t.spec_hash, t.created_at"
            ),
            ExportKind::Webhook => by_id!(
                self, after, MANY, "webhooks", "webhook_id",
                "'whk_' || t.webhook_id AS id, t.url, t.events, t.description, t.include_input, t.created_at, t.disabled_at,
                 t.disabled_reason, t.failing_since"
            ),
            ExportKind::Schedule => by_id!(
                self, after, FEW, "schedules", "schedule_id",
                "'sch_' || t.schedule_id AS id, t.name, t.cron, t.timezone, t.run, t.skip_if_running, t.metadata, t.created_by,
                 t.updated_by, t.created_at, t.updated_at, t.paused_at, t.next_at"
            ),
            ExportKind::ScheduleFiring => by_id_and_number!(
                self, after, MANY, "schedule_firings", "schedule_id", "ord",
                "'sch_' || t.schedule_id AS schedule_id, t.due_at, t.fired_at, t.outcome, t.triggered_by,
                 'run_' || t.run_id AS run_id, t.problem"
            ),
            _ => return Err(StoreError::Broken(format!("{kind:?} is no setting"))),
        };
        rows.map_err(store_error)
    }
}
