//! Grants.

use answerable_core::id::{ApprovalId, GrantId};
use answerable_store::GrantRecord;
use serde::Serialize;

use super::Time;

/// A grant as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Grant {
    id: GrantId,
    tool_name: String,
    scope: String,
    scope_id: Option<String>,
    #[serde(rename = "match")]
    matches: String,
    input_hash: Option<String>,
    created_by: String,
    deciders: Vec<String>,
    max_risk: String,
    approval_id: Option<ApprovalId>,
    created_at: Time,
    expires_at: Option<Time>,
    revoked_at: Option<Time>,
    revoked_by: Option<String>,
}

impl From<GrantRecord> for Grant {
    fn from(record: GrantRecord) -> Self {
        let scope_id = record.covered();
        Self {
            id: GrantId(record.grant_id),
            tool_name: record.tool_name,
            scope: record.scope,
            scope_id,
            matches: record.matches,
            input_hash: record.input_hash,
            created_by: record.created_by,
            deciders: record.deciders,
            max_risk: record.max_risk,
            approval_id: record.approval_id.map(ApprovalId),
            created_at: Time(record.created_at),
            expires_at: record.expires_at.map(Time),
            revoked_at: record.revoked_at.map(Time),
            revoked_by: record.revoked_by,
        }
    }
}
