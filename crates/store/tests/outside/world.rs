//! A tenant with a database of its own, and an engine that does what a test tells it.

use std::collections::BTreeMap;
use std::time::Duration;

use answerable_core::agent::AgentSpec;
use answerable_core::budget::{Budgets, Estimate, OnExhausted};
use answerable_core::context::Manifest;
use answerable_core::id::{ApprovalId, CallId, LedgerId, MessageId, RunId, TenantId};
use answerable_core::input::InputMessage;
use answerable_core::ledger::Outcome;
use answerable_core::model::Usage;
use answerable_core::permission::{CallFacts, Policies, judge};
use answerable_core::registry::{Registry, Validation};
use answerable_core::reply::ReplyKind;
use answerable_core::run::{Event, NewCall, ReplyFacts, RunConfig, RunState, step};
use answerable_core::schema::Effort;
use answerable_core::tool::{Attempt, ErrorCode, Output};
use answerable_core::trace::{Told, TraceContext, spans};
use answerable_ports::commit::{Commit, CommitOutcome, Release, StoredArtifact};
use answerable_ports::{LateOutcome, Lease, Room, RunStore};
use answerable_store::{
    ApprovalRecord, ConnectOptions, Decision, DecisionWord, EngineStore, NewRun, OnBusy, RunRecord,
    RunRefused, Sealer, Signals, Store, TenantTx, Voter,
};
use answerable_testkit::TestDatabase;
use serde_json::{Map, Value, json};
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

/// Room for so many runs.
pub(crate) fn room(limit: usize) -> Room<'static> {
    Room { limit, ..Room::default() }
}

pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) tenant: TenantId,
    pub(crate) engine: EngineStore,
    pub(crate) server: Uuid,
    database: TestDatabase,
}

/// An agent with a gated tool, a client tool, a client tool that writes, and one whose effects people are asked about.
pub(crate) fn agent() -> Value {
    json!({"name": "desk", "instructions": "Help.", "model": {"provider": "main", "model": "m"},
        "policy": {"rules": [{"tool": "pay", "effect": "ask"}, {"tool": "both", "effect": "ask", "approvals": 2},
            {"tool": "pay", "effect": "deny", "input": {"required": ["amount"], "properties": {"amount": {"minimum": 50}}}},
            {"tool": "brief", "effect": "ask", "expires_ms": 1}]},
        "budgets": {"max_steps": 2},
        "tools": [
            tool("pay", json!({"input_schema": {"type": "object", "required": ["amount"],
                "properties": {"amount": {"type": "integer"}}}})),
            tool("both", json!({})), tool("brief", json!({})), tool("ask_user", json!({"side_effect": "none"})),
            tool("open_door", json!({})),
            {"name": "ask", "kind": "agent", "agent": {"agent_id": "agt_0192f0c1-2345-7890-abcd-ef0123456789"}},
            {"name": "wire", "kind": "http", "http": {"url": "https://bank.example/wire"}, "side_effect": "write",
                "on_uncertain": "ask"},
            {"name": "mail", "kind": "http", "http": {"url": "https://mail.example/"}, "side_effect": "write",
                "on_uncertain": "observe"},
            {"name": "book", "kind": "http", "http": {"url": "https://books.example/"}, "side_effect": "write",
                "parallel_safe": true, "idempotency_key": "{{input.id}}"}]})
}

