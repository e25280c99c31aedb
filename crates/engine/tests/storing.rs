//! The engine against a store that refuses, and a run whose server died: no write is sent twice or forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use answerable_core::agent::AgentSpec;
use answerable_core::id::{RunId, TenantId};
use answerable_core::ledger::{EntryStatus, Outcome};
use answerable_core::model::{Finish, ModelFailure, ModelReply, ModelRequest, ReplyCall};
use answerable_core::run::{Event, KeyHolder, Record, RunState, Status, StopReason};
use answerable_core::tool::{Attempt, Output};
use answerable_engine::{Engine, EngineConfig, EngineParts};
use answerable_ports::commit::{Commit, CommitOutcome, Inbound, InboundBody, Release, StoredArtifact};
use answerable_ports::store::Rules;
use answerable_ports::{
    Claimed, DeltaSink, LateOutcome, Lease, LoadedRun, ModelProvider, ModelTarget, Observer, PreparedCall,
    RunStore, Signals, StoreError, ToolExecutor, Wake,
};
use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use uuid::Uuid;

const UNSTORABLE: &str = "unstorable";

/// One run, and what was written of it.
struct Shelf {
    run: Mutex<LoadedRun>,
    claims: Mutex<Vec<Claimed>>,
    commits: Mutex<Vec<Commit>>,
    settled: AtomicU32,
}

impl Shelf {
    fn new(state: RunState, inbox: Vec<Inbound>, deaths: u32) -> Arc<Self> {
        let lease = Lease { tenant_id: TenantId(Uuid::now_v7()), run_id: state.run_id, epoch: 1 };
        let run = LoadedRun {
            state,
            seq: 0,
            agent: agent(),
            agent_hash: "h".into(),
            agent_id: None,
            thread_id: None,
            context: json!({}),
            trace_id: "0".repeat(32),
            history: Vec::new(),
            inputs: BTreeMap::new(),
            known_inbox: inbox.last().map_or(0, |item| item.number),
            inbox,
        };
        Arc::new(Self {
            run: Mutex::new(run),
            claims: Mutex::new(vec![Claimed { lease, deaths, may_start: true }]),
            commits: Mutex::default(),
            settled: AtomicU32::new(0),
        })
    }

    fn commits(&self) -> Vec<Commit> {
        self.commits.lock().expect("no panic").clone()
    }

