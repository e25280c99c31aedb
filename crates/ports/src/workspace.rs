//! WorkspaceStore: the versioned files of a thread, or of a run without one, as the tools see them.
//!
//! A version is the workspace's counter at the write that made it, so no version of a path ever comes twice. What a run
//! changes names the version that it is based on; if that is no longer the present one, nothing is changed.

use std::slice;

use answerable_core::id::{ArtifactId, CallId, RunId, TenantId, WorkspaceId};
use answerable_core::workspace::{FilePath, Seen};
use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};

use crate::blobs::BlobHash;
use crate::store::StoreError;

/// Bytes of all contents together that [`WorkspaceStore::contents`] gives at once; a single one may be larger.
pub const CONTENTS_AT_ONCE: u64 = 8 << 20;

/// Whose files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workspace {
    /// Tenant.
    pub tenant_id: TenantId,
    /// Workspace.
    pub workspace_id: WorkspaceId,
}

/// A file as it is, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileAt {
    /// Where it is.
    pub path: FilePath,
    /// From 1.
    pub version: i64,
    /// Length.
    pub bytes: u64,
    /// Its content.
    pub hash: BlobHash,
    /// What it is.
    pub media_type: String,
    /// When it was written.
    pub updated_at: DateTime<Utc>,
    /// Who wrote it: `run_…` or `key_…`.
    pub updated_by: String,
}

/// What a path must be for a change to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Whatever it is.
    Anything,
    /// No file.
    Absent,
    /// A file of any version.
    Present,
    /// A file of this version.
    Version(i64),
}

/// What a file is to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewContent {
    /// The whole of it.
    pub bytes: Bytes,
    /// What it is; `None`: as the file had it, or what it looks like.
    pub media_type: Option<String>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where. A path stands once in a commit.
    pub path: FilePath,
    /// What must be there.
    pub expected: Expected,
    /// What is to be there; `None`: nothing.
    pub content: Option<NewContent>,
}

/// Who changes files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Author {
    /// A run's call. What it changed it has seen. The same call again changes nothing.
    Call {
        /// The run.
        run_id: RunId,
        /// The call.
        call_id: CallId,
        /// What the call answers, kept for the same call again.
        output: String,
    },
    /// The API's caller, by name.
    Caller(String),
}

/// Changes that are made together or not at all. There may be none, when a call has only an output to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceCommit {
    /// Whose files.
    pub workspace: Workspace,
    /// Who.
    pub by: Author,
    /// What.
    pub changes: Vec<Change>,
}

/// What became of a call's changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallOutcome {
    /// The version that its changes made; where it made none, the newest of that time.
    pub version: i64,
    /// What it answered.
    pub output: String,
}

/// What became of changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilesCommitted {
    /// They are made; changed files have this version.
    Stored {
        /// The version.
        version: i64,
    },
    /// This call's changes were made before, and nothing is changed now.
    Repeated(CallOutcome),
    /// Nothing is changed: a path is not as expected.
    Conflict {
        /// Which.
        path: FilePath,
        /// What it should be.
        expected: Expected,
        /// The version that it has; `None`: there is no file.
        found: Option<i64>,
    },
    /// Nothing is changed: a file would stand where another has its folder.
    InTheWay {
        /// The file.
        file: FilePath,
        /// A file within a folder of that name.
        within: FilePath,
    },
    /// Nothing is changed: it would be more than a workspace may hold; in words.
    OverLimit(String),
    /// Nothing is changed: it would be more than all the tenant's workspaces may hold; in a sentence.
    Full(String),
    /// Nothing is changed: there is no such workspace any more.
    NoWorkspace,
}

/// How many of these files, from the first on, [`WorkspaceStore::contents`] gives at once.
#[must_use]
pub fn given_at_once(files: &[FileAt]) -> usize {
    let mut room = CONTENTS_AT_ONCE;
    let fits = |file: &&FileAt| {
        let left = room.checked_sub(file.bytes);
        room = left.unwrap_or(0);
        left.is_some()
    };
    files.iter().take_while(fits).count().max(1).min(files.len())
}

/// Files, as the tools and the API see them.
#[async_trait]
pub trait WorkspaceStore: Send + Sync {
    /// A file as it is now. Asking is not seeing.
    async fn file(&self, workspace: Workspace, path: &FilePath) -> Result<Option<FileAt>, StoreError>;

    /// The files whose paths begin with `prefix` and come after `after`, in the order of their bytes, so many at most.
    async fn list(
        &self,
        workspace: Workspace,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<FileAt>, StoreError>;

    /// All files of one moment, in the order of their paths' bytes: no more than a workspace may hold.
    async fn snapshot(&self, workspace: Workspace) -> Result<Vec<FileAt>, StoreError>;

    /// What the first of these files hold, in their order: as many as [`CONTENTS_AT_ONCE`] has room for, and always one.
    /// Who needs the rest asks again for that. The content of a version that was replaced is kept for a while.
    async fn contents(&self, tenant: TenantId, files: &[FileAt]) -> Result<Vec<Bytes>, StoreError>;

    /// What one file holds.
    async fn content(&self, tenant: TenantId, file: &FileAt) -> Result<Bytes, StoreError> {
        let held = self.contents(tenant, slice::from_ref(file)).await?;
        held.into_iter()
            .next()
            .ok_or_else(|| StoreError::Broken(format!("the content {} is not given", file.hash)))
    }

    /// What the run knows of each of these paths, in their order: what it last read or wrote there; else what the last
    /// run of the workspace did, for a run knows the history of those before it.
    async fn seen_many(
        &self,
        workspace: Workspace,
        run: RunId,
        paths: &[FilePath],
    ) -> Result<Vec<Seen>, StoreError>;

    /// What the run knows of one path.
    async fn seen(&self, workspace: Workspace, run: RunId, path: &FilePath) -> Result<Seen, StoreError> {
        let seen = self.seen_many(workspace, run, slice::from_ref(path)).await?;
        seen.into_iter().next().ok_or_else(|| StoreError::Broken(format!("nothing is told of {path}")))
    }

    /// The run was shown the file of this version, or (`None`) that there is no file.
    async fn saw(
        &self,
        workspace: Workspace,
        run: RunId,
        path: &FilePath,
        version: Option<i64>,
    ) -> Result<(), StoreError>;

    /// What became of a call, if its changes were made. A call that is sent once more asks this first.
    async fn outcome(&self, tenant: TenantId, call: CallId) -> Result<Option<CallOutcome>, StoreError>;

    /// Makes changes. After [`StoreError::Away`] it is unknown whether they were made; a call may send them again.
    async fn commit(&self, commit: WorkspaceCommit) -> Result<FilesCommitted, StoreError>;

    /// Media type and bytes of an artifact of the run, or of a run whose history it has.
    async fn artifact(
        &self,
        tenant: TenantId,
        run: RunId,
        id: ArtifactId,
    ) -> Result<Option<(String, Bytes)>, StoreError>;
}
