//! The run: a state machine without I/O.
//!
//! [`step`] takes a state and what just happened, and gives the next state and the rows that tell of it. What is to be
//! done then is not a second output but derived from the state ([`outstanding`]), so that after a crash "load and do what
//! is outstanding" is all there is to recovery.

mod budget_ask;
mod call;
mod child;
mod command;
mod decide;
mod ending;
mod event;
mod given;
mod inherit;
mod inputs;
mod intake;
mod listing;
mod model_failure;
mod model_turn;
mod new_call;
mod record;
mod results;
mod settle;
mod since;
mod state;
mod step;
mod summing;
mod timer;
mod tools;

pub use call::{Call, CallOutcome, Stage};
pub use child::{ChildEnd, ChildRow, Given, MAX_DEPTH, PinnedAgent, input_text};
pub use command::{Command, outstanding};
pub use event::{
    Approval, CallVerdict, Event, KeyHolder, NewCall, Reconciliation, ReplyFacts, Submitted, SubmittedStatus,
};
pub use given::VERSION_OF_PARTS;
pub use inherit::{Heir, Inherited};
pub use inputs::{inputs_after, note_inputs};
pub use listing::{RunTools, ToolList, version_of};
pub use new_call::idempotency_key;
pub use record::{
    ApprovalKind, ApprovalRow, ApprovalStatus, CallRow, CheckpointRow, Decision, EventType, LedgerRow,
    Record, StepModel,
};
pub use state::{BudgetAsk, Clock, Denied, End, Phase, RunState, STATE_VERSION, Status, StopReason};
pub use step::{IllegalEvent, MAX_RECOVERIES, RunConfig, Transition, step};
pub use summing::{SummaryTask, Summing};
pub use timer::next_due;

#[cfg(any(test, feature = "lives"))]
#[cfg_attr(not(test), expect(dead_code, reason = "the laws themselves are tried here alone"))]
pub mod laws;
#[cfg(test)]
mod table;
#[cfg(any(test, feature = "lives"))]
#[cfg_attr(not(test), expect(dead_code, unused_imports, reason = "as of the laws"))]
mod trial;
