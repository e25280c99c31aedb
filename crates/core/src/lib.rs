//! The pure core: what is true of a run, and what is next.
//!
//! Nothing here waits, sends, reads a clock or draws a random number. Time, ids and jitter come
//! inside events, so the same events always give the same state (see [`run`]).

pub mod agent;
pub mod attachments;
pub mod audit;
pub mod budget;
pub mod catalog;
pub mod context;
pub mod correction;
pub mod eval_case;
pub mod field_error;
pub mod id;
pub mod input;
pub mod json;
pub mod ledger;
pub mod loop_guard;
pub mod message;
pub mod model;
pub mod model_retry;
pub mod permission;
pub mod provider;
pub mod registry;
pub mod replay;
pub mod reply;
pub mod run;
pub mod schedule;
pub mod schema;
mod strict;
pub mod template;
pub mod text;
pub mod tokens;
pub mod tool;
pub mod trace;
pub mod workspace;

pub use field_error::FieldError;

/// A moment in milliseconds since the Unix epoch, UTC. The core never reads a clock; the shell tells it.
pub type Millis = i64;
