//! The spans of a trial's run: each once, whole, and as many as what is stored tells of.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use crate::id::{CallId, TenantId};
use crate::registry::Registry;
use crate::run::{Event, Record, RunState};
use crate::trace::{Frame, Span, SpanKind, Told, agent_span, spans};

use super::DAWN;
use super::tables::Tables;

/// Spans by id, as they ended.
#[derive(Debug, Default)]
pub(in crate::run) struct Spans {
    all: HashMap<String, Span>,
    /// Attempts on the model that a server died with.
    lost_attempts: usize,
    /// What the run that this one stands on has told already.
    told_before: ToldBefore,
}

#[derive(Debug, Default)]
struct ToldBefore {
    calls: HashSet<CallId>,
    settled: usize,
    checkpoints: usize,
}

/// What is the same for all spans of a trial.
pub(in crate::run) fn frame(state: &RunState) -> Frame {
    Frame {
        tenant_id: TenantId(uuid::Uuid::from_u128(7)),
        run_id: state.run_id,
        agent: None,
        thread_id: None,
        accepted_at: DAWN,
        parent: None,
        links: Vec::new(),
        content: false,
    }
}

impl Spans {
    /// Those of a run that stands on the one whose rows these are.
    pub(super) fn after(tables: &Tables) -> Self {
        let told_before = ToldBefore {
            calls: tables.calls.keys().copied().collect(),
            settled: tables.approvals.settled(),
            checkpoints: tables.checkpoints.len(),
        };
        Self { told_before, ..Self::default() }
    }

    /// Takes in the spans of an event.
    pub(super) fn take(
        &mut self,
        registry: &Registry,
        before: &RunState,
        event: &Event,
        after: &RunState,
        records: &[Record],
    ) {
        let inputs = BTreeMap::new();
        let told = Told { registry, before, event, after, records, inputs: &inputs };
        for span in spans(&frame(after), &told) {
            assert!(span.began <= span.ended && span.ended == event.at(), "{span:?} at {}", event.at());
            assert!(span.began >= DAWN, "{span:?} began before the run");
            assert_eq!(span.error.is_some(), span.attributes.contains_key("error.type"), "{span:?}");
            if span.kind == SpanKind::Agent {
                assert!(after.is_ended() && span.parent.is_none());
            } else {
                assert_eq!(span.parent, Some(agent_span(after.run_id)), "{span:?}");
            }
            if span.kind == SpanKind::Model && span.error.as_deref() == Some("worker_lost") {
                self.lost_attempts += 1;
            }
            let (id, what) = (span.id.as_str().to_owned(), format!("{span:?}"));
            if let Some(known) = self.all.insert(id, span) {
                panic!("two spans have one id:\n{known:?}\n{what}\nat {event:?}");
            }
        }
    }

    /// The decisions on whether calls may run, by when they were made: effect, by whom, and why an approval is void.
    pub(in crate::run) fn decisions(&self) -> Vec<[Option<&str>; 3]> {
        let of_call =
            |span: &&Span| span.attributes.get("answerable.permission.kind") == Some(&"tool_call".into());
        let mut spans: Vec<&Span> = self.all.values().filter(of_call).collect();
        spans.sort_by_key(|span| span.ended);
        spans.into_iter().map(|span| ["effect", "by", "void"].map(|name| word(span, name))).collect()
    }

    fn count(&self, kind: SpanKind, also: impl Fn(&Span) -> bool) -> usize {
        self.all.values().filter(|span| span.kind == kind && also(span)).count()
    }

    /// As many as the rows tell of.
    pub(super) fn check(&self, state: &RunState, tables: &Tables, attempts: usize) {
        assert_eq!(self.count(SpanKind::Agent, |_| true), usize::from(state.is_ended()));
        assert_eq!(
            self.count(SpanKind::Checkpoint, |_| true),
            tables.checkpoints.len() - self.told_before.checkpoints
        );
        let in_vain = |span: &Span| matches!(span.error.as_deref(), Some("cancelled" | "quota_exceeded"));
        let answered = self.count(SpanKind::Model, |span| !in_vain(span)) - self.lost_attempts;
        assert_eq!(answered, attempts, "each attempt on the model has a span");
        let asked = |span: &Span| span.attributes.contains_key("answerable.permission.asked");
        let settled = tables.approvals.settled() - self.told_before.settled;
        assert_eq!(
            self.count(SpanKind::Permission, asked),
            settled,
            "each question has a span: {:?}",
            self.all
        );
        for (id, call) in tables.calls.iter().filter(|(id, _)| !self.told_before.calls.contains(id)) {
            let of_call =
                |span: &Span| span.attributes.get("gen_ai.tool.call.id") == Some(&id.to_string().into());
            let attempted =
                |span: &Span| of_call(span) && span.attributes.contains_key("answerable.ledger_id");
            let entry = tables.ledger.attempts(*id);
            if call.result.is_some() {
                assert_eq!(
                    self.count(SpanKind::Tool, attempted),
                    entry as usize,
                    "attempts of {id}: {:?}",
                    self.all
                );
            }
        }
    }
}

/// What a span says of a decision under this name.
fn word<'a>(span: &'a Span, name: &str) -> Option<&'a str> {
    span.attributes.get(&format!("answerable.permission.{name}")).and_then(Value::as_str)
}
