//! The calls of a run, out of its steps.

use serde_json::Value;

use crate::Observed;

/// A call, as the API shows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'o>(&'o Value);

/// All calls, in order.
pub(crate) fn of(observed: &Observed) -> Vec<Call<'_>> {
    let calls = observed.steps.iter().flat_map(|step| step.get("tool_calls").and_then(Value::as_array));
    calls.flatten().map(Call).collect()
}

impl<'o> Call<'o> {
    pub(crate) fn name(self) -> &'o str {
        self.0.get("tool_name").and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn input(self) -> &'o Value {
        self.0.get("input").unwrap_or(&Value::Null)
    }

    fn result(self, name: &str) -> Option<&'o str> {
        self.0.get("result")?.get(name)?.as_str()
    }

    pub(crate) fn status(self) -> &'o str {
        self.result("status").unwrap_or("open")
    }

    pub(crate) fn content(self) -> &'o str {
        self.result("content").unwrap_or_default()
    }

    pub(crate) fn error_code(self) -> Option<&'o str> {
        self.result("error_code")
    }

    /// Whether it was let happen: sent, taken from the ledger, or answered by a person.
    pub(crate) fn ran(self) -> bool {
        let has_entry = self.0.get("ledger_id").is_some_and(Value::is_string);
        has_entry || matches!(self.status(), "succeeded" | "failed" | "uncertain")
    }

    pub(crate) fn is_denied(self) -> bool {
        self.status() == "denied"
    }

    pub(crate) fn is_rejected(self) -> bool {
        self.status() == "rejected"
    }
}
