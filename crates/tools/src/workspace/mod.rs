//! Tools of kind `workspace`: the files of a run's workspace, and its artifacts (contract, "Workspaces").
//!
//! `read`, `list`, `search` and `artifact` show; `write` and `edit` change, each under the versions that the run has
//! seen. A change is stored together with its call's output, so the same call sent again changes nothing and answers the
//! same.

mod artifact;
mod edit;
mod input;
mod list;
mod near;
mod page;
mod read;
mod search;
mod write;

use std::sync::Arc;
use std::time::Duration;

use answerable_core::tool::{Attempt, ErrorCode, Output};
use answerable_core::workspace::PathFault;
use answerable_ports::{
    Came, PreparedCall, StoreError, StoredArtifact, ToolExecutor, Workspace, WorkspaceStore,
};
use async_trait::async_trait;
use tokio::sync::Semaphore;

/// Files that are looked through for patterns at once.
const SEARCHES: usize = 4;

/// Runs tools of kind `workspace`.
#[derive(Clone)]
pub struct WorkspaceTools {
    files: Arc<dyn WorkspaceStore>,
    searches: Arc<Semaphore>,
}

impl WorkspaceTools {
    /// Over these files.
    #[must_use]
    pub fn new(files: Arc<dyn WorkspaceStore>) -> Self {
        Self { files, searches: Arc::new(Semaphore::new(SEARCHES)) }
    }
}

#[async_trait]
impl ToolExecutor for WorkspaceTools {
    async fn run(&self, call: &PreparedCall) -> Came {
        let (files, searches) = (&*self.files, &self.searches);
        let one = One { files, searches, call, workspace: workspace_of(call) };
        let limit = Duration::from_millis(call.tool.timeout_ms());
        let done = tokio::time::timeout(limit, one.run()).await;
        done.unwrap_or_else(|_| {
            let message = format!("not done within {} ms", call.tool.timeout_ms());
            Err(Attempt::Unclear(ErrorCode::Timeout, message))
        })
        .unwrap_or_else(Came::from)
    }
}

fn workspace_of(call: &PreparedCall) -> Workspace {
    Workspace { tenant_id: call.tenant_id, workspace_id: call.workspace_id }
}

/// What came of a call: an answer, or why there is none.
type Done<T = Came> = Result<T, Attempt>;

/// One call.
struct One<'c> {
    files: &'c dyn WorkspaceStore,
    searches: &'c Arc<Semaphore>,
    call: &'c PreparedCall,
    workspace: Workspace,
}

impl One<'_> {
    async fn run(&self) -> Done {
        match self.call.tool.name.as_str() {
            "read_file" => self.read_file().await,
            "write_file" => self.write_file().await,
            "edit_file" => self.edit_file().await,
            "list_files" => self.list_files().await,
            "search_files" => self.search_files().await,
            "read_artifact" => self.read_artifact().await,
            name => Err(refused(ErrorCode::NotFound, format!("there is no tool {name} of this kind"))),
        }
    }

    /// Text under the tool's output limit, and the whole of it where that is longer.
    fn answer(&self, text: String) -> Came {
        let output = Output::limited(&text, &self.call.tool.output, self.call.artifact_id);
        let kept = output.needs_artifact().then(|| StoredArtifact {
            id: self.call.artifact_id,
            call_id: self.call.call_id,
            media_type: "text/plain; charset=utf-8".into(),
            content: text.into(),
        });
        Came { attempt: Attempt::Succeeded(output), artifacts: kept.into_iter().collect() }
    }
}

/// Work that takes a while, where nobody else waits for it.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Done<T> + Send + 'static) -> Done<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a call broke off");
        Err(refused(ErrorCode::Internal, "the server could not do it; nothing was changed"))
    })
}

fn refused(code: ErrorCode, message: impl Into<String>) -> Attempt {
    Attempt::Refused(code, message.into())
}

fn no_path(fault: PathFault) -> Attempt {
    refused(ErrorCode::InvalidArguments, fault.to_string())
}

/// The store didn't answer, and nothing can have been changed.
fn not_asked(error: StoreError) -> Attempt {
    match error {
        StoreError::Away(why) => {
            tracing::warn!(why, "a file could not be reached");
            Attempt::NotDone(ErrorCode::Unavailable, "the files can't be reached at the moment".into(), None)
        }
        StoreError::Broken(why) => {
            tracing::error!(why, "a file could not be read");
            refused(ErrorCode::Internal, "the server could not do it; nothing was changed")
        }
    }
}
