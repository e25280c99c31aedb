//! Where a run stands, as its spans show it.

use answerable_core::id::{AgentId, RunId, TenantId, ThreadId};
use answerable_core::trace::{Frame, SpanId, SpanLink, agent_span};
use chrono::{DateTime, Utc};
use uuid::Uuid;

/// What is stored of that.
pub(crate) struct Hangs {
    pub(crate) run: RunId,
    pub(crate) agent: Option<(Uuid, i32)>,
    pub(crate) thread: Option<Uuid>,
    pub(crate) created_at: DateTime<Utc>,
    /// The caller's span that it is part of.
    pub(crate) parent: Option<String>,
    /// The caller's span beside which it stands, as a `traceparent`.
    pub(crate) link: Option<String>,
    /// The run that it stands on, and that one's trace.
    pub(crate) base: Option<(Uuid, String)>,
}

impl Hangs {
    pub(crate) fn frame(self, tenant_id: TenantId) -> Frame {
        let caller = self.link.as_deref().and_then(SpanLink::from_traceparent);
        let base = self.base.map(|(run, trace_id)| SpanLink { trace_id, span_id: agent_span(RunId(run)) });
        Frame {
            tenant_id,
            run_id: self.run,
            agent: self.agent.map(|(id, version)| (AgentId(id), u32::try_from(version).unwrap_or(0))),
            thread_id: self.thread.map(ThreadId),
            accepted_at: self.created_at.timestamp_millis(),
            parent: self.parent.as_deref().and_then(SpanId::parse),
            links: caller.into_iter().chain(base).collect(),
            content: false,
        }
    }
}
