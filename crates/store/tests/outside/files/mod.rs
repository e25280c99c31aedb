//! Files of workspaces: versions, what runs have seen, what files hold, and how all of it goes.

mod contents;
mod going;
mod heirs;
mod seen;
pub(crate) mod shelf;
mod versions;

use std::sync::Arc;

use answerable_core::id::{CallId, RunId, TenantId, WorkspaceId};
use answerable_core::workspace::FilePath;
use answerable_ports::{
    Author, Change, Expected, FileAt, FilesCommitted, NewContent, Workspace, WorkspaceCommit, WorkspaceStore,
};
use answerable_store::Workspaces;
use uuid::Uuid;

use crate::world::World;
use shelf::Shelf;

/// A world with files.
struct Place {
    world: World,
    files: Workspaces,
    shelf: Arc<Shelf>,
}

fn path(text: &str) -> FilePath {
    FilePath::parse(text).expect("a path")
}

fn written(text: &str, expected: Expected, content: &str) -> Change {
    let content = NewContent { bytes: content.to_owned().into(), media_type: None };
    Change { path: path(text), expected, content: Some(content) }
}

fn deleted(text: &str, expected: Expected) -> Change {
    Change { path: path(text), expected, content: None }
}

impl Place {
    async fn new() -> Self {
        let (world, shelf) = (World::new().await, Arc::new(Shelf::default()));
        let files = Workspaces::new(world.store.clone(), Arc::clone(&shelf) as Arc<_>);
        Self { world, files, shelf }
    }

    /// A run of its own and its workspace.
    async fn run(&self) -> (RunId, Workspace) {
        let run = self.world.start(|_| ()).await.expect("a run");
        (run, self.workspace_of(run).await)
    }

    async fn workspace_of(&self, run: RunId) -> Workspace {
        self.workspace(self.world.tenant, self.world.view(run).await.workspace_id)
    }

    fn workspace(&self, tenant_id: TenantId, workspace: Uuid) -> Workspace {
        Workspace { tenant_id, workspace_id: WorkspaceId(workspace) }
    }

    /// Somebody changes files by the API.
    async fn put(&self, workspace: Workspace, changes: Vec<Change>) -> FilesCommitted {
        let commit = WorkspaceCommit { workspace, by: Author::Caller("key_1".into()), changes };
        self.files.commit(commit).await.expect("an answer")
    }

    /// The same with one file that may be as it is; gives its version.
    async fn store(&self, workspace: Workspace, path: &str, content: &str) -> i64 {
        stored(self.put(workspace, vec![written(path, Expected::Anything, content)]).await)
    }

    /// A run's call changes files.
    async fn call(
        &self,
        workspace: Workspace,
        run_id: RunId,
        call_id: CallId,
        changes: Vec<Change>,
    ) -> FilesCommitted {
        let by = Author::Call { run_id, call_id, output: format!("of {call_id}") };
        self.files.commit(WorkspaceCommit { workspace, by, changes }).await.expect("an answer")
    }

    async fn file(&self, workspace: Workspace, text: &str) -> Option<FileAt> {
        self.files.file(workspace, &path(text)).await.expect("an answer")
    }

    async fn read(&self, workspace: Workspace, text: &str) -> String {
        let file = self.file(workspace, text).await.expect("a file");
        let content = self.files.content(workspace.tenant_id, &file).await.expect("a content");
        String::from_utf8(content.to_vec()).expect("text")
    }

    async fn paths(&self, workspace: Workspace) -> Vec<String> {
        let files = self.files.snapshot(workspace).await.expect("files");
        files.iter().map(|file| file.path.to_string()).collect()
    }
}

fn stored(committed: FilesCommitted) -> i64 {
    let FilesCommitted::Stored { version } = committed else { panic!("{committed:?}") };
    version
}

fn a_call() -> CallId {
    CallId(Uuid::now_v7())
}
