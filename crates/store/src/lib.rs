//! The store: PostgreSQL, and all SQL of the service.
//!
//! One file a resource. Every function takes a transaction that is bound to one tenant ([`TenantTx`]) or, for the few
//! things that cross tenants, to the system role ([`SystemTx`]); row-level security holds in both.

mod approvals;
mod artifacts;
mod calls;
mod checkpoints;
mod decisions;
mod events;
mod grants;
mod inbox;
mod ledger;
mod messages;
mod quotas;
mod run_change;
mod run_list;
mod run_view;
mod runs;
mod steps;
mod tool_results;
mod claim;
mod commit;
mod links;
mod load;
mod outbox;
mod outgoing;
mod engine_side;
mod connect;
mod error;
mod listen;
mod idempotency;
mod keys;
mod tenants;
mod threads;
mod agents;
mod deliveries;
mod policies;
mod providers;
mod secrets;
mod signing_secrets;
mod usage;
mod webhooks;
mod seal;
mod tx;
#[cfg(test)]
mod security_tests;

pub use answerable_ports::{Progress, Signal, Signals, StoreError};
pub use approvals::{ApprovalFilter, ApprovalRecord, LinkedApproval};
pub use artifacts::ArtifactRecord;
pub use calls::CallRecord;
pub use checkpoints::CheckpointRecord;
pub use decisions::{Decision, DecisionRefused, Remember};
pub use events::{EventRecord, EventsEnd};
pub use grants::{GrantRecord, GrantScope};
pub use ledger::{LedgerRecord, Resolve, ResolveRefused};
pub use messages::MessageRecord;
pub use run_change::{ChangeRefused, Changed, Changer, RunPatch};
pub use run_list::{RunFilter, RunPage};
pub use run_view::RunRecord;
pub use runs::{NewRun, OnBusy, RunRefused};
pub use steps::StepRecord;
pub use tool_results::{SubmitOutcome, ToolResultSubmission};
pub use answerable_ports::commit::DecisionWord;
pub use engine_side::EngineStore;
pub use idempotency::{Kept, KeptAnswer, KeptRequest, KeptTx};
pub use keys::{KeyFacts, KeyRow, NewKey};
pub use outgoing::{AfterTry, Outgoing, Tried};
pub use load::read_state;
pub use connect::{ConnectOptions, Store, make_partitions, migrate};
pub use seal::{Sealer, SealError};
pub use tenants::TenantRow;
pub use threads::{ThreadDeleted, ThreadRow};
pub use agents::{AgentRow, AgentUpdated};
pub use deliveries::DeliveryRow;
pub use policies::PolicyRow;
pub use providers::{ProviderPut, ProviderRow};
pub use secrets::SecretRow;
pub use signing_secrets::SigningSecret;
pub use usage::UsageRow;
pub use webhooks::{NewWebhook, WebhookChange, WebhookRow};
pub use tx::{SystemTx, TenantTx};

/// The result of everything here.
pub type Result<T> = std::result::Result<T, StoreError>;
