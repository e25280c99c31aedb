//! See `entries`.

pub mod entries;
#[path = "../../../crates/models/tests/outside/valid/mod.rs"]
mod valid;
