//! Workspaces: versioned files, as rows and contents that are named by their hash.
//!
//! `files` reads, `seen` knows what runs have seen and what their calls did, `write` makes changes under the workspace's
//! lock, `contents` keeps what files hold, `going` forgets and copies.

mod contents;
mod files;
mod going;
mod seen;
mod write;

use std::sync::Arc;

use answerable_core::id::{ArtifactId, CallId, RunId, TenantId};
use answerable_core::workspace::{FilePath, MAX_FILES, Seen};
use answerable_ports::{
    Author, BlobStore, CallOutcome, FileAt, FilesCommitted, Workspace, WorkspaceCommit, WorkspaceStore,
};
use async_trait::async_trait;
use bytes::Bytes;

use crate::{Result, Store};

/// The files of all workspaces.
#[derive(Clone)]
pub struct Workspaces {
    store: Store,
    blobs: Arc<dyn BlobStore>,
}

impl Workspaces {
    /// Rows in `store`, large contents in `blobs`.
    pub fn new(store: Store, blobs: Arc<dyn BlobStore>) -> Self {
        Self { store, blobs }
    }

    /// Whether there is such a workspace: a thread has it that is not deleted, or a run without a thread.
    ///
    /// # Errors
    /// The database is away.
    pub async fn exists(&self, workspace: Workspace) -> Result<bool> {
        self.store.tenant(workspace.tenant_id).await?.workspace_exists(workspace.workspace_id.0).await
    }
}

#[async_trait]
impl WorkspaceStore for Workspaces {
    async fn file(&self, workspace: Workspace, path: &FilePath) -> Result<Option<FileAt>> {
        self.store.tenant(workspace.tenant_id).await?.file_fetch(workspace.workspace_id.0, path).await
    }

    async fn list(
        &self,
        workspace: Workspace,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<FileAt>> {
        let mut tx = self.store.tenant(workspace.tenant_id).await?;
        tx.file_list(workspace.workspace_id.0, prefix, after, limit).await
    }

    async fn snapshot(&self, workspace: Workspace) -> Result<Vec<FileAt>> {
        let most = usize::try_from(MAX_FILES).unwrap_or(usize::MAX);
        self.list(workspace, "", None, most).await
    }

    async fn content(&self, tenant: TenantId, file: &FileAt) -> Result<Bytes> {
        self.content_load(tenant, file).await
    }

    async fn seen(&self, workspace: Workspace, run: RunId, path: &FilePath) -> Result<Seen> {
        self.store.tenant(workspace.tenant_id).await?.file_seen(workspace.workspace_id.0, run, path).await
    }

    async fn saw(
        &self,
        workspace: Workspace,
        run: RunId,
        path: &FilePath,
        version: Option<i64>,
    ) -> Result<()> {
        let mut tx = self.store.tenant(workspace.tenant_id).await?;
        tx.files_saw(workspace.workspace_id.0, run, &[(path.as_str(), version)]).await?;
        tx.commit().await
    }

    async fn outcome(&self, tenant: TenantId, call: CallId) -> Result<Option<CallOutcome>> {
        self.store.tenant(tenant).await?.call_outcome(call).await
    }

    async fn commit(&self, commit: WorkspaceCommit) -> Result<FilesCommitted> {
        let tenant = commit.workspace.tenant_id;
        if let Some(fault) = write::too_large(&commit) {
            return Ok(FilesCommitted::OverLimit(fault));
        }
        if let Author::Call { call_id, .. } = &commit.by
            && let Some(outcome) = self.outcome(tenant, *call_id).await?
        {
            return Ok(FilesCommitted::Repeated(outcome));
        }
        let changes = self.contents_keep(tenant, &commit.changes).await?;
        let mut tx = self.store.tenant(tenant).await?;
        let committed = tx.files_commit(commit.workspace.workspace_id.0, &commit.by, &changes).await?;
        if matches!(committed, FilesCommitted::Stored { .. }) {
            tx.commit().await?;
        }
        Ok(committed)
    }

    async fn artifact(
        &self,
        tenant: TenantId,
        run: RunId,
        id: ArtifactId,
    ) -> Result<Option<(String, Bytes)>> {
        self.store.tenant(tenant).await?.artifact_known_to(run, id).await
    }
}
