//! PermissionGate: may this call run: allow, deny, ask? (contract, "Policy")

mod compiled;
mod glob;
mod judge;
mod policy;
#[cfg(test)]
mod tests;

pub use compiled::{CompiledPolicy, Owner};
pub use glob::glob_matches;
pub use judge::{CallFacts, Grant, Judgement, judge};
pub use policy::{DEFAULT_EXPIRES_MS, Defaults, Effect, MAX_EXPIRES_MS, OnDeny, OnExpiry, Policy, Rule};
