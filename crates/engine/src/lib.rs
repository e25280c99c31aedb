//! The engine: the thin shell around the core. It claims runs, drives each in a task of its own, and acts only on what is
//! committed: load → step → commit → perform.

mod allowance;
mod attachments;
mod children;
mod commit;
mod draft;
mod drive;
mod env;
mod gate;
mod inbox;
mod kept;
mod late;
mod lease;
mod line;
mod listing;
mod model_call;
mod observed;
mod perform;
mod place;
mod registries;
mod round;
mod rules;
mod scheduler;
mod session;
mod starting;
mod summary_call;
mod tool_call;
mod turn;
#[cfg(feature = "faults")]
mod unguarded;

pub use answerable_core::run::MAX_RECOVERIES;
pub use env::{Engine, EngineConfig, EngineParts};
