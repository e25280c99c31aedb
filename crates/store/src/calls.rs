//! Tool calls as they are shown.

use answerable_core::id::{CallId, RunId};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

/// A tool call (contract, "ToolCall").
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct CallRecord {
    /// Step.
    pub step: i32,
    /// Its id.
    pub call_id: Uuid,
    /// The model's id for it.
    pub model_call_id: Option<String>,
    /// Tool.
    pub tool_name: String,
    /// What ran, or would have.
    pub input: Value,
    /// Its hash.
    pub input_hash: String,
    /// The model's own input, where a person changed it.
    pub original_input: Option<Value>,
    /// Validation's verdict.
    pub validation: String,
    /// Who let it happen, or not, in the API's form.
    pub decision: Option<Value>,
    /// Its result, in the API's form.
    pub result: Option<Value>,
    /// The entry that tells of it.
    pub ledger_id: Option<Uuid>,
    /// It began a run of another agent, which has its UUID.
    #[serde(default)]
    pub has_run: bool,
}

impl TenantTx {
    /// Calls of a run's steps from `first` to `last`, in their order.
    ///
    /// # Errors
    /// The database is away.
    pub async fn call_list(&mut self, run_id: RunId, first: i32, last: i32) -> Result<Vec<CallRecord>> {
        let tenant = self.tenant();
        sqlx::query_as!(
            CallRecord,
            r#"SELECT c.step, c.call_id, c.model_call_id, c.tool_name, c.input, c.input_hash, c.original_input, c.validation,
                 c.decision, c.result, c.ledger_id,
                 EXISTS (SELECT FROM children k WHERE k.tenant_id = c.tenant_id AND k.run_id = c.call_id) AS "has_run!"
             FROM run_parts($1, $2) p
             JOIN calls c ON c.tenant_id = $1 AND c.run_id = p.run_id AND c.step <= p.through_step
             WHERE c.step BETWEEN $3 AND $4 ORDER BY c.step, c.index"#,
            tenant,
            run_id.0,
            first,
            last,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// One call of a run.
    ///
    /// # Errors
    /// The database is away.
    pub async fn call_fetch(&mut self, run_id: RunId, call_id: CallId) -> Result<Option<CallRecord>> {
        let tenant = self.tenant();
        sqlx::query_as!(
            CallRecord,
            r#"SELECT step, call_id, model_call_id, tool_name, input, input_hash, original_input, validation, decision, result,
                 ledger_id,
                 EXISTS (SELECT FROM children k WHERE k.tenant_id = c.tenant_id AND k.run_id = c.call_id) AS "has_run!"
             FROM calls c WHERE tenant_id = $1 AND run_id = $2 AND call_id = $3"#,
            tenant,
            run_id.0,
            call_id.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }
}