fn tool(name: &str, more: Value) -> Value {
    let mut tool = json!({"name": name, "kind": "client", "side_effect": "write", "parallel_safe": true});
    for (key, value) in more.as_object().into_iter().flatten() {
        tool[key] = value.clone();
    }
    tool
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with_quotas(json!({})).await
    }

    pub(crate) async fn with_quotas(quotas: Value) -> Self {
        let database = TestDatabase::create().await.expect("a database");
        let (signals, _) = Signals::new();
        let options =
            ConnectOptions { url: database.url.clone(), max_connections: 20, prepared_statements: true };
        let store = Store::connect(&options, Sealer::new(&[7; 32]), signals).expect("a store");
        let tenant = new_tenant(&store, &quotas).await;
        let engine = EngineStore::new(store.clone(), "https://answers.example".into(), true);
        Self { store, tenant, engine, server: Uuid::now_v7(), database }
    }

    pub(crate) async fn tx(&self) -> TenantTx {
        self.store.tenant(self.tenant).await.expect("a transaction")
    }

    /// Where the database is, past any pool, as its owner.
    pub(crate) fn url(&self) -> &str {
        &self.database.url
    }

    /// A connection as a superuser, for a look that no tenant has.
    pub(crate) async fn superuser(&self) -> PgConnection {
        PgConnection::connect(self.url()).await.expect("a connection")
    }

    /// The sealed key that links are signed with is the world's own.
    pub(crate) async fn another_tenant(&self) -> TenantId {
        new_tenant(&self.store, &json!({})).await
    }

    /// Accepts a run of [`agent`].
    pub(crate) async fn start(&self, change: impl FnOnce(&mut NewRun)) -> Result<RunId, RunRefused> {
        let spec: AgentSpec = serde_json::from_value(agent()).expect("an agent");
        let mut tx = self.tx().await;
        let spec_hash = tx.agent_spec_put(&spec).await.expect("stored");
        let mut new = new_run(spec_hash, spec.budgets);
        change(&mut new);
        tx.run_create(&new).await.expect("an answer")?;
        tx.commit().await.expect("committed");
        Ok(new.run_id)
    }

    /// A run whose model has made these calls, parked at whatever they wait for.
    pub(crate) async fn waiting(&self, calls: &[(&str, Value)]) -> RunId {
        let run = self.start(|_| ()).await.expect("a run");
        let lease = self.claim(run).await;
        let registry = self.registry();
        let at = self.now().await;
        let calls = calls.iter().map(|(name, input)| new_call(&registry, name, input, at)).collect();
        self.fold(lease, first_step(at, calls), Release::Park { wake_at: None }).await;
        run
    }

    /// A run that has used its one step and asks for more.
    pub(crate) async fn asking_for_steps(&self) -> RunId {
        let limits = Budgets { max_steps: 1, on_exhausted: OnExhausted::Ask, ..Budgets::default() };
        let run = self.start(|new| new.budgets = limits).await.expect("a run");
        let registry = self.registry();
        let at = self.now().await;
        let call = new_call(&registry, "mail", &json!({}), at);
        let id = call.id;
        let mut events = first_step(at, vec![call]);
        events.push(Event::ToolAttempted {
            at,
            call: id,
            outcome: Attempt::Succeeded(Output::plain("sent")),
            jitter: 0,
        });
        let lease = self.claim(run).await;
        self.fold(lease, events, Release::Park { wake_at: None }).await;
        run
    }

    /// The call's only attempt came to nothing that anybody could tell.
    pub(crate) async fn cut(&self, run: RunId, call: CallId) {
        let at = self.now().await;
        let outcome = Attempt::Unclear(ErrorCode::Timeout, "the line was cut".into());
        self.wake(run).await;
        let lease = self.claim(run).await;
        self.fold(
            lease,
            vec![Event::ToolAttempted { at, call, outcome, jitter: 0 }],
            Release::Park { wake_at: None },
        )
        .await;
    }

    /// The run is cancelled, as its owner would do it.
    pub(crate) async fn end(&self, run: RunId) {
        self.wake(run).await;
        let lease = self.claim(run).await;
        let at = self.now().await;
        self.fold(lease, vec![Event::CancelRequested { at, reason: None }], Release::End).await;
    }

    /// A run that is cancelled before it begins.
    pub(crate) async fn cancelled(&self, change: impl FnOnce(&mut NewRun)) -> RunId {
        let run = self.start(change).await.expect("a run");
        let lease = self.claim(run).await;
        let at = self.now().await;
        self.fold(lease, vec![Event::CancelRequested { at, reason: None }], Release::End).await;
        run
    }

    /// Folds events and commits them, everything in the inbox with them.
    pub(crate) async fn fold(&self, lease: Lease, events: Vec<Event>, release: Release) -> RunState {
        let (seq, commit) = self.draft(lease, events, release).await;
        let state = commit.state.clone();
        let outcome = self.engine.commit(lease, seq, commit, Uuid::now_v7()).await.expect("an answer");
        assert_eq!(outcome, CommitOutcome::Stored);
        state
    }

    /// Folds events over what is stored: the commit, and the number that it expects.
    pub(crate) async fn draft(&self, lease: Lease, events: Vec<Event>, release: Release) -> (i64, Commit) {
        let loaded = self.engine.load(lease).await.expect("an answer").expect("the lease");
        let registry = self.registry();
        let config = RunConfig { registry: &registry, max_recoveries: 5 };
        let (mut state, mut records, mut told) = (loaded.state, Vec::new(), Vec::new());
        for event in &events {
            let next = step(config, state.clone(), event.clone()).expect("a legal event");
            let (before, after, inputs) = (&state, &next.state, &BTreeMap::new());
            let ended = Told { registry: &registry, before, event, after, records: &next.records, inputs };
            told.push(spans(&loaded.frame, &ended));
            state = next.state;
            records.extend(next.records);
        }
        let commit = Commit {
            state,
            at: events.last().map_or(0, Event::at),
            events,
            spans: told,
            records,
            thread_id: loaded.thread_id,
            asked_inputs: Vec::new(),
            artifacts: Vec::new(),
            consumed: loaded.inbox.iter().map(|inbound| inbound.number).collect(),
            known_inbox: loaded.known_inbox,
            release,
        };
        (loaded.seq, commit)
    }

    pub(crate) async fn claim(&self, run: RunId) -> Lease {
        let claimed =
            self.engine.claim(self.server, &room(100), Duration::from_secs(60)).await.expect("claims");
        let found = claimed.runs.into_iter().find(|claimed| claimed.lease.run_id == run);
        found.expect("the run is due").lease
    }

    /// Makes the run due: something came in.
    pub(crate) async fn wake(&self, run: RunId) {
        let mut tx = self.tx().await;
        tx.run_steer(run, &"go on".into(), false).await.expect("an answer").expect("steered");
        tx.commit().await.expect("committed");
    }

    /// What came in for the run, in order.
    pub(crate) async fn inbox(&self, run: RunId) -> Vec<answerable_ports::commit::InboundBody> {
        let lease = Lease { tenant_id: self.tenant, run_id: run, epoch: 0 };
        let inbound = self.engine.inbox(lease, 0).await.expect("an inbox");
        inbound.into_iter().map(|inbound| inbound.body).collect()
    }

    pub(crate) fn registry(&self) -> Registry {
        Registry::compile(serde_json::from_value(agent()).expect("an agent")).expect("it compiles")
    }

    pub(crate) async fn now(&self) -> i64 {
        chrono::Utc::now().timestamp_millis()
    }

    pub(crate) async fn view(&self, run: RunId) -> RunRecord {
        self.tx().await.run_fetch(run).await.expect("an answer").expect("the run")
    }

    /// The run's pending approvals, oldest first.
    pub(crate) async fn pending(&self, run: RunId) -> Vec<ApprovalRecord> {
        self.view(run).await.pending_approvals
    }

    /// The one call of the run that waits for its client.
    pub(crate) async fn parked(&self, run: RunId) -> CallId {
        CallId(self.view(run).await.pending_calls.first().expect("a parked call").call_id)
    }

    pub(crate) async fn decide(
        &self,
        approval: Uuid,
        decision: Decision,
        by: &str,
    ) -> Result<ApprovalRecord, answerable_store::DecisionRefused> {
        self.decide_as(approval, decision, &voter(by)).await
    }

    pub(crate) async fn decide_as(
        &self,
        approval: Uuid,
        decision: Decision,
        voter: &Voter,
    ) -> Result<ApprovalRecord, answerable_store::DecisionRefused> {
        let mut tx = self.tx().await;
        let decided = tx.approval_decide(ApprovalId(approval), &decision, voter).await.expect("an answer")?;
        tx.commit().await.expect("committed");
        Ok(decided)
    }
}

