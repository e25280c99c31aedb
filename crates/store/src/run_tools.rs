//! The tools of MCP servers that a run has: the newest list; its journal has all of them.

use answerable_core::agent::ToolSpec;
use answerable_core::id::RunId;
use uuid::Uuid;

use crate::Result;
use crate::error::{as_json, store_error};
use crate::load::decode;
use crate::tx::TenantTx;

impl TenantTx {
    /// What was listed last; nothing where nothing was.
    pub(crate) async fn run_tools_fetch(&mut self, run_id: RunId) -> Result<Vec<ToolSpec>> {
        let tools = sqlx::query_scalar!(
            "SELECT tools FROM run_tools WHERE tenant_id = $1 AND run_id = $2",
            self.tenant(),
            run_id.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        tools.map(|tools| decode(tools, "list of tools")).transpose().map(Option::unwrap_or_default)
    }

    /// The list takes the place of the last one.
    pub(crate) async fn run_tools_write(&mut self, run: Uuid, hash: &str, tools: &[ToolSpec]) -> Result<()> {
        sqlx::query!(
            "INSERT INTO run_tools (tenant_id, run_id, hash, tools) VALUES ($1, $2, $3, $4::text::json)
             ON CONFLICT (tenant_id, run_id) DO UPDATE SET hash = excluded.hash, tools = excluded.tools",
            self.tenant(),
            run,
            hash,
            as_json(tools)?,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }
}
