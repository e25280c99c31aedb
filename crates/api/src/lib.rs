//! The HTTP API: routes, problems, streams.
//!
//! A handler's extractors say who asks and what for, the core decides, the store commits, and the handler translates.
//! `openapi.yaml` is part of this crate: it rules which routes there are, what a query may hold and what a body must be.

mod admit;
mod agents;
mod auth;
mod body;
mod complaints;
mod decision_page;
mod document;
mod eval_cases;
mod file_path;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod given;
mod head;
mod held;
mod idempotency;
mod journal;
mod key_ring;
mod large;
mod limits;
mod moment;
mod origin;
mod page;
mod path;
mod policies;
mod policy_check;
mod preconditions;
mod prefer;
mod problem;
mod query;
mod readiness;
mod replays;
mod request_id;
mod router;
mod routes;
mod schedules;
mod seal;
mod shapes;
mod sse;
mod state;
mod tenant_export;
mod trace_parent;
mod watch;

pub use head::BadHead;
pub use origin::Peer;
pub use router::{operations, router};
pub use schedules::fire_schedules;
pub use state::{AddressRule, ApiConfig, AppState, Metrics, ShellRule};
