//! Approvals that are to be remembered: whether they can be, and how votes say so.

use answerable_core::FieldError;
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Decision, LockedApproval};
use crate::grants::{GrantScope, MOST_IN_FORCE};

/// How far an approval is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remember {
    /// For what.
    pub scope: GrantScope,
    /// For this input alone.
    pub exact_input: bool,
    /// It holds until then.
    pub expires_at: Option<DateTime<Utc>>,
}

impl Remember {
    /// As a vote keeps it.
    pub(crate) fn kept(&self) -> Value {
        let expires_at = self.expires_at.map(|at| at.to_rfc3339_opts(SecondsFormat::Millis, true));
        let matches = if self.exact_input { "exact_input" } else { "tool" };
        json!({"scope": self.scope.as_str(), "match": matches, "expires_at": expires_at})
    }
}

/// What a grant of that scope would cover; `None` for the tenant, and for what the run doesn't have.
pub(crate) fn scope_id(locked: &LockedApproval, scope: GrantScope) -> Option<Uuid> {
    match scope {
        GrantScope::Run => Some(locked.record.run_id),
        GrantScope::Thread => locked.record.thread_id,
        GrantScope::Agent => locked.record.agent_id,
        GrantScope::Tenant => None,
    }
}

/// What is wrong with what is to be remembered.
pub(crate) fn check(locked: &LockedApproval, decision: &Decision) -> Vec<FieldError> {
    let Some(remember) = decision.remember else { return Vec::new() };
    let mut faults = Vec::new();
    let mut fault = |pointer: &str, message: String| faults.push(FieldError::new(pointer, message));
    if locked.record.risk.as_deref() == Some("critical") {
        fault("/remember", "calls of critical risk are asked about each time".into());
    }
    if remember.scope != GrantScope::Tenant && scope_id(locked, remember.scope).is_none() {
        fault("/remember/scope", format!("the run has no {} of its own", remember.scope.as_str()));
    }
    if remember.expires_at.is_some_and(|at| at.timestamp_millis() <= locked.run.at) {
        fault("/remember/expires_at", "is past".into());
    }
    faults
}

/// The fault where the tenant has as many grants as it may.
pub(crate) fn too_many() -> FieldError {
    let message = format!(
        "the tenant has {MOST_IN_FORCE} grants in force, and may have no more: some must be revoked first"
    );
    FieldError::new("/remember", message)
}

/// The fault where whoever has a link wants more than the one call that it is for.
pub(crate) fn not_by_link() -> FieldError {
    FieldError::new("/remember", "a link decides one approval; what is remembered needs a key")
}

/// Whether a decision that was taken already asks for just what was remembered with it, or for nothing.
pub(crate) fn asks_for_no_more(votes: &Value, decision: &Decision) -> bool {
    let Some(asked) = decision.remember else { return true };
    // The last vote is the one that decided: what it asks for is what was remembered.
    let last = votes.as_array().and_then(|votes| votes.last());
    last.and_then(|vote| vote.get("remember")) == Some(&asked.kept())
}

/// The fault where some of those who approve didn't ask that it be remembered: what one of them adds alone would else
/// answer later in the name of all.
pub(crate) fn not_agreed(required: usize, asked: usize) -> FieldError {
    let message =
        format!("all {required} who approve must ask for the same; so far {asked} did, you among them");
    FieldError::new("/remember", message)
}
