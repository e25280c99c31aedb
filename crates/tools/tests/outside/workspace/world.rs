//! A run's tools over a shelf.

use std::collections::BTreeMap;
use std::sync::Arc;

use answerable_core::id::{ArtifactId, CallId, RunId, TenantId, WorkspaceId};
use answerable_core::tool::{Attempt, ErrorCode};
use answerable_ports::{Came, PreparedCall, ToolExecutor};
use answerable_tools::WorkspaceTools;
use serde_json::{Value, json};
use uuid::Uuid;

use super::shelf::Shelf;

pub(super) struct World {
    pub(super) shelf: Arc<Shelf>,
    tools: WorkspaceTools,
}

impl World {
    pub(super) fn new() -> Self {
        let shelf = Arc::new(Shelf::default());
        let tools = WorkspaceTools::new(Arc::clone(&shelf) as Arc<_>);
        Self { shelf, tools }
    }

    /// A call of a built-in tool, `spec` changes the tool.
    pub(super) fn call(name: &str, spec: &Value, input: Value) -> PreparedCall {
        let mut tool = json!({"name": name, "kind": "workspace"});
        for (key, value) in spec.as_object().expect("an object") {
            tool[key] = value.clone();
        }
        PreparedCall {
            tenant_id: TenantId(Uuid::from_u128(4)),
            workspace_id: WorkspaceId(Uuid::from_u128(5)),
            run_id: RunId(Uuid::from_u128(1)),
            call_id: CallId(Uuid::now_v7()),
            tool: serde_json::from_value(tool).expect("a tool"),
            input,
            context: json!({}),
            idempotency_key: "key-1".into(),
            attempt: 1,
            secrets: BTreeMap::new(),
            signing_secrets: Vec::new(),
            traceparent: String::new(),
            artifact_id: ArtifactId(Uuid::from_u128(3)),
        }
    }

    pub(super) async fn send(&self, call: &PreparedCall) -> Came {
        self.tools.run(call).await
    }

    /// What a call that succeeds says.
    pub(super) async fn says(&self, name: &str, input: Value) -> String {
        self.says_with(name, json!({}), input).await
    }

    pub(super) async fn says_with(&self, name: &str, spec: Value, input: Value) -> String {
        let came = self.send(&Self::call(name, &spec, input)).await;
        if let Attempt::Succeeded(output) = came.attempt { output.content } else { panic!("{came:?}") }
    }

    /// Code and words of a call that is refused.
    pub(super) async fn refuses(&self, name: &str, input: Value) -> (ErrorCode, String) {
        let came = self.send(&Self::call(name, &json!({}), input)).await;
        if let Attempt::Refused(code, words) = came.attempt { (code, words) } else { panic!("{came:?}") }
    }
}
