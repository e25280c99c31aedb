//! The run: a state machine without I/O.
//!
//! [`step`] takes a state and what just happened, and gives the next state and the rows that tell of it. What is to be
//! done then is not a second output but derived from the state ([`outstanding`]), so that after a crash "load and do what
//! is outstanding" is all there is to recovery.

mod approval_row;
mod bill;
mod budget_ask;
mod call;
mod child;
mod clock;
mod command;
mod decide;
mod decision;
mod ending;
mod event;
mod event_type;
mod given;
mod inherit;
mod inputs;
mod intake;
mod listing;
mod model_failure;
mod model_turn;
mod new_call;
mod open_approval;
mod record;
mod results;
mod settle;
mod since;
mod state;
mod status;
mod step;
mod summing;
mod timer;
mod tools;
mod unkept;
mod void;

pub use approval_row::{ApprovalKind, ApprovalRow, ApprovalStatus};
pub use bill::OnBill;
pub use call::{Approved, Call, CallOutcome, Stage};
pub use child::{ChildEnd, ChildRow, Given, MAX_DEPTH, PinnedAgent, input_text};
pub use clock::Clock;
pub use command::{Command, outstanding};
pub use decision::Decision;
pub use event::{
    Approval, CallVerdict, Event, JudgedAgain, KeyHolder, NewCall, Reconciliation, ReplyFacts, Submitted,
    SubmittedStatus,
};
pub use event_type::EventType;
pub use given::VERSION_OF_PARTS;
pub use inherit::{Heir, Inherited};
pub use inputs::{inputs_after, note_inputs};
pub use listing::{RunTools, ToolList, version_of};
pub use new_call::idempotency_key;
pub use open_approval::OpenApproval;
pub use record::{CallRow, CheckpointRow, LedgerRow, Record, StepModel};
pub use state::{BudgetAsk, Denied, End, Phase, RunState, STATE_VERSION};
pub use status::{Status, StopReason};
pub use step::{IllegalEvent, MAX_RECOVERIES, RunConfig, Transition, step};
pub use summing::{SummaryTask, Summing};
pub use timer::next_due;
pub use unkept::{MAX_RUN_ARTIFACT_BYTES, MAX_RUN_ARTIFACTS};

#[cfg(any(test, feature = "lives"))]
#[cfg_attr(not(test), expect(dead_code, reason = "the laws themselves are tried here alone"))]
pub mod laws;
#[cfg(test)]
mod table;
#[cfg(any(test, feature = "lives"))]
#[cfg_attr(not(test), expect(dead_code, unused_imports, reason = "as of the laws"))]
mod trial;
