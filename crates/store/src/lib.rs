//! The store: PostgreSQL, and all SQL of the service.
//!
//! One file a resource. Every function takes a transaction that is bound to one tenant ([`TenantTx`]) or, for the few
//! things that cross tenants, to the system role ([`SystemTx`]); row-level security holds in both.

mod agents;
mod approvals;
mod artifacts;
mod calls;
mod checkpoints;
mod claim;
mod commit;
mod conn;
mod connect;
mod decisions;
mod deliveries;
mod engine_side;
mod error;
mod events;
mod grants;
mod heirs;
mod idempotency;
mod inbox;
mod keys;
mod late;
mod ledger;
mod links;
mod listen;
mod load;
mod messages;
mod outbox;
mod outgoing;
mod policies;
mod providers;
mod prune;
mod quotas;
mod run_change;
mod run_delete;
mod run_list;
mod run_view;
mod runs;
mod seal;
mod secrets;
#[cfg(test)]
mod security_tests;
mod signing_secrets;
mod steps;
mod tenants;
mod threads;
mod tool_results;
mod tx;
mod usage;
mod webhooks;

pub use agents::{AgentRow, AgentUpdated};
pub use answerable_ports::commit::DecisionWord;
pub use answerable_ports::{Clock, Progress, Signal, Signals, StoreError};
pub use approvals::{ApprovalFilter, ApprovalRecord, LinkedApproval};
pub use artifacts::ArtifactRecord;
pub use calls::CallRecord;
pub use checkpoints::CheckpointRecord;
pub use connect::{ConnectOptions, Store, make_partitions, migrate};
pub use decisions::{Decision, DecisionRefused, Remember};
pub use deliveries::DeliveryRow;
pub use engine_side::EngineStore;
pub use events::{EventRecord, EventsEnd};
pub use grants::{GrantRecord, GrantScope};
pub use heirs::{Fork, HeirRefused, NewHeir, Stand};
pub use idempotency::{Kept, KeptAnswer, KeptRequest, KeptTx};
pub use keys::{KeyFacts, KeyRow, NewKey};
pub use ledger::{LedgerRecord, Resolve, ResolveRefused};
pub use load::read_state;
pub use messages::MessageRecord;
pub use outgoing::{AfterTry, Outgoing, Tried};
pub use policies::PolicyRow;
pub use providers::{ProviderPut, ProviderRow};
pub use prune::{Keep, Pruned};
pub use run_change::{ChangeRefused, Changed, Changer, RunPatch};
pub use run_delete::RunDeleted;
pub use run_list::{RunFilter, RunPage};
pub use run_view::RunRecord;
pub use runs::{NewRun, OnBusy, Origin, OriginKind, RunRefused};
pub use seal::{SealError, Sealer};
pub use secrets::SecretRow;
pub use signing_secrets::SigningSecret;
pub use steps::StepRecord;
pub use tenants::TenantRow;
pub use threads::{ThreadDeleted, ThreadRow};
pub use tool_results::{SubmitOutcome, ToolResultSubmission};
pub use tx::{SystemTx, TenantTx};
pub use usage::UsageRow;
pub use webhooks::{NewWebhook, WebhookChange, WebhookRow};

/// The result of everything here.
pub type Result<T> = std::result::Result<T, StoreError>;
