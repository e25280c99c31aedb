//! Everything around the engine, in one hand: what it is to answer, and what it was asked.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use answerable_core::Millis;
use answerable_core::agent::AgentSpec;
use answerable_core::id::{ArtifactId, RunId, TenantId};
use answerable_core::ledger::Outcome;
use answerable_core::model::ModelRequest;
use answerable_core::run::{Record, RunState, Stage};
use answerable_core::tool::Attempt;
use answerable_core::trace::Frame;
use answerable_engine::{Engine, EngineConfig, EngineParts};
use answerable_ports::commit::{Commit, Inbound, InboundBody};
use answerable_ports::store::Rules;
use answerable_ports::{
    Allowance, AllowanceWanted, Claimed, Clock, Committed, LateOutcome, Lease, ListedTool, LoadedRun,
    McpFault, Observer, Placed, Signal, Signals,
};
use serde_json::json;
use tokio::sync::watch;
use uuid::Uuid;

/// Longest wait for something that must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the engine asked or was seen to do, in order.
#[derive(Debug, Clone)]
pub(crate) enum Heard {
    Renewed(Vec<Lease>),
    PutBack(Vec<Uuid>),
    HandedBack(Lease),
    Loaded(Lease),
    ClaimFailed,
    /// A claim that found nothing was asked for then, and answered.
    FoundNothing {
        asked: Instant,
        answered: Instant,
    },
    Commit(Box<Commit>),
    CommitFailed,
    /// A call would have begun that was judged by other rules than those of that moment.
    Fenced,
    /// An attempt on the model asks what it may take of the day.
    AsksAllowance(AllowanceWanted),
    /// A call of a tool with limits asks for its turn.
    AsksPlace,
    /// And gives it back.
    Freed {
        left: bool,
    },
    /// Preparing a call, it asks for secrets.
    Prepares,
    /// It doesn't wait for them any more.
    PreparationDropped,
    Sent,
    /// It doesn't wait for the far side any more.
    RequestDropped,
    /// The far side is to be told that nobody wants it any more.
    CalledOff,
    Late(LateOutcome),
    Settled,
    LeaseLost,
    /// The model is asked.
    Asked(Box<ModelRequest>),
    ArtifactsFailed,
    /// A server is asked for its tools.
    Listed,
    /// It looks for what is to be told of runs that others called.
    Sweeps,
}

/// What becomes of renewals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewals {
    Granted,
    Refused,
    /// Somebody is just at the rows.
    Busy,
    /// No answer comes.
    Silent,
}

/// What becomes of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commits {
    Stored,
    Away,
    Broken,
}

/// How everything behaves.
#[derive(Debug, Clone)]
pub(crate) struct Ways {
    /// The tool that the model wants, once.
    pub(crate) tool: &'static str,
    /// It wants it twice, in one reply.
    pub(crate) twice: bool,
    /// What calls are judged by; `None`: it can't be read.
    pub(crate) rules: Option<Rules>,
    /// What they become, one after the other, each right after they were read.
    pub(crate) next_rules: VecDeque<Rules>,
    /// The clock is set to this when calls would have begun by other rules.
    pub(crate) clock_when_fenced: Option<Millis>,
    pub(crate) renewals: Renewals,
    /// Leases that are another's by now.
    pub(crate) taken: HashSet<Lease>,
    pub(crate) commits: Commits,
    /// Claims fail from here on.
    pub(crate) claims_fail: bool,
    /// So long claims take to be answered.
    pub(crate) claims_take: Duration,
    /// So long those take that find nothing; these are noted then.
    pub(crate) vain_claims_take: Option<Duration>,
    /// The model answers once it has the call's result.
    pub(crate) concludes: bool,
    /// What an attempt on the model is told of the day; `None`: the tenant has no quota of it.
    pub(crate) allowance: Option<Allowance>,
    /// What a call of a tool with limits is told of its turn; `None`: nothing yet.
    pub(crate) place: Option<Placed>,
    /// So long it takes to give one back.
    pub(crate) frees_take: Duration,
    /// Secrets are given out.
    pub(crate) gives_secrets: bool,
    /// What the far side says; `None`: nothing yet.
    pub(crate) answer: Option<Attempt>,
    pub(crate) inbox: Vec<Inbound>,
    /// What artifacts hold.
    pub(crate) artifacts: BTreeMap<ArtifactId, Arc<[u8]>>,
    /// They can't be had.
    pub(crate) artifacts_fail: bool,
    /// Looks for what is to be told of runs that others called are answered.
    pub(crate) sweeps: bool,
    /// The new owner of a run has said what it takes its call for.
    pub(crate) owner_spoke: bool,
    /// What MCP servers offer; those that are not named offer nothing.
    pub(crate) offers: BTreeMap<&'static str, Result<Vec<ListedTool>, McpFault>>,
}