/// What became of the first attempt of a call, late.
pub(crate) fn late(call: CallId, outcome: Outcome, artifact: Option<StoredArtifact>) -> LateOutcome {
    LateOutcome {
        ledger_id: LedgerId(call.0),
        attempts: 1,
        outcome,
        content: Some("done".into()),
        artifacts: artifact.into_iter().collect(),
    }
}

/// Somebody whose key is not looked at.
pub(crate) fn voter(by: &str) -> Voter {
    Voter { by: by.into(), key: None }
}

pub(crate) fn decision(word: DecisionWord) -> Decision {
    Decision { word, input: None, content: None, reason: None, input_hash: None, remember: None }
}

async fn new_tenant(store: &Store, quotas: &Value) -> TenantId {
    let quotas: Map<String, Value> = quotas.as_object().cloned().unwrap_or_default();
    let mut tx = store.system().await.expect("a transaction");
    let tenant = tx.tenant_create("a shop", &quotas, false).await.expect("a tenant");
    tx.commit().await.expect("committed");
    TenantId(tenant.tenant_id)
}

fn new_run(spec_hash: String, budgets: Budgets) -> NewRun {
    NewRun {
        run_id: RunId(Uuid::now_v7()),
        agent: None,
        spec_hash,
        thread_id: None,
        on_busy: OnBusy::Queue,
        budgets,
        messages: vec![InputMessage::of_user("go")],
        context: json!({"big": 1_234_567_890_123_456_789_u64}),
        metadata: json!({}),
        trace: TraceContext::of("0123456789abcdef0123456789abcdef".into(), None, false),
        created_by: "key_1".into(),
        creators: vec!["key_1".into()],
        policy: None,
        priority: 0,
        not_before: None,
        deadline: None,
        concurrency_key: None,
        schedule: None,
        origin: None,
        needs: 1,
        depth: 0,
    }
}

