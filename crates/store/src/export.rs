//! All that a tenant has, kind by kind and page by page, for taking it away. Nothing that is sealed or hashed leaves, and
//! neither does what servers keep for themselves.

mod files;
mod paging;
mod runs;
mod settings;

use answerable_core::audit::Action;
use answerable_core::id::TenantId;
use serde_json::json;
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::tenants::tenant_hold;
use crate::tx::{SystemTx, TenantTx};

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal of $table:literal;)*) => {
        /// What an export holds, in its order. Each kind is the rows of one table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ExportKind {
            $($(#[$doc])* $name,)*
        }

        impl ExportKind {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// As it is written.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The table whose rows it is.
            pub fn table(self) -> &'static str {
                match self { $(Self::$name => $table,)* }
            }
        }
    };
}

kinds! {
    /// The tenant itself.
    Tenant = "tenant" of "tenants";
    /// A key, without its secret.
    Key = "key" of "api_keys";
    /// A provider, without its key and the values of its headers.
    Provider = "provider" of "providers";
    /// A secret's name.
    Secret = "secret" of "secrets";
    /// A secret that signs tool calls: that there is one.
    SigningSecret = "signing_secret" of "signing_secrets";
    /// An MCP server, without the values of its headers.
    McpServer = "mcp_server" of "mcp_servers";
    /// The policy that holds.
    Policy = "policy" of "tenant_policies";
    /// Each policy that ever held.
    PolicyVersion = "policy_version" of "tenant_policy_versions";
    /// What an agent is, by its hash; also one that came with a run.
    AgentSpec = "agent_spec" of "agent_specs";
    /// An agent.
    Agent = "agent" of "agents";
    /// A version of one.
    AgentVersion = "agent_version" of "agent_versions";
    /// A webhook, without its signing secret.
    Webhook = "webhook" of "webhooks";
    /// A schedule.
    Schedule = "schedule" of "schedules";
    /// What became of one of its due times.
    ScheduleFiring = "schedule_firing" of "schedule_firings";
    /// A thread, also a deleted one.
    Thread = "thread" of "threads";
    /// A run.
    Run = "run" of "runs";
    /// That a run was called by another.
    Child = "child" of "children";
    /// The tools of MCP servers that a run was told of.
    RunTools = "run_tools" of "run_tools";
    /// A message.
    Message = "message" of "messages";
    /// A step.
    Step = "step" of "steps";
    /// A call.
    Call = "call" of "calls";
    /// An entry of the ledger.
    LedgerEntry = "ledger_entry" of "ledger";
    /// An approval.
    Approval = "approval" of "approvals";
    /// A remembered approval.
    Grant = "grant" of "grants";
    /// What waits for a run.
    InboxItem = "inbox_item" of "inbox";
    /// An event.
    Event = "event" of "events";
    /// A checkpoint.
    Checkpoint = "checkpoint" of "checkpoints";
    /// An artifact; what it holds follows.
    Artifact = "artifact" of "artifacts";
    /// A workspace.
    Workspace = "workspace" of "workspaces";
    /// A file of one; what it holds follows.
    File = "file" of "workspace_files";
    /// A delivery to a webhook.
    Delivery = "delivery" of "deliveries";
    /// Usage of a day.
    UsageDay = "usage_day" of "usage_days";
    /// Usage of a run that is gone, from before there were days.
    PastUsage = "past_usage" of "past_usage";
    /// An entry of the record of who did what.
    AuditEntry = "audit_entry" of "audit";
}

/// Where a row stands among those of its kind; of what doesn't count in a kind's order it has the least there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportPlace {
    id: Uuid,
    number: i64,
    name: String,
}

impl Default for ExportPlace {
    /// Before all rows.
    fn default() -> Self {
        Self { id: Uuid::nil(), number: i64::MIN, name: String::new() }
    }
}

/// A row, as it leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportRow {
    id: Uuid,
    number: i64,
    name: String,
    /// Its JSON.
    pub data: String,
}

impl ExportRow {
    /// Where it stands.
    pub fn place(&self) -> ExportPlace {
        ExportPlace { id: self.id, number: self.number, name: self.name.clone() }
    }

    /// The id of an artifact or of a file's workspace.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// A file's path.
    pub fn path(&self) -> &str {
        &self.name
    }
}

impl TenantTx {
    /// Notes that all that the tenant has is taken away.
    pub fn export_begins(&mut self) {
        self.act(Action::TenantExport, self.tenant_id, json!({}));
    }

    /// Rows of a kind after a place, so many that they fit in memory many times over; none: that was all. `None`: the tenant is
    /// gone.
    ///
    /// # Errors
    /// The database is away.
    pub async fn export_page(
        &mut self,
        kind: ExportKind,
        after: &ExportPlace,
    ) -> Result<Option<Vec<ExportRow>>> {
        let is_there = sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM tenants WHERE tenant_id = $1) AS "is_there!""#,
            self.tenant()
        );
        if !is_there.fetch_one(self.conn()).await.map_err(store_error)? {
            return Ok(None);
        }
        let rows = match kind {
            ExportKind::Tenant
            | ExportKind::Key
            | ExportKind::Provider
            | ExportKind::Secret
            | ExportKind::SigningSecret
            | ExportKind::McpServer
            | ExportKind::Policy
            | ExportKind::PolicyVersion
            | ExportKind::AgentSpec
            | ExportKind::Agent
            | ExportKind::AgentVersion
            | ExportKind::Webhook
            | ExportKind::Schedule
            | ExportKind::ScheduleFiring => self.export_settings(kind, after).await?,
            ExportKind::Artifact
            | ExportKind::Workspace
            | ExportKind::File
            | ExportKind::Delivery
            | ExportKind::UsageDay
            | ExportKind::PastUsage
            | ExportKind::AuditEntry => self.export_files(kind, after).await?,
            _ => self.export_runs(kind, after).await?,
        };
        Ok(Some(rows))
    }
}

impl SystemTx {
    /// Notes that all that a tenant has is taken away by the operator; `false`: there is no such tenant.
    ///
    /// # Errors
    /// The database is away.
    pub async fn export_begins(&mut self, tenant: TenantId) -> Result<bool> {
        let is_there = tenant_hold(self.conn(), tenant.0).await?;
        if is_there {
            self.act_on(tenant, Action::TenantExport, tenant, json!({}));
        }
        Ok(is_there)
    }
}
