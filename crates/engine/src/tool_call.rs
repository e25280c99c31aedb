//! One attempt of a call, the look for a business key, and the question what became of a call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use answerable_core::agent::ToolSpec;
use answerable_core::id::{ArtifactId, CallId};
use answerable_core::ledger::{Next, after_attempt, reconciliation};
use answerable_core::run::{Event, KeyHolder, Reconciliation, RunState, Stage};
use answerable_core::template::{Filling, Template, fill_value};
use answerable_core::tool::{Attempt, ErrorCode, Reconciled};
use answerable_core::trace::{SpanId, reconcile_span, tool_span};
use answerable_faults::{self as faults, Guard, Point};
use answerable_ports::commit::StoredArtifact;
use answerable_ports::{Came, PlaceTaken, PreparedCall, StoreError};
use serde_json::Value;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::env::{Env, jitter};
use crate::gate::Gate;
use crate::inbox::limited;
use crate::lease::Hold;
use crate::place::{Place, is_limited};
use crate::session::{RunFacts, Session, patiently};

/// Pause between two looks at a business key whose call is still under way.
const KEY_LOOK: Duration = Duration::from_millis(200);

/// A call that is to be sent.
pub(crate) struct ToolCall {
    env: Arc<Env>,
    hold: Arc<Hold>,
    /// Through this its requests leave.
    pub(crate) gate: Arc<Gate>,
    /// Of the run.
    places: TaskTracker,
    facts: Arc<RunFacts>,
    tool: ToolSpec,
    call_id: CallId,
    input: Value,
    input_hash: String,
    key: String,
    /// The key is the agent's own and may be shared by calls of other runs.
    business_key: bool,
    /// Effects of before may be taken.
    takes_effects: bool,
    /// The attempt of which nobody knows what became, if one is asked about.
    unclear: u32,
}

/// One request on its way.
struct Sending<'a> {
    tool: &'a ToolSpec,
    input: Value,
    key: String,
    attempt: u32,
    /// The span that it belongs to.
    span: &'a SpanId,
}

impl ToolCall {
    /// `None`: the state has no such call, which doesn't happen to what is outstanding.
    pub(crate) fn of(session: &Session, call_id: CallId) -> Option<Self> {
        Self::within(session, &session.state, &session.inputs, call_id)
    }

    /// As one of `state` and `inputs`, whether they are committed or not.
    pub(crate) fn within(
        session: &Session,
        state: &RunState,
        inputs: &BTreeMap<CallId, Value>,
        call_id: CallId,
    ) -> Option<Self> {
        let call = state.call(call_id)?;
        Some(Self {
            env: Arc::clone(&session.env),
            hold: Arc::clone(&session.hold),
            gate: Arc::default(),
            places: session.places.clone(),
            facts: Arc::clone(&session.facts),
            tool: session.registry.tool(&call.tool_name)?.clone(),
            call_id,
            input: inputs.get(&call_id)?.clone(),
            input_hash: call.input_hash.clone(),
            key: call.idempotency_key.clone(),
            business_key: call.business_key,
            // Another agent may have changed something, whatever its tool was said to be.
            takes_effects: (call.writes || call.agent) && state.has_effects_to_take(),
            unclear: if let Stage::Reconciling { attempt, .. } = call.stage { attempt } else { 0 },
        })
    }

    /// Sends it once.
    pub(crate) async fn run(self, attempt: u32) -> (Event, Vec<StoredArtifact>) {
        let Came { attempt: outcome, artifacts } = self.once(attempt).await;
        (
            Event::ToolAttempted { at: self.env.now(), call: self.call_id, outcome, jitter: jitter() },
            artifacts,
        )
    }

    pub(crate) async fn once(&self, attempt: u32) -> Came {
        #[cfg(feature = "faults")]
        if let Some(came) = self.env.early.take(self.call_id) {
            return came;
        }
        let (input, key) = (self.input.clone(), self.key.clone());
        let span = &tool_span(self.facts.lease.run_id, self.call_id, attempt);
        self.send(Sending { tool: &self.tool, input, key, attempt, span }).await
    }

    async fn send(&self, sending: Sending<'_>) -> Came {
        let place = is_limited(sending.tool).then(|| {
            let (tool_name, attempt) = (sending.tool.name.clone(), sending.attempt);
            let place = PlaceTaken { tool_name, call_id: self.call_id, attempt };
            Place::new(&self.env, self.facts.lease, place, &self.gate, &self.places)
        });
        if let Some(place) = &place {
            match place.wait(sending.tool).await {
                Ok(None) => {}
                Ok(Some(attempt)) => return attempt.into(),
                Err(error) => return unprepared(&error).into(),
            }
        }
        match self.prepare(sending).await {
            Ok(prepared) => {
                self.leave().await;
                faults::before_of(Point::Effect, &prepared.tool.name);
                let came = self.env.tools.run(&prepared).await;
                faults::after_of(Point::Effect, &prepared.tool.name);
                came
            }
            Err(error) => unprepared(&error).into(),
        }
    }

