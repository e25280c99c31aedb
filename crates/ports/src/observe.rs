//! TraceSink: leave evidence. What observes the engine can fail or be slow without a run noticing.

use std::time::Duration;

use answerable_core::run::Record;

/// Observes what the engine does. Implementations neither block nor fail.
pub trait Observer: Send + Sync {
    /// Rows were committed; the store took so long.
    fn committed(&self, records: &[Record], took: Duration);

    /// A commit came to nothing.
    fn commit_failed(&self);

    /// A run was taken over from a dead server.
    fn taken_over(&self);

    /// A lease was lost to another server, or given up.
    fn lease_lost(&self);
}
