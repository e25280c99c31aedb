//! The run: a state machine without I/O.
//!
//! [`step`] takes a state and what just happened, and gives the next state and the rows that tell of it. What is to be
//! done then is not a second output but derived from the state ([`outstanding`]), so that after a crash "load and do what
//! is outstanding" is all there is to recovery.

mod budget_ask;
mod call;
mod command;
mod decide;
mod ending;
mod event;
mod inherit;
mod inputs;
mod intake;
mod model_failure;
mod model_turn;
mod new_call;
mod record;
mod results;
mod settle;
mod since;
mod state;
mod step;
mod timer;
mod tools;

pub use call::{Call, CallOutcome, Stage};
pub use command::{Command, outstanding};
pub use event::{
    Approval, CallVerdict, Event, KeyHolder, NewCall, Reconciliation, ReplyFacts, Submitted, SubmittedStatus,
};
pub use inherit::{Heir, Inherited};
pub use inputs::{inputs_after, note_inputs};
pub use new_call::idempotency_key;
pub use record::{
    ApprovalKind, ApprovalRow, ApprovalStatus, CallRow, CheckpointRow, Decision, EventType, LedgerRow,
    Record, StepModel,
};
pub use state::{BudgetAsk, Clock, Denied, End, Phase, RunState, STATE_VERSION, Status, StopReason};
pub use step::{IllegalEvent, MAX_RECOVERIES, RunConfig, Transition, step};
pub use timer::next_due;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod table;
#[cfg(test)]
mod trial;
