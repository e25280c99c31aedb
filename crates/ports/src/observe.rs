//! TraceSink: leave evidence. What observes the engine can fail or be slow without a run noticing.

use std::time::Duration;

use answerable_core::run::Record;
use answerable_core::trace::Span;

/// Observes what the engine does. Implementations neither block nor fail.
pub trait Observer: Send + Sync {
    /// Something is true now.
    fn committed(&self, committed: &Committed<'_>);

    /// A commit came to nothing.
    fn commit_failed(&self);

    /// A run was taken over from a dead server.
    fn taken_over(&self);

    /// A lease was lost to another server, or given up.
    fn lease_lost(&self);
}

/// What was committed, and what this process saw of its making.
#[derive(Debug, Clone, Copy, Default)]
pub struct Committed<'a> {
    /// The rows.
    pub records: &'a [Record],
    /// What ended with each of its events.
    pub spans: &'a [Vec<Span>],
    /// Time that the store took.
    pub took: Duration,
    /// The run began with it.
    pub started: Option<Started>,
    /// A step ended with it that took so long. `None`: none did, or it began elsewhere or waited for people.
    pub step_took: Option<Duration>,
}

/// A run's way to its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started {
    /// Since it was accepted, or since the moment before which it was not to start.
    pub after_accepted: Duration,
    /// Since the claim was asked for.
    pub after_claimed: Duration,
}
