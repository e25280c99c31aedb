//! Tool executors and the guarded outgoing HTTP client.
//!
//! [`egress`] is the one door through which tool calls, model calls and webhooks leave; [`http`] runs tools of kind
//! `http`. What both need is beside them: [`mask`] keeps secrets out of what comes back, [`signature`] signs what goes
//! out, [`retry_after`] reads when to come back.
//!
//! Invariant: nothing here knows of models, runs' states or the database.

pub mod egress;
pub mod http;
pub mod mask;
pub mod retry_after;
pub mod signature;

pub use egress::{Allow, Fault, Guard, GuardedClient, Refused};
pub use http::HttpTools;
pub use mask::Mask;
