//! PermissionGate: may this call run: allow, deny, ask? (contract, "Policy")

mod compiled;
mod explain;
mod glob;
mod grant;
mod judge;
mod policy;
#[cfg(test)]
mod tests;

pub use compiled::{CompiledPolicy, Owner};
pub use explain::{
    ExplainedDefault, ExplainedGrant, ExplainedPart, ExplainedParts, ExplainedPolicy, ExplainedRule,
    Explanation, explain,
};
pub use glob::glob_matches;
pub use grant::{BY_LINK, Gap, Grant};
pub use judge::{CallFacts, Judgement, Policies, PolicyVersion, judge};
pub use policy::{
    DEFAULT_EXPIRES_MS, Defaults, Denials, Effect, MAX_EXPIRES_MS, MAX_RULES, MIN_REMIND_EVERY_MS, OnDeny,
    OnExpiry, Policy, Rule, VERSION_OF_RUN_POLICIES,
};