    async fn ended(&self) -> RunState {
        for _ in 0..500 {
            let last = self.commits().pop().map(|commit| commit.state);
            if let Some(state) = last.filter(RunState::is_ended) {
                return state;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the run doesn't end: {:?}", self.commits());
    }

    fn closed(&self) -> Vec<Outcome> {
        let closed = |record| match record {
            Record::LedgerClosed { outcome, .. } => Some(outcome),
            _ => None,
        };
        self.commits().into_iter().flat_map(|commit| commit.records).filter_map(closed).collect()
    }
}

fn is_unstorable(event: &Event) -> bool {
    matches!(event, Event::ToolAttempted { outcome: Attempt::Succeeded(output), .. } if output.content == UNSTORABLE)
}

#[async_trait]
impl RunStore for Shelf {
    async fn claim(&self, _: Uuid, _: usize, _: Duration, _: bool) -> Result<Vec<Claimed>, StoreError> {
        Ok(std::mem::take(&mut *self.claims.lock().expect("no panic")))
    }

    async fn reclaim(&self, _: Uuid, _: usize, _: Duration, _: &[Uuid]) -> Result<Vec<Claimed>, StoreError> {
        Ok(Vec::new())
    }

    async fn put_back(&self, _: Uuid, _: &[Uuid]) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn renew(&self, _: Uuid, leases: &[Lease], _: Duration) -> Result<BTreeSet<Uuid>, StoreError> {
        Ok(leases.iter().map(|lease| lease.run_id.0).collect())
    }

    async fn hand_back(&self, _: Lease, _: Wake, _: i64) -> Result<(), StoreError> {
        Ok(())
    }

    async fn load(&self, _: Lease) -> Result<Option<LoadedRun>, StoreError> {
        Ok(Some(self.run.lock().expect("no panic").clone()))
    }

    async fn commit(&self, _: Lease, _: i64, commit: Commit, _: Uuid) -> Result<CommitOutcome, StoreError> {
        if commit.events.iter().any(is_unstorable) {
            return Err(StoreError::Broken("invalid byte sequence".into()));
        }
        self.commits.lock().expect("no panic").push(commit);
        Ok(CommitOutcome::Stored)
    }

    async fn inbox(&self, _: Lease, _: i64) -> Result<Vec<Inbound>, StoreError> {
        Ok(Vec::new())
    }

    async fn rules(&self, _: Lease, _: Option<Uuid>, _: Option<Uuid>) -> Result<Rules, StoreError> {
        Ok(Rules::default())
    }

    async fn model_target(&self, _: TenantId, name: &str) -> Result<Option<ModelTarget>, StoreError> {
        Ok(Some(ModelTarget {
            name: name.into(),
            kind: "fake".into(),
            base_url: String::new(),
            api_key: None,
            headers: BTreeMap::new(),
            prices: serde_json::from_value(json!({})).expect("no prices"),
            options: Map::new(),
            script: Vec::new(),
        }))
    }

    async fn secrets(&self, _: TenantId, _: &[String]) -> Result<BTreeMap<String, SecretString>, StoreError> {
        Ok(BTreeMap::new())
    }

    async fn signing_secrets(&self, _: TenantId) -> Result<Vec<SecretString>, StoreError> {
        Ok(Vec::new())
    }

    async fn key_holder(
        &self,
        _: TenantId,
        _: &str,
        _: &str,
        _: &str,
    ) -> Result<Option<Result<KeyHolder, ()>>, StoreError> {
        Ok(None)
    }

    async fn earlier_effect(
        &self,
        _: Lease,
        _: &str,
        _: &str,
    ) -> Result<Option<Result<KeyHolder, ()>>, StoreError> {
        Ok(None)
    }

    async fn late_outcome(&self, _: Lease, _: &LateOutcome) -> Result<bool, StoreError> {
        Ok(true)
    }

    async fn settle_ended(&self, _: Lease) -> Result<(), StoreError> {
        self.settled.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Wants the write once, then answers.
struct Model;

#[async_trait]
impl ModelProvider for Model {
    async fn ask(
        &self,
        _: &ModelTarget,
        request: &ModelRequest,
        _: Duration,
        _: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelFailure> {
        let call = ReplyCall { id: None, name: "pay".into(), arguments: "{}".into() };
        let calls = if request.turn <= 1 { vec![call] } else { Vec::new() };
        let text = if calls.is_empty() { "done".into() } else { String::new() };
        Ok(ModelReply {
            text,
            calls,
            finish: Finish::Stop,
            finish_reason: None,
            usage: None,
            extra: Map::new(),
        })
    }
}

/// Counts what is sent; its answer can't be stored, or never comes.
#[derive(Default)]
struct Tool {
    sent: AtomicU32,
    hangs: bool,
}

#[async_trait]
impl ToolExecutor for Tool {
    async fn run(&self, _: &PreparedCall) -> (Attempt, Option<StoredArtifact>) {
        self.sent.fetch_add(1, Ordering::SeqCst);
        if self.hangs {
            std::future::pending::<()>().await;
        }
        (Attempt::Succeeded(Output::plain(UNSTORABLE)), None)
    }
}

struct Nobody;

impl Observer for Nobody {
    fn committed(&self, _: &[Record], _: Duration) {}
    fn commit_failed(&self) {}
    fn taken_over(&self) {}
    fn lease_lost(&self) {}
}

fn agent() -> AgentSpec {
    let tool: Value = json!({"name": "pay", "kind": "http", "http": {"url": "https://bank.example/"}, "risk": "low",
        "side_effect": "write"});
    let agent = json!({"name": "a", "instructions": "x", "model": {"provider": "main", "model": "m"},
        "policy": {"rules": [{"tool": "pay", "effect": "allow"}]}, "tools": [tool]});
    serde_json::from_value(agent).expect("an agent")
}

fn accepted() -> RunState {
    let at = chrono::Utc::now().timestamp_millis();
    RunState::accepted(RunId(Uuid::now_v7()), agent().budgets, 1, at, None)
}

fn start(store: &Arc<Shelf>, tool: &Arc<Tool>) -> Engine {
    let config = EngineConfig {
        server: Uuid::now_v7(),
        lease_for: Duration::from_secs(5),
        max_running: 4,
        drain_for: Duration::from_millis(100),
        max_recoveries: 5,
    };
    let (store, tools): (Arc<dyn RunStore>, Arc<dyn ToolExecutor>) =
        (Arc::clone(store) as Arc<dyn RunStore>, Arc::clone(tool) as Arc<dyn ToolExecutor>);
    let parts = EngineParts {
        store,
        models: Arc::new(Model),
        tools,
        signals: Signals::new().0,
        clock: answerable_ports::Clock::default(),
        observer: Arc::new(Nobody),
    };
    Engine::start(config, parts)
}

#[tokio::test]
async fn a_write_whose_answer_can_not_be_stored_is_not_sent_again() {
    let (store, tool) = (Shelf::new(accepted(), Vec::new(), 0), Arc::new(Tool::default()));
    let engine = start(&store, &tool);
    let state = store.ended().await;
    engine.drain().await;
    assert_eq!(tool.sent.load(Ordering::SeqCst), 1);
    assert_eq!(state.end.map(|end| end.reason), Some(StopReason::InternalError));
    assert_eq!(store.closed(), [Outcome::succeeded(true)], "that it happened is known");
}

#[tokio::test]
async fn a_cancel_of_a_run_whose_server_died_leaves_no_open_entry() {
    // As far as the call being out.
    let (first, hanging) =
        (Shelf::new(accepted(), Vec::new(), 0), Arc::new(Tool { hangs: true, ..Tool::default() }));
    let engine = start(&first, &hanging);
    while hanging.sent.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let state = first.commits().pop().expect("the intent").state;
    engine.drain().await;
    let cancel = Inbound { number: 1, body: InboundBody::Cancel { reason: None } };
    let (store, tool) = (Shelf::new(state, vec![cancel], 1), Arc::new(Tool::default()));
    let engine = start(&store, &tool);
    assert_eq!(store.ended().await.status, Status::Cancelled);
    engine.drain().await;
    assert_eq!(tool.sent.load(Ordering::SeqCst), 0);
    let last = store.commits().pop().expect("the end");
    assert_eq!(last.release, Release::EndWithLateCalls);
    assert_eq!(store.settled.load(Ordering::SeqCst), 1, "the entry is closed as unclear");
    assert!(!store.closed().iter().any(|outcome| outcome.status == EntryStatus::Failed));
}