/// Everything around the engine.
pub(crate) struct Desk {
    pub(crate) ways: watch::Sender<Ways>,
    heard: watch::Sender<Vec<Heard>>,
    pub(crate) run: Mutex<LoadedRun>,
    pub(crate) claims: Mutex<Vec<Claimed>>,
    pub(crate) clock: Clock,
    signals: Signals,
}

impl Desk {
    /// With a new run to be claimed.
    pub(crate) fn new() -> Arc<Self> {
        Self::with(accepted(), Vec::new(), 0)
    }

    pub(crate) fn with(state: RunState, inbox: Vec<Inbound>, deaths: u32) -> Arc<Self> {
        let ways = Ways {
            tool: "pay",
            twice: false,
            rules: Some(Rules::default()),
            next_rules: VecDeque::new(),
            clock_when_fenced: None,
            renewals: Renewals::Granted,
            taken: HashSet::new(),
            commits: Commits::Stored,
            claims_fail: false,
            claims_take: Duration::ZERO,
            vain_claims_take: None,
            concludes: true,
            allowance: None,
            place: Some(Placed::Taken),
            frees_take: Duration::ZERO,
            gives_secrets: true,
            answer: None,
            inbox: Vec::new(),
            artifacts: BTreeMap::new(),
            artifacts_fail: false,
            sweeps: true,
            owner_spoke: true,
            offers: BTreeMap::new(),
        };
        let desk = Self {
            ways: watch::Sender::new(ways),
            heard: watch::Sender::new(Vec::new()),
            run: Mutex::new(loaded(state, inbox)),
            claims: Mutex::default(),
            clock: Clock::default(),
            signals: Signals::new().0,
        };
        desk.claims.lock().expect("no panic").push(Claimed { lease: desk.lease(1), deaths, may_start: true });
        Arc::new(desk)
    }

    pub(crate) fn lease(&self, epoch: i64) -> Lease {
        let run_id = self.run.lock().expect("no panic").state.run_id;
        Lease { tenant_id: TenantId(run_id.0), run_id, epoch }
    }

    /// Lets an engine work at it.
    pub(crate) fn start(self: &Arc<Self>, lease_for: Duration) -> Engine {
        let config = EngineConfig {
            server: Uuid::now_v7(),
            lease_for,
            max_running: 4,
            drain_for: Duration::from_millis(100),
            max_recoveries: 5,
            trace_content: false,
        };
        let parts = EngineParts {
            store: Arc::clone(self) as Arc<dyn answerable_ports::RunStore>,
            models: Arc::clone(self) as Arc<dyn answerable_ports::ModelProvider>,
            tools: Arc::clone(self) as Arc<dyn answerable_ports::ToolExecutor>,
            tool_source: Arc::clone(self) as Arc<dyn answerable_ports::ToolSource>,
            signals: self.signals.clone(),
            clock: self.clock.clone(),
            observer: Arc::clone(self) as Arc<dyn Observer>,
        };
        Engine::start(config, parts)
    }

    pub(crate) fn now(&self, change: impl FnOnce(&mut Ways)) {
        self.ways.send_modify(change);
    }

    pub(crate) fn note(&self, heard: Heard) {
        self.heard.send_modify(|all| all.push(heard));
    }

    pub(crate) fn all(&self) -> Vec<Heard> {
        self.heard.borrow().clone()
    }

    /// Waits until `found` finds something in what was heard.
    pub(crate) async fn until<T>(&self, found: impl Fn(&[Heard]) -> Option<T>) -> T {
        let mut heard = self.heard.subscribe();
        let came = tokio::time::timeout(PATIENCE, heard.wait_for(|all| found(all).is_some())).await;
        if came.is_err() {
            panic!("it doesn't come: {:#?}", self.all());
        }
        found(&self.all()).expect("it was there")
    }

    /// Waits for `count` things of a kind.
    pub(crate) async fn until_heard(&self, count: usize, kind: impl Fn(&Heard) -> bool) {
        self.until(|all| (all.iter().filter(|heard| kind(heard)).count() >= count).then_some(())).await;
    }

    /// Waits until the request of a call leaves.
    pub(crate) async fn sent(&self) {
        self.until_heard(1, |heard| matches!(heard, Heard::Sent)).await;
    }

    pub(crate) fn sent_count(&self) -> usize {
        self.all().iter().filter(|heard| matches!(heard, Heard::Sent)).count()
    }

    /// Waits for what becomes known of a call late.
    pub(crate) async fn late(&self) -> LateOutcome {
        self.until(|all| {
            all.iter().find_map(|heard| match heard {
                Heard::Late(late) => Some(late.clone()),
                _ => None,
            })
        })
        .await
    }

