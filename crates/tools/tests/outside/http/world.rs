//! A far side, and calls of it.

use std::collections::BTreeMap;

use answerable_core::agent::ToolSpec;
use answerable_core::id::{ArtifactId, CallId, RunId, TenantId, WorkspaceId};
use answerable_core::tool::{Attempt, Output};
use answerable_ports::{Came, PreparedCall, StoredArtifact, ToolExecutor};
use answerable_testkit::{ScriptedTools, ToolAnswer};
use answerable_tools::{Allow, GuardedClient, HttpTools};
use serde_json::{Value, json};
use uuid::Uuid;

pub(super) const SIGNING: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(super) const OLDER: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

pub(super) struct World {
    pub(super) far: ScriptedTools,
    pub(super) tools: HttpTools,
}

impl World {
    pub(super) async fn start() -> Self {
        let client = GuardedClient::new(Allow::parse("127.0.0.0/8").expect("a list")).expect("a client");
        Self {
            far: ScriptedTools::start().await.expect("a server"),
            tools: HttpTools::new(client, answerable_ports::Clock::default()),
        }
    }

    /// A call of `look`; `spec` adds to or replaces fields of the tool, `http` of its address.
    pub(super) fn call(&self, spec: Value, http: Value, input: Value) -> PreparedCall {
        let mut tool = json!({"name": "look", "kind": "http", "http": {"url": self.far.url("look")}});
        let merge = |into: &mut Value, from: Value| {
            let (Value::Object(into), Value::Object(from)) = (into, from) else { panic!("objects") };
            into.extend(from);
        };
        merge(&mut tool["http"], http);
        merge(&mut tool, spec);
        prepared(serde_json::from_value(tool).expect("a tool"), input)
    }

    pub(super) async fn run(&self, call: &PreparedCall) -> (Attempt, Option<StoredArtifact>) {
        let Came { attempt, artifacts } = self.tools.run(call).await;
        (attempt, artifacts.into_iter().next())
    }

    /// What comes of a plain call that is answered so.
    pub(super) async fn answered(&self, answer: ToolAnswer) -> Attempt {
        let name = format!("t{}", Uuid::new_v4().simple());
        self.far.script(&name, [answer]);
        self.run(&self.call(json!({}), json!({"url": self.far.url(&name)}), json!({"a": 1}))).await.0
    }
}

fn prepared(tool: ToolSpec, input: Value) -> PreparedCall {
    PreparedCall {
        tenant_id: TenantId(Uuid::from_u128(4)),
        workspace_id: WorkspaceId(Uuid::from_u128(5)),
        run_id: RunId(Uuid::from_u128(1)),
        call_id: CallId(Uuid::from_u128(2)),
        tool,
        input,
        context: json!({"user": "u-77"}),
        idempotency_key: "key-1".into(),
        attempt: 2,
        secrets: BTreeMap::from([("shop".to_owned(), "canary-shop-4711".into())]),
        signing_secrets: vec![SIGNING.into(), OLDER.into()],
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
        artifact_id: ArtifactId(Uuid::from_u128(3)),
    }
}

/// What a call that succeeded said.
pub(super) fn output(attempt: Attempt) -> Output {
    if let Attempt::Succeeded(output) = attempt { output } else { panic!("{attempt:?}") }
}
