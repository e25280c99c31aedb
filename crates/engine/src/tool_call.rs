//! One attempt of a call, the look for a business key, and the question what became of a call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use answerable_core::agent::ToolSpec;
use answerable_core::id::{ArtifactId, CallId};
use answerable_core::json::sha256_hex;
use answerable_core::ledger::{Next, after_attempt, reconciliation};
use answerable_core::run::{Event, Reconciliation};
use answerable_core::template::{Filling, Template, fill_value};
use answerable_core::tool::{Attempt, ErrorCode, Reconciled};
use answerable_ports::commit::StoredArtifact;
use answerable_ports::{PreparedCall, StoreError};
use serde_json::Value;
use uuid::Uuid;

use crate::env::{Env, jitter, now};
use crate::inbox::limited;
use crate::session::{RunFacts, Session, patiently};

/// Pause between two looks at a business key whose call is still under way.
const KEY_LOOK: Duration = Duration::from_millis(200);

/// A call that is to be sent.
pub(crate) struct ToolCall {
    env: Arc<Env>,
    facts: Arc<RunFacts>,
    tool: ToolSpec,
    call_id: CallId,
    input: Value,
    input_hash: String,
    key: String,
}

impl ToolCall {
    /// `None`: the state has no such call, which doesn't happen to what is outstanding.
    pub(crate) fn of(session: &Session, call_id: CallId) -> Option<Self> {
        let call = session.state.call(call_id)?;
        Some(Self {
            env: Arc::clone(&session.env),
            facts: Arc::clone(&session.facts),
            tool: session.registry.tool(&call.tool_name)?.clone(),
            call_id,
            input: session.inputs.get(&call_id)?.clone(),
            input_hash: call.input_hash.clone(),
            key: call.idempotency_key.clone(),
        })
    }

    /// Sends it once.
    pub(crate) async fn run(self, attempt: u32) -> (Event, Option<StoredArtifact>) {
        let (outcome, artifact) = self.send(&self.tool, self.input.clone(), self.key.clone(), attempt).await;
        (Event::ToolAttempted { at: now(), call: self.call_id, outcome, jitter: jitter() }, artifact)
    }

    async fn send(
        &self,
        tool: &ToolSpec,
        input: Value,
        key: String,
        attempt: u32,
    ) -> (Attempt, Option<StoredArtifact>) {
        match self.prepare(tool, input, key, attempt).await {
            Ok(prepared) => self.env.tools.run(&prepared).await,
            Err(error) => {
                tracing::error!(run_id = %self.facts.lease.run_id, %error, "a call can't be prepared");
                (
                    Attempt::Refused(ErrorCode::Internal, "The runtime could not prepare this call.".into()),
                    None,
                )
            }
        }
    }

    async fn prepare(
        &self,
        tool: &ToolSpec,
        input: Value,
        key: String,
        attempt: u32,
    ) -> Result<PreparedCall, StoreError> {
        let tenant = self.facts.lease.tenant_id;
        let names = secret_names(tool);
        Ok(PreparedCall {
            run_id: self.facts.lease.run_id,
            call_id: self.call_id,
            secrets: patiently(|| self.env.store.secrets(tenant, &names)).await?,
            signing_secrets: patiently(|| self.env.signing_secrets(tenant)).await?,
            context: self.facts.context.clone(),
            traceparent: traceparent(&self.facts.trace_id, self.call_id, &key, attempt),
            artifact_id: ArtifactId(Uuid::now_v7()),
            tool: tool.clone(),
            input,
            idempotency_key: key,
            attempt,
        })
    }

    /// Looks who has the call's business key; one whose call is under way is waited for.
    pub(crate) async fn claim_key(self) -> Event {
        let tenant = self.facts.lease.tenant_id;
        loop {
            let look = || self.env.store.key_holder(tenant, &self.tool.name, &self.key, &self.input_hash);
            match patiently(look).await {
                Ok(None) => return Event::KeyFree { at: now(), call: self.call_id },
                Ok(Some(Ok(holder))) => return Event::KeyTaken { at: now(), call: self.call_id, holder },
                Ok(Some(Err(()))) => tokio::time::sleep(KEY_LOOK).await,
                Err(error) => {
                    let detail = format!("the ledger can't be read: {error}");
                    return Event::Broken { at: now(), code: "internal_error".into(), detail };
                }
            }
        }
    }

    /// Asks the far side what became of the call, with the reconcile tool's own retries.
    pub(crate) async fn reconcile(self, reconciler: Option<ToolSpec>) -> (Event, Option<StoredArtifact>) {
        let (state, text) = match reconciler {
            Some(reconciler) => self.ask_far_side(&reconciler).await,
            None => (Reconciled::Unknown, None),
        };
        let (result, artifact) = match text {
            Some(text) => {
                let (output, artifact) = limited(&text, &self.tool.output, self.call_id);
                (Some(output), artifact)
            }
            None => (None, None),
        };
        let reconciliation = Reconciliation { state, result };
        (Event::ToolReconciled { at: now(), call: self.call_id, reconciliation }, artifact)
    }

    async fn ask_far_side(&self, reconciler: &ToolSpec) -> (Reconciled, Option<String>) {
        let template = self.tool.reconcile.as_ref().map(|spec| spec.input.clone()).unwrap_or_default();
        let secrets = BTreeMap::new();
        let with = Filling {
            input: &self.input,
            context: &self.facts.context,
            secrets: &secrets,
            idempotency_key: &self.key,
        };
        let Ok(input) = fill_value(&template, &with) else { return (Reconciled::Unknown, None) };
        // Its own key: it is another request.
        let key = format!("reconcile:{}", self.call_id);
        for attempt in 1.. {
            let (outcome, _) = self.send(reconciler, input.clone(), key.clone(), attempt).await;
            match after_attempt(reconciler, attempt, false, outcome.clone(), jitter()) {
                Next::Retry(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                _ => return reconciliation(&outcome),
            }
        }
        (Reconciled::Unknown, None)
    }
}

/// Secrets that a tool's templates name. What can't be parsed was refused when the agent was stored.
fn secret_names(tool: &ToolSpec) -> Vec<String> {
    let headers = tool.http.iter().flat_map(|http| http.headers.values());
    let templates = headers.filter_map(|text| Template::parse(text).ok());
    let mut names: Vec<String> =
        templates.flat_map(|t| t.secrets().map(str::to_owned).collect::<Vec<_>>()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// W3C trace context; the span's id follows from what it is, so that a later export agrees with what was sent.
fn traceparent(trace_id: &str, call: CallId, key: &str, attempt: u32) -> String {
    let span = &sha256_hex(format!("{call}|{key}|{attempt}").as_bytes())["sha256:".len()..][..16];
    format!("00-{trace_id}-{span}-01")
}
