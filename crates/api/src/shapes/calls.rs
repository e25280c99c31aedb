//! Tool calls.

use answerable_core::id::{CallId, LedgerId, RunId};
use answerable_core::run::SubmittedStatus;
use answerable_core::tool::ErrorCode;
use answerable_store::CallRecord;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::body::RequestBody;
use crate::shapes::text;

/// A tool call as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct ToolCall {
    id: CallId,
    model_call_id: Option<String>,
    tool_name: String,
    input: Value,
    input_hash: String,
    original_input: Option<Value>,
    validation: String,
    decision: Option<Value>,
    result: Option<Value>,
    ledger_id: Option<LedgerId>,
    child_run_id: Option<RunId>,
}

impl From<CallRecord> for ToolCall {
    fn from(call: CallRecord) -> Self {
        Self {
            id: CallId(call.call_id),
            model_call_id: call.model_call_id,
            tool_name: call.tool_name,
            input: call.input,
            input_hash: call.input_hash,
            original_input: call.original_input,
            validation: call.validation,
            decision: call.decision.map(decision),
            result: call.result,
            ledger_id: call.ledger_id.map(LedgerId),
            child_run_id: call.has_run.then_some(RunId(call.call_id)),
        }
    }
}

/// A decision with all its fields: older ones were stored without the policies that they were made by.
fn decision(mut decision: Value) -> Value {
    if let Some(decision) = decision.as_object_mut() {
        decision.entry("policy").or_insert(Value::Null);
        decision.entry("policy_version").or_insert(Value::Null);
        decision.entry("judged_by").or_insert_with(|| Value::Array(Vec::new()));
    }
    decision
}

/// A client's answer to a call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolResultSubmission {
    pub(crate) tool_call_id: String,
    pub(crate) status: SubmittedStatus,
    #[serde(default, deserialize_with = "text::present")]
    pub(crate) content: Option<Value>,
    #[serde(default)]
    pub(crate) error_code: Option<ErrorCode>,
}

impl RequestBody for ToolResultSubmission {
    const CONTENT: &'static [&'static str] = &["/content"];
}
