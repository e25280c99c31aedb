//! Each kind of tool has its executor.

use std::sync::Arc;

use answerable_core::agent::ToolKind;
use answerable_core::id::CallId;
use answerable_core::tool::{Attempt, ErrorCode};
use answerable_ports::{Came, PreparedCall, ToolExecutor};
use async_trait::async_trait;

/// Gives each call to the executor of its tool's kind. Calls of clients and agents are no executor's: their runs wait.
#[derive(Default)]
pub struct ByKind {
    http: Option<Arc<dyn ToolExecutor>>,
    mcp: Option<Arc<dyn ToolExecutor>>,
    workspace: Option<Arc<dyn ToolExecutor>>,
    shell: Option<Arc<dyn ToolExecutor>>,
}

impl ByKind {
    /// Nothing runs yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tools of `kind` are run by `executor`.
    #[must_use]
    pub fn with(mut self, kind: ToolKind, executor: Arc<dyn ToolExecutor>) -> Self {
        let place = match kind {
            ToolKind::Http => &mut self.http,
            ToolKind::Mcp => &mut self.mcp,
            ToolKind::Workspace => &mut self.workspace,
            ToolKind::Shell => &mut self.shell,
            ToolKind::Client | ToolKind::Agent => return self,
        };
        *place = Some(executor);
        self
    }

    fn of(&self, kind: ToolKind) -> Option<&Arc<dyn ToolExecutor>> {
        match kind {
            ToolKind::Http => self.http.as_ref(),
            ToolKind::Mcp => self.mcp.as_ref(),
            ToolKind::Workspace => self.workspace.as_ref(),
            ToolKind::Shell => self.shell.as_ref(),
            ToolKind::Client | ToolKind::Agent => None,
        }
    }
}

#[async_trait]
impl ToolExecutor for ByKind {
    async fn run(&self, call: &PreparedCall) -> Came {
        match self.of(call.tool.kind) {
            Some(executor) => executor.run(call).await,
            None => {
                let message = "This server can't run tools of this kind; nothing was done.".into();
                Attempt::Refused(ErrorCode::Unavailable, message).into()
            }
        }
    }

    fn call_off(&self, call: CallId) {
        let all = [&self.http, &self.mcp, &self.workspace, &self.shell];
        all.into_iter().flatten().for_each(|executor| executor.call_off(call));
    }
}
