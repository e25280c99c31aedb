//! What is true of all runs of a database at a moment: how much waits, and since when.

use std::time::Duration;

use answerable_core::run::ApprovalKind;

/// Things that wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many.
    pub count: u64,
    /// How long the one that came first waits; zero where none does.
    pub longest: Duration,
}

/// What waits, counted over all tenants. Every server of a database sees the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gauges {
    /// Runs that wait for a server; the longest of those that could be claimed, not of those that their thread, their
    /// concurrency key or their tenant's limit holds back.
    pub queue: Waiting,
    /// Approvals that are pending, by what is asked.
    pub approvals: [(ApprovalKind, Waiting); 3],
    /// Effects of which nobody knows, and that nobody has settled.
    pub uncertain: Waiting,
    /// Webhook deliveries that are pending; the longest past its due time, so that those which wait for their next try
    /// count as young.
    pub deliveries: Waiting,
}
