//! Tool executors and the guarded outgoing HTTP client.
//!
//! [`egress`] is the one door through which tool calls, model calls and webhooks leave; [`http`] runs tools of kind
//! `http`, [`mcp`] those of MCP servers, [`workspace`] those over a run's files, [`shell`] commands in a sandbox. What they
//! need is beside them: [`mask`] keeps secrets out of what comes back, [`signature`] signs what goes out, [`retry_after`]
//! reads when to come back, [`sse`] reads streams of events.
//!
//! Invariant: nothing here knows of models, runs' states or the database.

mod by_kind;
pub mod egress;
pub mod http;
pub mod mask;
pub mod mcp;
pub mod retry_after;
mod sent;
pub mod shell;
pub mod signature;
pub mod sse;
pub mod workspace;

pub use by_kind::ByKind;
pub use egress::{Allow, Fault, Guard, GuardedClient, Refused};
pub use http::HttpTools;
pub use mask::Mask;
pub use mcp::{McpLimits, McpTools, StdioCommand};
pub use shell::ShellTools;
pub use workspace::WorkspaceTools;
