//! MCP servers, and tenants who call their tools.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use answerable_core::agent::{McpTool, ToolDefaults, ToolSpec};
use answerable_core::id::{ArtifactId, CallId, RunId, TenantId, WorkspaceId};
use answerable_core::tool::{Attempt, Output};
use answerable_ports::{
    Came, ListedTool, McpFault, McpPlace, McpServers, McpTarget, PreparedCall, StoreError, ToolExecutor,
    ToolSource,
};
use answerable_testkit::{McpServer, ScriptedMcp};
use answerable_tools::{Allow, GuardedClient, McpLimits, McpTools, StdioCommand};
use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::{Value, json};
use uuid::Uuid;

/// What the tenants' servers are: settings by tenant and name.
#[derive(Default)]
pub(super) struct Settings(Mutex<BTreeMap<(Uuid, String), McpTarget>>);

#[async_trait]
impl McpServers for Settings {
    async fn mcp_target(&self, tenant_id: TenantId, name: &str) -> Result<Option<McpTarget>, StoreError> {
        match name {
            "away" => Err(StoreError::Away("the database".into())),
            "broken" => Err(StoreError::Broken("the database".into())),
            _ => Ok(self.0.lock().expect("no panic").get(&(tenant_id.0, name.to_owned())).cloned()),
        }
    }
}

pub(super) struct World {
    pub(super) far: ScriptedMcp,
    pub(super) tools: McpTools,
    settings: Arc<Settings>,
}

pub(super) fn tenant(number: u128) -> TenantId {
    TenantId(Uuid::from_u128(number))
}

/// Sessions are closed when nobody used them for so long.
pub(super) fn idle(ms: u64) -> McpLimits {
    McpLimits { idle: Duration::from_millis(ms), ..McpLimits::default() }
}

/// The key with which a tenant calls its servers.
pub(super) fn key(number: u128) -> String {
    format!("Bearer sk-tenant-{number}-canary")
}

impl World {
    pub(super) async fn start() -> Self {
        Self::with(BTreeMap::new(), McpLimits::default()).await
    }

    pub(super) async fn with(commands: BTreeMap<String, StdioCommand>, limits: McpLimits) -> Self {
        let client = GuardedClient::new(Allow::parse("127.0.0.0/8").expect("a list")).expect("a client");
        let settings = Arc::new(Settings::default());
        let world = Self {
            far: ScriptedMcp::start().await.expect("a server"),
            tools: McpTools::with_limits(client, settings.clone(), commands, limits),
            settings,
        };
        world.set(1, "files", &world.far.url("files"));
        world
    }

    /// The server that tenant 1 knows as `files`.
    pub(super) fn files(&self) -> Arc<McpServer> {
        self.far.server("files")
    }

    /// A tenant's server is there, and the tenant calls it with its key.
    pub(super) fn set(&self, number: u128, name: &str, url: &str) {
        let headers = BTreeMap::from([("authorization".to_owned(), SecretString::from(key(number)))]);
        self.put(number, name, McpPlace::Url { url: url.to_owned(), headers }, 5000, "1");
    }

    pub(super) fn put(&self, number: u128, name: &str, place: McpPlace, timeout_ms: u64, version: &str) {
        let tenant_id = tenant(number);
        self.store(McpTarget {
            tenant_id,
            name: name.into(),
            place,
            secrets: Vec::new(),
            missing: None,
            timeout_ms,
            version: version.into(),
        });
    }

    /// A tenant's settings as they are.
    pub(super) fn target(&self, number: u128, name: &str) -> McpTarget {
        self.settings.0.lock().expect("no panic")[&(tenant(number).0, name.to_owned())].clone()
    }

    /// The tenant's settings are these.
    pub(super) fn store(&self, target: McpTarget) {
        self.settings.0.lock().expect("no panic").insert((target.tenant_id.0, target.name.clone()), target);
    }

    /// A call of a tenant's tool.
    pub(super) fn prepared(&self, number: u128, server: &str, tool: &str, input: Value) -> PreparedCall {
        let at = McpTool { server: server.into(), tool: tool.into() };
        let name = format!("{server}__{tool}");
        let spec = ToolDefaults { timeout_ms: Some(5000), ..ToolDefaults::default() };
        prepared(number, spec.tool(name, String::new(), json!({"type": "object"}), at), input)
    }

    pub(super) async fn run(&self, call: &PreparedCall) -> Came {
        self.tools.run(call).await
    }

    /// What comes of a plain call of tenant 1's `files`.
    pub(super) async fn call(&self, tool: &str, input: Value) -> Attempt {
        self.run(&self.prepared(1, "files", tool, input)).await.attempt
    }

    pub(super) async fn list(&self) -> Result<Vec<ListedTool>, McpFault> {
        self.tools.list(tenant(1), "files").await
    }

    pub(super) fn changes(&self) -> u64 {
        self.tools.changes(tenant(1), "files")
    }
}

fn prepared(number: u128, tool: ToolSpec, input: Value) -> PreparedCall {
    PreparedCall {
        tenant_id: tenant(number),
        run_id: RunId(Uuid::from_u128(21)),
        workspace_id: WorkspaceId(Uuid::from_u128(24)),
        call_id: CallId(Uuid::from_u128(22)),
        tool,
        input,
        context: json!({}),
        idempotency_key: "key-1".into(),
        attempt: 1,
        secrets: BTreeMap::new(),
        signing_secrets: Vec::new(),
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
        artifact_id: ArtifactId(Uuid::from_u128(23)),
    }
}

/// What a call that succeeded said.
pub(super) fn output(attempt: Attempt) -> Output {
    if let Attempt::Succeeded(output) = attempt { output } else { panic!("{attempt:?}") }
}

pub(super) fn names(tools: &[ListedTool]) -> Vec<&str> {
    tools.iter().map(|tool| tool.name.as_str()).collect()
}