    /// Waits until a request may leave, which may be never: the lease is lost, or the call was called back.
    async fn leave(&self) {
        self.hold.sure().await;
        if !self.gate.leave() {
            std::future::pending::<()>().await;
        }
    }

    async fn prepare(&self, sending: Sending<'_>) -> Result<PreparedCall, StoreError> {
        let Sending { tool, input, key, attempt, span } = sending;
        let tenant = self.facts.lease.tenant_id;
        let names = secret_names(tool);
        Ok(PreparedCall {
            tenant_id: tenant,
            run_id: self.facts.lease.run_id,
            workspace_id: self.facts.workspace_id,
            call_id: self.call_id,
            secrets: patiently(|| self.env.store.secrets(tenant, &names)).await?,
            signing_secrets: patiently(|| self.env.signing_secrets(tenant)).await?,
            context: self.facts.context.clone(),
            traceparent: self.facts.traceparent(span),
            artifact_id: ArtifactId(Uuid::now_v7()),
            tool: tool.clone(),
            input,
            idempotency_key: key,
            attempt,
        })
    }

    /// Looks for an earlier entry that the call takes its outcome from; one that is under way is waited for.
    pub(crate) async fn claim_key(self) -> Event {
        loop {
            match patiently(|| self.earlier()).await {
                Ok(None) => return self.unclaimed().await,
                Ok(Some(Ok(holder))) => {
                    return Event::KeyTaken { at: self.env.now(), call: self.call_id, holder };
                }
                Ok(Some(Err(()))) => tokio::time::sleep(KEY_LOOK).await,
                Err(error) => {
                    let detail = format!("the ledger can't be read: {error}");
                    return Event::Broken { at: self.env.now(), code: "internal_error".into(), detail };
                }
            }
        }
    }

    /// No earlier entry is in the call's way. Of another agent's call it is asked who that is.
    async fn unclaimed(&self) -> Event {
        let (tenant, call) = (self.facts.lease.tenant_id, self.call_id);
        let Some(agent) = &self.tool.agent else { return Event::KeyFree { at: self.env.now(), call } };
        let (store, version) = (&self.env.store, agent.agent_version);
        match patiently(|| store.called_agent(tenant, agent.agent_id, version)).await {
            Ok(found) => Event::AgentFound { at: self.env.now(), call, found },
            Err(error) => {
                let detail = format!("the agent of a call can't be read: {error}");
                Event::Broken { at: self.env.now(), code: "internal_error".into(), detail }
            }
        }
    }

    /// The same effect made before, or whoever has the business key. `Err(())` inside: it is under way.
    async fn earlier(&self) -> Result<Option<Result<KeyHolder, ()>>, StoreError> {
        let (store, lease) = (&self.env.store, self.facts.lease);
        if self.takes_effects {
            let found = store.earlier_effect(lease, &self.tool.name, &self.input_hash).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        if !self.business_key || faults::without(Guard::BusinessKeys) {
            return Ok(None);
        }
        store.key_holder(lease.tenant_id, &self.tool.name, &self.key, &self.input_hash).await
    }

    /// Asks the far side what became of the call, with the reconcile tool's own retries.
    pub(crate) async fn reconcile(self, reconciler: Option<ToolSpec>) -> (Event, Vec<StoredArtifact>) {
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
        (
            Event::ToolReconciled { at: self.env.now(), call: self.call_id, reconciliation },
            artifact.into_iter().collect(),
        )
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
        let span = &reconcile_span(self.facts.lease.run_id, self.call_id, self.unclear);
        for attempt in 1.. {
            let (input, key) = (input.clone(), key.clone());
            let outcome = self.send(Sending { tool: reconciler, input, key, attempt, span }).await.attempt;
            match after_attempt(reconciler, attempt, false, outcome.clone(), jitter()) {
                Next::Retry(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                _ => return reconciliation(&outcome),
            }
        }
        (Reconciled::Unknown, None)
    }
}

fn unprepared(error: &StoreError) -> Attempt {
    tracing::error!(%error, "a call can't be prepared");
    Attempt::Refused(ErrorCode::Internal, "The runtime could not prepare this call.".into())
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
