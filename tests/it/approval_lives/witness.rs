//! What the test itself knows of a life: what it asked for, what it was told, and what reached the far side. What the
//! service says of itself is believed only where it says which approval belongs to which call.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use serde_json::Value;

/// All of it.
#[derive(Debug, Default, Clone)]
pub(super) struct Evidence {
    /// What people decided, in no order.
    pub(super) votes: Vec<Vote>,
    /// What was changed, one after the other.
    pub(super) changes: Vec<Change>,
    /// What the service says that people were asked.
    pub(super) approvals: Vec<Asked>,
    /// What reached the tools.
    pub(super) requests: Vec<Request>,
    /// Who started each run.
    pub(super) creators: BTreeMap<String, Vec<String>>,
}

/// What somebody decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Approve,
    Deny,
    Answer,
}

/// One decision.
#[derive(Debug, Clone)]
pub(super) struct Vote {
    pub(super) approval: String,
    pub(super) word: Word,
    /// What may run by it: what was shown, or what was put in its place.
    pub(super) input: Value,
    pub(super) by: String,
    /// The key that it came with.
    pub(super) key: String,
    pub(super) remember: Option<Remember>,
    pub(super) sent: Instant,
    /// What was answered; `None`: nothing came back, so nobody knows.
    pub(super) answer: Option<Answered>,
}

/// The answer to a decision.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered {
    pub(super) status: u16,
    /// The approval is decided by then, and not only voted on.
    pub(super) decides: bool,
}

impl Vote {
    /// Whether it may count.
    pub(super) fn may_count(&self) -> bool {
        self.answer.is_none_or(|answer| answer.status == 200)
    }

    /// Whether it was said that this is what the approval comes to.
    pub(super) fn decides(&self) -> bool {
        self.answer.is_some_and(|answer| answer.status == 200 && answer.decides)
    }
}

/// How far an approval is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Remember {
    pub(super) whole_tenant: bool,
    pub(super) exact_input: bool,
}

/// A change that takes something away from those that come after it.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) what: What,
    /// The calls that had begun when it was asked for.
    pub(super) before: HashSet<String>,
    /// And when it was answered for.
    pub(super) after: HashSet<String>,
}

/// What is changed.
#[derive(Debug, Clone)]
pub(super) enum What {
    /// The tenant's policy is this one.
    Policy(&'static [TenantRule]),
    /// What was remembered of this approval is taken back.
    GrantRevoked(String),
    /// This key is taken back.
    KeyRevoked(String),
    /// This run is cancelled.
    Cancelled(String),
}

/// A rule of the tenant's policy.
#[derive(Debug, Clone, Copy)]
pub(super) struct TenantRule {
    /// The tool; `None`: any.
    pub(super) tool: Option<&'static str>,
    /// It is about amounts from here on.
    pub(super) from_amount: i64,
    pub(super) demand: Demand,
}

/// What a policy demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Demand {
    Allow,
    /// That so many agree; where `creators` is false, others than who started the run.
    Ask {
        people: usize,
        creators: bool,
    },
    Deny,
}

/// An approval, as the service tells of it at the end.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) id: String,
    pub(super) run: String,
    pub(super) call: String,
    pub(super) tool: String,
    pub(super) status: String,
    pub(super) required: usize,
    pub(super) used: bool,
    pub(super) void: bool,
}

/// A request that reached a tool.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) run: String,
    pub(super) call: String,
    pub(super) tool: String,
    pub(super) input: Value,
    /// Its `Idempotency-Key`.
    pub(super) key: String,
    pub(super) at: Instant,
}
