//! SpanOutbox: spans that wait to be exported. They were stored in the commit that they tell of, so no crash loses one.

use answerable_core::id::{RunId, TenantId};
use answerable_core::trace::Span;
use async_trait::async_trait;

use crate::StoreError;

/// Spans of one commit.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanBatch {
    /// Its place in the outbox.
    pub number: i64,
    /// Whose run it is.
    pub tenant_id: TenantId,
    /// The run.
    pub run_id: RunId,
    /// The run's trace: 32 hex digits.
    pub trace_id: String,
    /// The spans, as they were stored.
    pub spans: Vec<Span>,
}

/// What waits to be exported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpanBacklog {
    /// Commits whose spans wait.
    pub waiting: u64,
    /// Age of the oldest, in milliseconds.
    pub oldest_ms: u64,
}

/// The outbox of spans. Several servers empty it at the same time; a batch that one of them took and didn't acknowledge
/// comes up again, just as it was.
#[async_trait]
pub trait SpanOutbox: Send + Sync {
    /// Takes up to `limit` batches, the oldest first, for a minute.
    async fn take(&self, limit: usize) -> Result<Vec<SpanBatch>, StoreError>;

    /// They arrived: they leave the outbox. The spans themselves stay with the run.
    async fn acknowledge(&self, numbers: &[i64]) -> Result<(), StoreError>;

    /// They could not be sent: others, or this server, may take them again at once.
    async fn give_back(&self, numbers: &[i64]) -> Result<(), StoreError>;

    /// Drops the oldest batches over `keep`; gives how many. Their spans can still be read with the run.
    async fn trim(&self, keep: u64) -> Result<u64, StoreError>;

    /// What waits.
    async fn backlog(&self) -> Result<SpanBacklog, StoreError>;
}
