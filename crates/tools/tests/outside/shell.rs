//! Commands whose files come late, or that are called off early. None of them runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use answerable_core::id::{ArtifactId, CallId, RunId, TenantId, WorkspaceId};
use answerable_core::tool::{Attempt, ErrorCode};
use answerable_core::workspace::{FilePath, Seen};
use answerable_ports::{
    CallOutcome, FileAt, FilesCommitted, PreparedCall, StoreError, ToolExecutor, Workspace, WorkspaceCommit,
    WorkspaceStore,
};
use answerable_sandbox::{Sandbox, Settings};
use answerable_tools::ShellTools;
use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use uuid::Uuid;

/// An empty workspace that answers when it is let.
struct Slow {
    outcome: Semaphore,
    snapshot: Semaphore,
}

impl Slow {
    fn new(outcome: usize, snapshot: usize) -> Arc<Self> {
        Arc::new(Self { outcome: Semaphore::new(outcome), snapshot: Semaphore::new(snapshot) })
    }
}

fn broken<T>() -> Result<T, StoreError> {
    Err(StoreError::Broken("nobody asks this".into()))
}

#[async_trait]
impl WorkspaceStore for Slow {
    async fn file(&self, _: Workspace, _: &FilePath) -> Result<Option<FileAt>, StoreError> {
        broken()
    }
    async fn list(
        &self,
        _: Workspace,
        _: &str,
        _: Option<&str>,
        _: usize,
    ) -> Result<Vec<FileAt>, StoreError> {
        broken()
    }
    async fn snapshot(&self, _: Workspace) -> Result<Vec<FileAt>, StoreError> {
        self.snapshot.acquire().await.expect("it stays open").forget();
        Ok(Vec::new())
    }
    async fn contents(&self, _: TenantId, _: &[FileAt]) -> Result<Vec<Bytes>, StoreError> {
        broken()
    }
    async fn seen_many(&self, _: Workspace, _: RunId, _: &[FilePath]) -> Result<Vec<Seen>, StoreError> {
        broken()
    }
    async fn saw(&self, _: Workspace, _: RunId, _: &FilePath, _: Option<i64>) -> Result<(), StoreError> {
        broken()
    }
    async fn outcome(&self, _: TenantId, _: CallId) -> Result<Option<CallOutcome>, StoreError> {
        self.outcome.acquire().await.expect("it stays open").forget();
        Ok(None)
    }
    async fn commit(&self, _: WorkspaceCommit) -> Result<FilesCommitted, StoreError> {
        broken()
    }
    async fn artifact(
        &self,
        _: TenantId,
        _: RunId,
        _: ArtifactId,
    ) -> Result<Option<(String, Bytes)>, StoreError> {
        broken()
    }
}

/// Commands where there is no bubblewrap: what comes so far is not done for that reason.
fn tools(files: &Arc<Slow>) -> ShellTools {
    let settings = Settings { bubblewrap: "/nowhere/bwrap".into(), at_once: 1, ..Settings::default() };
    ShellTools::new(Sandbox::new(settings), Arc::clone(files) as Arc<_>, true)
}

fn call(spec: &Value) -> PreparedCall {
    let mut tool = json!({"name": "run_command", "kind": "shell", "timeout_ms": 1000});
    for (key, value) in spec.as_object().expect("an object") {
        tool[key] = value.clone();
    }
    PreparedCall {
        tenant_id: TenantId(Uuid::from_u128(4)),
        workspace_id: WorkspaceId(Uuid::from_u128(5)),
        run_id: RunId(Uuid::from_u128(1)),
        call_id: CallId(Uuid::now_v7()),
        tool: serde_json::from_value(tool).expect("a tool"),
        input: json!({"command": "true"}),
        context: json!({}),
        idempotency_key: "key-1".into(),
        attempt: 1,
        secrets: BTreeMap::new(),
        signing_secrets: Vec::new(),
        traceparent: String::new(),
        artifact_id: ArtifactId(Uuid::from_u128(3)),
    }
}

#[tokio::test]
async fn a_copy_that_is_late_means_that_nothing_ran() {
    for network in [false, true] {
        let files = Slow::new(1, 0);
        let begun = Instant::now();
        let came = tools(&files).run(&call(&json!({"shell": {"network": network}}))).await;
        assert!(
            matches!(&came.attempt, Attempt::NotDone(ErrorCode::Timeout, words, _) if words.contains("nothing ran")),
            "{came:?}"
        );
        // A part of the time is for the commit.
        assert!(begun.elapsed() < Duration::from_millis(990), "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_store_that_does_not_answer_means_that_nothing_was_done() {
    let came = tools(&Slow::new(0, 0)).run(&call(&json!({}))).await;
    assert!(matches!(came.attempt, Attempt::NotDone(ErrorCode::Timeout, ..)), "{came:?}");
}

#[tokio::test]
async fn a_call_is_called_off_however_early() {
    let files = Slow::new(0, 1);
    let tools = tools(&files);
    let call = call(&json!({}));
    let (came, ()) = tokio::join!(tools.run(&call), async {
        tokio::task::yield_now().await;
        tools.call_off(call.call_id);
        files.outcome.add_permits(1);
    });
    assert!(matches!(came.attempt, Attempt::Refused(ErrorCode::Cancelled, _)), "{came:?}");
}

#[tokio::test]
async fn without_a_sandbox_nothing_is_done_and_the_place_is_free_again() {
    let files = Slow::new(3, 3);
    let tools = tools(&files);
    for _ in 0..3 {
        let came = tools.run(&call(&json!({}))).await;
        assert!(matches!(came.attempt, Attempt::NotDone(ErrorCode::Unavailable, ..)), "{came:?}");
    }
}
