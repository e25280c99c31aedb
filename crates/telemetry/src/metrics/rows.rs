//! What rows tell: runs, steps, decisions, tool calls.

use std::time::Duration;

use answerable_core::run::{ApprovalKind, EventType, Record};
use opentelemetry::KeyValue;
use serde_json::Value;

use super::instruments::{Instruments, LIMITS};

impl Instruments {
    pub(super) fn row(&self, record: &Record) {
        match record {
            Record::Event { kind, data, .. } => self.event(*kind, data),
            Record::ApprovalOpened(row) if row.kind == ApprovalKind::Budget => self.budget_asks.add(1, &[]),
            _ => {}
        }
    }

    /// The words are the contract's, so they are few.
    fn event(&self, kind: EventType, data: &Value) {
        let word = |name: &str| data.get(name).and_then(Value::as_str).unwrap_or("none").to_owned();
        let one = |counter: &opentelemetry::metrics::Counter<u64>, label: &'static str, value: String| {
            counter.add(1, &[KeyValue::new(label, value)]);
        };
        match kind {
            EventType::StepStarted => self.steps.add(1, &[]),
            EventType::RunStarted => one(&self.runs, "status", "started".into()),
            EventType::RunFinished | EventType::RunFailed | EventType::RunCancelled => {
                self.ended(word("status"), word("stop_reason"));
            }
            EventType::PermissionDecided => one(&self.decisions, "effect", word("effect")),
            EventType::ApprovalRequested => one(&self.approvals, "status", "requested".into()),
            EventType::ApprovalDecided => one(&self.approvals, "status", word("status")),
            EventType::ModelFailed => self.model_failures.add(1, &[]),
            EventType::ContextSummarized => one(&self.summaries, "status", "made".into()),
            EventType::ContextSummaryFailed => {
                self.model_failures.add(1, &[]);
                // The last attempt: the step goes on without.
                if data.get("retry_in_ms").is_none() {
                    one(&self.summaries, "status", "given_up".into());
                }
            }
            EventType::ToolCompleted => {
                let ms = data.get("duration_ms").and_then(Value::as_u64).unwrap_or(0);
                let labels = [
                    KeyValue::new("status", word("status")),
                    KeyValue::new("error_code", word("error_code")),
                ];
                self.tool_seconds.record(Duration::from_millis(ms).as_secs_f64(), &labels);
            }
            _ => {}
        }
    }

    fn ended(&self, status: String, reason: String) {
        if let Some(limit) = LIMITS.into_iter().find(|limit| *limit == reason) {
            self.budget_stops.add(1, &[KeyValue::new("limit", limit)]);
        }
        self.runs.add(1, &[KeyValue::new("status", status), KeyValue::new("stop_reason", reason)]);
    }
}
