//! Workspaces: versioned files, as rows and contents that are named by their hash.
//!
//! `files` reads, `seen` knows what runs have seen and what their calls did, `write` makes changes under the workspace's
//! lock, `foreseen` knows before that they can't be made, `bounds` how much there may be, `contents` keeps what files hold,
//! `going` forgets and copies, `sweep` takes away what nobody needs any more.

mod acts;
mod bounds;
mod contents;
mod files;
mod foreseen;
mod going;
mod seen;
mod sweep;
mod write;

use std::sync::Arc;

use answerable_core::audit::Origin;
use answerable_core::id::{ArtifactId, CallId, RunId, TenantId};
use answerable_core::workspace::{FilePath, MAX_FILES, Seen};
use answerable_ports::{
    Author, BlobStore, CallOutcome, FileAt, FilesCommitted, Workspace, WorkspaceCommit, WorkspaceStore,
    given_at_once,
};
use async_trait::async_trait;
use bytes::Bytes;

use crate::tx::{Taker, TenantTx};
use crate::{Result, Store};

/// The files of all workspaces.
#[derive(Clone)]
pub struct Workspaces {
    store: Store,
    blobs: Arc<dyn BlobStore>,
    /// Who takes the connections.
    taker: fn(TenantId) -> Taker,
}

impl Workspaces {
    /// Rows in `store`, large contents in `blobs`. As requests see them.
    pub fn new(store: Store, blobs: Arc<dyn BlobStore>) -> Self {
        Self { store, blobs, taker: Taker::Requests }
    }

    /// The same for runs, which no requests stand before.
    pub fn for_runs(&self) -> Self {
        Self { taker: Taker::Runs, ..self.clone() }
    }

    async fn tenant(&self, tenant: TenantId) -> Result<TenantTx> {
        self.store.tenant_as((self.taker)(tenant)).await
    }

    /// Whether there is such a workspace: a thread has it that is not deleted, or a run without a thread.
    ///
    /// # Errors
    /// The database is away.
    pub async fn exists(&self, workspace: Workspace) -> Result<bool> {
        self.tenant(workspace.tenant_id).await?.workspace_exists(workspace.workspace_id.0).await
    }

    /// [`commit`](WorkspaceStore::commit), asked for by somebody in particular.
    ///
    /// # Errors
    /// The database is away, or where large contents are kept.
    pub async fn commit_asked_by(&self, commit: WorkspaceCommit, origin: Origin) -> Result<FilesCommitted> {
        let tenant = commit.workspace.tenant_id;
        if let Some(fault) = bounds::too_large(&commit) {
            return Ok(FilesCommitted::OverLimit(fault));
        }
        let workspace = commit.workspace.workspace_id.0;
        let changes = contents::contents_name(&commit.changes).await?;
        let foreseen = self.tenant(tenant).await?.files_foresee(workspace, &commit.by, &changes).await?;
        if let Some(foreseen) = foreseen {
            return Ok(foreseen);
        }
        self.contents_keep(tenant, &changes).await?;
        let mut tx = self.tenant(tenant).await?;
        tx.asked_by(origin);
        let committed = tx.files_commit(workspace, &commit.by, &changes).await?;
        if let FilesCommitted::Stored { version } = committed {
            if matches!(commit.by, Author::Caller(_)) {
                tx.file_acts(commit.workspace.workspace_id, version, &changes);
            }
            tx.commit().await?;
        }
        Ok(committed)
    }
}

#[async_trait]
impl WorkspaceStore for Workspaces {
    async fn file(&self, workspace: Workspace, path: &FilePath) -> Result<Option<FileAt>> {
        self.tenant(workspace.tenant_id).await?.file_fetch(workspace.workspace_id.0, path).await
    }

    async fn list(
        &self,
        workspace: Workspace,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<FileAt>> {
        let mut tx = self.tenant(workspace.tenant_id).await?;
        tx.file_list(workspace.workspace_id.0, prefix, after, limit).await
    }

    async fn snapshot(&self, workspace: Workspace) -> Result<Vec<FileAt>> {
        let most = usize::try_from(MAX_FILES).unwrap_or(usize::MAX);
        self.list(workspace, "", None, most).await
    }

    async fn contents(&self, tenant: TenantId, files: &[FileAt]) -> Result<Vec<Bytes>> {
        self.contents_load(tenant, &files[..given_at_once(files)]).await
    }

    async fn seen_many(&self, workspace: Workspace, run: RunId, paths: &[FilePath]) -> Result<Vec<Seen>> {
        self.tenant(workspace.tenant_id).await?.files_seen(workspace.workspace_id.0, run, paths).await
    }

    async fn saw(
        &self,
        workspace: Workspace,
        run: RunId,
        path: &FilePath,
        version: Option<i64>,
    ) -> Result<()> {
        let mut tx = self.tenant(workspace.tenant_id).await?;
        tx.files_saw(workspace.workspace_id.0, run, &[(path.as_str(), version)]).await?;
        tx.commit().await
    }

    async fn outcome(&self, tenant: TenantId, call: CallId) -> Result<Option<CallOutcome>> {
        self.tenant(tenant).await?.call_outcome(call).await
    }

    async fn commit(&self, commit: WorkspaceCommit) -> Result<FilesCommitted> {
        self.commit_asked_by(commit, Origin::default()).await
    }

    async fn artifact(
        &self,
        tenant: TenantId,
        run: RunId,
        id: ArtifactId,
    ) -> Result<Option<(String, Bytes)>> {
        self.tenant(tenant).await?.artifact_known_to(run, id).await
    }
}