pub(crate) fn first_step(at: i64, calls: Vec<NewCall>) -> Vec<Event> {
    let (manifest, estimate) = (Manifest::default(), Estimate::default());
    vec![
        Event::Started { at },
        Event::ContextBuilt {
            at,
            manifest,
            estimate,
            provider: "main".into(),
            model: "m".into(),
            duration_ms: 0,
        },
        Event::ModelReplied { at, reply: Box::new(reply()), calls, more_input: false },
    ]
}

pub(crate) fn new_call(registry: &Registry, name: &str, input: &Value, at: i64) -> NewCall {
    let id = CallId(Uuid::now_v7());
    let input_hash = answerable_core::json::input_hash(input);
    let tool = registry.tool(name).expect("a tool");
    let facts = CallFacts {
        tool_name: name,
        risk: tool.risk,
        input,
        input_hash: &input_hash,
        context: &json!({}),
        creators: &[],
        effort: &Effort::of_one(),
    };
    let judgement = judge(Policies { agent: &registry.policy, tenant: None, run: None }, &[], &facts, at);
    NewCall {
        id,
        model_call_id: None,
        tool_name: name.into(),
        input: input.clone(),
        input_hash,
        validation: Validation::Ok,
        message: None,
        judgement: Some(judgement),
        idempotency_key: (id.to_string(), false),
        message_id: Some(MessageId(Uuid::now_v7())),
    }
}

fn reply() -> ReplyFacts {
    ReplyFacts {
        kind: ReplyKind::Calls,
        text: String::new(),
        extra: None,
        finish_reason: Some("tool_calls".into()),
        usage: Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() },
        cost_microusd: 0,
        duration_ms: 1,
        message_id: MessageId(Uuid::now_v7()),
        output_fault: None,
        wire: None,
    }
}
