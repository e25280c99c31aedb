//! See `entries`.

pub mod entries;
pub mod tokens;
#[path = "../../../crates/models/tests/outside/valid/mod.rs"]
mod valid;
