//! Runs.

use answerable_core::Millis;
use answerable_core::budget::{BudgetPatch, Budgets};
use answerable_core::id::{AgentId, CallId, LedgerId, RunId, ScheduleId, ThreadId, WorkspaceId};
use answerable_core::run::RunState;
use answerable_store::{OnBusy, RunRecord};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Time;
use super::approvals::Approval;
use super::calls::ToolCall;
use crate::body::RequestBody;

/// A run as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    id: RunId,
    object: &'static str,
    status: String,
    stop_reason: Option<String>,
    final_answer: Option<String>,
    error: Option<Value>,
    agent_id: Option<AgentId>,
    agent_version: Option<i32>,
    thread_id: Option<ThreadId>,
    policy: Option<Value>,
    attempt: u32,
    trace_id: String,
    budgets: Value,
    pending_approvals: Vec<Approval>,
    pending_tool_calls: Vec<ToolCall>,
    denied: Vec<Value>,
    uncertain: Vec<LedgerId>,
    parent: Option<Value>,
    origin: Option<Value>,
    replay: Option<Value>,
    workspace_root: String,
    run_dir: String,
    metadata: Value,
    priority: i16,
    concurrency_key: Option<String>,
    schedule_id: Option<ScheduleId>,
    due_at: Option<Time>,
    not_before: Option<Time>,
    deadline: Option<Time>,
    created_at: Time,
    started_at: Option<Time>,
    finished_at: Option<Time>,
}

impl From<RunRecord> for Run {
    fn from(run: RunRecord) -> Self {
        let id = RunId(run.run_id);
        let replay = run
            .origin
            .as_ref()
            .filter(|(kind, ..)| kind == "replay")
            .map(|(_, of, _)| json!({"of": RunId(*of), "first_difference": run.first_difference}));
        Self {
            id,
            object: "run",
            status: run.status,
            stop_reason: run.stop_reason,
            final_answer: run.final_answer,
            error: run.error,
            agent_id: run.agent_id.map(AgentId),
            agent_version: run.agent_version,
            thread_id: run.thread_id.map(ThreadId),
            policy: run.policy,
            attempt: run.state.attempt(),
            trace_id: run.trace_id,
            budgets: budgets(&run.budgets, &run.state, run.at),
            pending_approvals: run.pending_approvals.into_iter().map(Approval::from).collect(),
            pending_tool_calls: run.pending_calls.into_iter().map(ToolCall::from).collect(),
            denied: denied(&run.state),
            uncertain: run.uncertain.into_iter().map(LedgerId).collect(),
            parent: run.parent.map(|of| json!({"run_id": RunId(of), "tool_call_id": CallId(run.run_id)})),
            origin: run
                .origin
                .map(|(kind, run, step)| json!({"kind": kind, "run_id": RunId(run), "after_step": step})),
            replay,
            workspace_root: format!("workspace://{}", WorkspaceId(run.workspace_id)),
            run_dir: format!("run://{id}"),
            metadata: run.metadata,
            priority: run.priority,
            concurrency_key: run.concurrency_key,
            schedule_id: run.schedule_id.map(ScheduleId),
            due_at: run.due_at.map(Time),
            not_before: run.not_before.map(Time),
            deadline: run.deadline.map(Time),
            created_at: Time(run.created_at),
            started_at: run.started_at.map(Time),
            finished_at: run.finished_at.map(Time),
        }
    }
}

fn budgets(limits: &Budgets, state: &RunState, at: Millis) -> Value {
    let used = &state.used;
    json!({
        "max_steps": limits.max_steps, "max_tokens": limits.max_tokens, "max_tool_calls": limits.max_tool_calls,
        "timeout_ms": limits.timeout_ms, "max_cost_microusd": limits.max_cost_microusd, "on_exhausted": limits.on_exhausted,
        "used": {
            "steps": used.steps, "tokens": used.tokens(), "input_tokens": used.input_tokens,
            "output_tokens": used.output_tokens, "tool_calls": used.tool_calls, "elapsed_ms": state.elapsed_ms(at),
            "cost_microusd": used.cost_microusd,
        },
    })
}

fn denied(state: &RunState) -> Vec<Value> {
    let one = |denied: &answerable_core::run::Denied| {
        json!({"tool_call_id": denied.tool_call_id, "tool_name": denied.tool_name, "reason": denied.reason,
            "decided_by": denied.decided_by})
    };
    state.denied.iter().map(one).collect()
}

/// A run that somebody wants.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunCreate {
    #[serde(default)]
    pub(crate) agent_id: Option<String>,
    #[serde(default)]
    pub(crate) agent_version: Option<i32>,
    #[serde(default)]
    pub(crate) agent: Option<Value>,
    pub(crate) input: Value,
    #[serde(default)]
    pub(crate) thread_id: Option<String>,
    #[serde(default)]
    on_busy: OnBusyWord,
    #[serde(default)]
    pub(crate) budgets: BudgetPatch,
    #[serde(default)]
    pub(crate) policy: Option<Value>,
    #[serde(default)]
    pub(crate) context: Map<String, Value>,
    #[serde(default)]
    pub(crate) metadata: Map<String, Value>,
    #[serde(default)]
    pub(crate) priority: i16,
    #[serde(default)]
    pub(crate) not_before: Option<DateTime<Utc>>,
    #[serde(default)]
    pub(crate) deadline: Option<DateTime<Utc>>,
    #[serde(default)]
    pub(crate) concurrency_key: Option<String>,
}

impl RequestBody for RunCreate {
    const CONTENT: &'static [&'static str] = &["/input"];
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OnBusyWord {
    #[default]
    Queue,
    Reject,
    CancelPrevious,
}

impl RunCreate {
    /// What to do where another run of the thread hasn't ended.
    pub(crate) fn on_busy(&self) -> OnBusy {
        match self.on_busy {
            OnBusyWord::Queue => OnBusy::Queue,
            OnBusyWord::Reject => OnBusy::Reject,
            OnBusyWord::CancelPrevious => OnBusy::CancelPrevious,
        }
    }
}

/// A change of a run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunUpdate {
    #[serde(default)]
    pub(crate) budgets: Option<BudgetPatch>,
    #[serde(default)]
    pub(crate) metadata: Option<Map<String, Value>>,
}

impl RequestBody for RunUpdate {}

/// Somebody wants a run to end.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelRequest {
    #[serde(default)]
    pub(crate) reason: Option<String>,
}

impl RequestBody for CancelRequest {}
