//! Tools of MCP servers, from the list that a run reads to what becomes of it in heirs, replays and exports.

mod kept;
mod lists;
mod settings;
mod stands_on;

use answerable_testkit::{McpServer, ScriptedMcp};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::harness::{With, World};

/// The scripted servers of one test.
pub(crate) struct Mcp(ScriptedMcp);

impl Mcp {
    pub(crate) async fn start() -> Self {
        Self(ScriptedMcp::start().await.expect("a port"))
    }

    /// Where a server of this name is.
    pub(crate) fn url(&self, name: &str) -> String {
        self.0.url(name)
    }

    /// A server that the world's tenant knows under this name, with tools of these names.
    pub(crate) async fn server(&self, world: &World, name: &str, tools: &[&str]) -> Arc<McpServer> {
        let body = json!({"url": self.0.url(name), "headers": {"authorization": "Bearer sk-canary"}});
        world.client.put(&format!("/v1/mcp_servers/{name}"), &body).await.ok();
        let server = self.0.server(name);
        server.offers(tools.iter().map(|tool| json!({"name": tool, "description": format!("does {tool}")})));
        server
    }
}

/// An agent that takes all tools of a server.
pub(crate) fn takes(world: &World, server: &str, defaults: Value) -> Value {
    world.agent(&[]).with(json!({"mcp": [{"server": server, "allow": ["*"], "defaults": defaults}]}))
}

/// Its tools read only.
pub(crate) fn reads() -> Value {
    json!({"side_effect": "none"})
}