    /// What was committed of calls.
    pub(crate) fn closed(&self) -> Vec<Outcome> {
        let closed = |record| match record {
            Record::LedgerClosed { outcome, .. } => Some(outcome),
            _ => None,
        };
        self.commits().into_iter().flat_map(|commit| commit.records).filter_map(closed).collect()
    }

    pub(crate) fn commits(&self) -> Vec<Commit> {
        let commit = |heard| match heard {
            Heard::Commit(commit) => Some(*commit),
            _ => None,
        };
        self.all().into_iter().filter_map(commit).collect()
    }

    pub(crate) async fn ended(&self) -> RunState {
        self.until(|all| {
            all.iter().find_map(|heard| match heard {
                Heard::Commit(commit) if commit.state.is_ended() => Some(commit.state.clone()),
                _ => None,
            })
        })
        .await
    }

    /// A run may be due.
    pub(crate) fn signal_work(&self) {
        self.signals.tell(Signal::Work);
    }

    /// Somebody cancels the run.
    pub(crate) fn cancel(&self) {
        let cancel = Inbound { number: 1, body: InboundBody::Cancel { reason: None } };
        self.now(|ways| ways.inbox = vec![cancel]);
        self.signals.tell(Signal::Inbox(self.lease(1).run_id.0));
    }

    /// Waits until so many more renewals were asked for, and gives what they asked.
    pub(crate) async fn next_renewals(&self, count: usize) -> Vec<Vec<Lease>> {
        let renewals = |all: &[Heard]| -> Vec<Vec<Lease>> {
            let leases = |heard: &Heard| match heard {
                Heard::Renewed(leases) => Some(leases.clone()),
                _ => None,
            };
            all.iter().filter_map(leases).collect()
        };
        let before = renewals(&self.all()).len();
        let after = self.until(|all| Some(renewals(all)).filter(|known| known.len() >= before + count)).await;
        after[before..].to_vec()
    }
}

impl Observer for Desk {
    fn committed(&self, _: &Committed<'_>) {}

    fn commit_failed(&self) {
        self.note(Heard::CommitFailed);
    }

    fn taken_over(&self) {}

    fn lease_lost(&self) {
        self.note(Heard::LeaseLost);
    }
}

/// A state whose call is out.
pub(crate) fn is_out(commit: &Commit) -> bool {
    commit.state.calls.iter().any(|call| matches!(call.stage, Stage::Out { .. }))
}

fn agent() -> AgentSpec {
    let tool = |name: &str, idempotent: bool| {
        json!({"name": name, "kind": "http", "risk": "low", "side_effect": "write", "idempotent": idempotent,
            "http": {"url": "https://bank.example/", "headers": {"x-key": "{{secret.key}}"}}})
    };
    let asks = |name: &str, side_effect: &str| {
        json!({"name": name, "kind": "agent", "side_effect": side_effect, "input_schema": {"type": "object"},
            "agent": {"agent_id": "agt_0192f0c1-2345-7890-abcd-ef0123456789"}})
    };
    let mut queue = tool("queue", false);
    (queue["max_concurrent"], queue["timeout_ms"]) = (json!(1), json!(400));
    let tools = [tool("pay", false), tool("file", true), queue, asks("ask", "write"), asks("look", "none")];
    let agent = json!({"name": "a", "instructions": "x", "model": {"provider": "main", "model": "m"},
        "policy": {"rules": [{"tool": "*", "effect": "allow"}]}, "tools": tools});
    serde_json::from_value(agent).expect("an agent")
}

fn accepted() -> RunState {
    let at = chrono::Utc::now().timestamp_millis();
    RunState::accepted(RunId(Uuid::now_v7()), agent().budgets, 1, at, None)
}

fn loaded(state: RunState, inbox: Vec<Inbound>) -> LoadedRun {
    let frame = Frame {
        tenant_id: TenantId(state.run_id.0),
        run_id: state.run_id,
        agent: None,
        thread_id: None,
        accepted_at: 0,
        parent: None,
        links: Vec::new(),
        content: false,
    };
    LoadedRun {
        frame,
        state,
        seq: 0,
        agent: agent(),
        agent_hash: "h".into(),
        tools: Vec::new(),
        agent_id: None,
        thread_id: None,
        workspace_id: answerable_core::id::WorkspaceId(uuid::Uuid::nil()),
        context: json!({}),
        trace_id: "0".repeat(32),
        history: Vec::new(),
        inputs: BTreeMap::new(),
        known_inbox: inbox.last().map_or(0, |item| item.number),
        rested: Vec::new(),
        inbox,
    }
}
