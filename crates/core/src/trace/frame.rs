//! What spans are made of.

use std::collections::BTreeMap;

use serde_json::Value;

use super::span::{SpanId, SpanLink};
use crate::Millis;
use crate::id::{AgentId, CallId, RunId, TenantId, ThreadId};
use crate::registry::Registry;
use crate::run::{Call, Event, Record, RunState};

/// What is the same for all spans of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Whose run it is.
    pub tenant_id: TenantId,
    /// The run.
    pub run_id: RunId,
    /// The stored agent and its version; `None`: it came with the request.
    pub agent: Option<(AgentId, u32)>,
    /// Its conversation.
    pub thread_id: Option<ThreadId>,
    /// When it was accepted.
    pub accepted_at: Millis,
    /// The caller's span, where the tenant is trusted with it.
    pub parent: Option<SpanId>,
    /// Spans beside which it stands: the caller's otherwise, and the run that it stands on.
    pub links: Vec<SpanLink>,
    /// The operator lets content into spans; an agent must want it, too.
    pub content: bool,
}

/// An event, and what was so before and after it.
#[derive(Debug, Clone, Copy)]
pub struct Told<'a> {
    /// The pinned agent.
    pub registry: &'a Registry,
    /// The state before.
    pub before: &'a RunState,
    /// What happened.
    pub event: &'a Event,
    /// The state after.
    pub after: &'a RunState,
    /// The rows that tell of it.
    pub records: &'a [Record],
    /// Inputs of the open step's calls, for content alone.
    pub inputs: &'a BTreeMap<CallId, Value>,
}

impl<'a> Told<'a> {
    /// Calls as they were and as they are.
    pub(super) fn calls(&self) -> impl Iterator<Item = (Option<&'a Call>, &'a Call)> {
        let before = self.before;
        self.after.calls.iter().map(move |call| (before.call(call.id), call))
    }
}
