//! RunState: what is true of this run. Ids, counters and small facts; never the bodies of messages.

use serde::{Deserialize, Serialize};

use super::bill::OnBill;
use super::call::Call;
use super::child::Given;
use super::clock::Clock;
use super::inherit::Inherited;
use super::listing::RunTools;
use super::open_approval::OpenApproval;
use super::status::{Status, StopReason};
use super::summing::Summing;
use crate::Millis;
use crate::budget::{Budgets, Estimate, Limit, Used};
use crate::correction::Correction;
use crate::id::{ApprovalId, CallId, RunId};
use crate::loop_guard::LoopGuard;
use crate::model_retry::Progress;
use crate::permission::Denials;

/// Newest version of the stored form that this binary understands. It understands all older ones, too.
pub const STATE_VERSION: u16 = 5;
/// Version of a state that has nothing newer in it.
const FIRST_VERSION: u16 = 1;

/// The state of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    /// [`STATE_VERSION`] that a binary needs at least to work on this run: while servers are upgraded one after another,
    /// the older ones go on with all runs that have nothing new in them.
    pub version: u16,
    /// Whose state it is.
    pub run_id: RunId,
    /// As the API shows it.
    pub status: Status,
    /// Where in the loop it is.
    pub phase: Phase,
    /// Its limits; they may be changed while it lives.
    pub budgets: Budgets,
    /// What is used of them.
    pub used: Used,
    /// The time of it that counts.
    pub clock: Clock,
    /// It ends then, whatever it does.
    pub deadline: Option<Millis>,
    /// The step that is open, or was last; 0 before the first.
    pub step: u32,
    /// The open step's model call.
    pub model: Progress,
    /// Replies asked for before, re-asks included: which reply of a script is due.
    pub turns: u32,
    /// Size of the request that is out.
    pub estimate: Estimate,
    /// Calls of the open step, in the model's order.
    pub calls: Vec<Call>,
    /// How many of them the loop guard has seen.
    pub guarded: usize,
    /// The loop guard's memory.
    pub guard: LoopGuard,
    /// A call of this step was over `max_tool_calls`.
    pub over_limit: bool,
    /// Calls that were denied.
    pub denied: Vec<Denied>,
    /// Tool and input hash of writes of which nobody knows (`on_uncertain: observe`).
    pub unsettled: Vec<(String, String)>,
    /// What is asked for where a limit is reached.
    pub budget_ask: Option<BudgetAsk>,
    /// How often more budget was asked for.
    pub asks: u32,
    /// The run will end so as soon as the writes that are out are known.
    pub ending: Option<End>,
    /// How it ended.
    pub end: Option<End>,
    /// Times that a server died with it.
    pub deaths: u32,
    /// Of those, how many before the open step.
    pub deaths_before_step: u32,
    /// Place of the next message.
    pub next_message: u64,
    /// Runs above it, each of which called the next; the last called it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub depth: u32,
    /// Of what is used, tokens and money of the runs that its calls began: on the bill it stands there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub by_children: Used,
    /// What runs were given that its calls began and that didn't come to their end in time: they may spend it still, so no
    /// other run gets it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub abandoned: Given,
    /// What people are asked, and when they hear of it again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub open_approvals: Vec<OpenApproval>,
    /// What a denial leads to by the policies that judged last; `None`: what the agent's says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denials: Option<Denials>,
    /// What it brought along, if it stands on another run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inherited: Option<Inherited>,
    /// How the tokens that a provider told last compare with what they were estimated at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correction: Option<Correction>,
    /// Where it stands with summaries of its history.
    #[serde(default, skip_serializing_if = "is_default")]
    pub summing: Summing,
    /// Where it stands with the tools of MCP servers; none: its agent takes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<RunTools>,
    /// Its tenant is suspended: no call begins until it is resumed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub suspended: bool,
    /// Who is paid for what its attempts on models take; none before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bill: Option<OnBill>,
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl RunState {
    /// A run that was just accepted. `input_messages` stand in its history already; its time counts from `counts_from`.
    pub fn accepted(
        run_id: RunId,
        budgets: Budgets,
        input_messages: u64,
        counts_from: Millis,
        deadline: Option<Millis>,
    ) -> Self {
        Self {
            version: FIRST_VERSION,
            run_id,
            status: Status::Queued,
            phase: Phase::Queued,
            budgets,
            used: Used::default(),
            clock: Clock { ran_ms: 0, since: Some(counts_from) },
            deadline,
            step: 0,
            model: Progress::default(),
            turns: 0,
            estimate: Estimate::default(),
            calls: Vec::new(),
            guarded: 0,
            guard: LoopGuard::default(),
            over_limit: false,
            denied: Vec::new(),
            unsettled: Vec::new(),
            budget_ask: None,
            asks: 0,
            ending: None,
            end: None,
            deaths: 0,
            deaths_before_step: 0,
            next_message: input_messages + 1,
            depth: 0,
            by_children: Used::default(),
            abandoned: Given::default(),
            open_approvals: Vec::new(),
            denials: None,
            inherited: None,
            correction: None,
            summing: Summing::default(),
            tools: None,
            suspended: false,
            bill: None,
        }
    }

    /// The call of that id in the open step.
    pub fn call(&self, id: CallId) -> Option<&Call> {
        self.calls.iter().find(|call| call.id == id)
    }

    /// Whether it has ended.
    pub fn is_ended(&self) -> bool {
        self.status.is_terminal()
    }

    /// Whether the step that was begun last is still open.
    pub fn is_step_open(&self) -> bool {
        let phase = self.budget_ask.map_or(self.phase, |ask| ask.back_to);
        matches!(phase, Phase::Rebuild | Phase::Model | Phase::Tools)
    }

    /// Time that counts, up to `now`, in milliseconds.
    pub fn elapsed_ms(&self, now: Millis) -> u64 {
        self.clock.elapsed_ms(now)
    }

    /// `attempt` of the API: one more than the deaths that it survived.
    pub fn attempt(&self) -> u32 {
        self.deaths + 1
    }
}

/// People are asked for more budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetAsk {
    /// The approval.
    pub approval_id: ApprovalId,
    /// What is used up.
    pub limit: Limit,
    /// They have until then.
    pub expires_at: Millis,
    /// Where the run goes on with more.
    pub back_to: Phase,
    /// When they were asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Millis>,
}

/// Where in the loop a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Accepted, never worked on.
    Queued,
    /// Between steps: a context must be built.
    Boundary,
    /// Between steps: a model is asked for a summary, or will be when `model.not_before` comes.
    Summary,
    /// Within a step: the context must be built again, smaller.
    Rebuild,
    /// A model is asked, or will be when `model.not_before` comes.
    Model,
    /// Calls are decided and executed.
    Tools,
    /// It waits for more budget.
    Budget,
    /// It is over.
    Ended,
}

/// How a run ended, or will.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Why.
    pub reason: StopReason,
    /// `error.code`: the reason, or a finer word.
    pub code: String,
    /// What happened, for people.
    pub detail: String,
    /// The step it happened in; `None` before the first.
    pub step: Option<u32>,
    /// The tool it happened with.
    pub tool_name: Option<String>,
}

/// A call that was denied (contract, "Run").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denied {
    /// Which.
    pub tool_call_id: CallId,
    /// Tool.
    pub tool_name: String,
    /// Hash of its input: the same again is denied again.
    pub input_hash: String,
    /// Why.
    pub reason: String,
    /// Who.
    pub decided_by: String,
}
