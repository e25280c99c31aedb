//! Grants.

use answerable_core::id::GrantId;
use answerable_store::GrantRecord;
use serde::Serialize;

use super::Time;

/// A grant as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Grant {
    id: GrantId,
    tool_name: String,
    scope: String,
    #[serde(rename = "match")]
    matches: String,
    input_hash: Option<String>,
    created_by: String,
    created_at: Time,
    expires_at: Option<Time>,
    revoked_at: Option<Time>,
}

impl From<GrantRecord> for Grant {
    fn from(record: GrantRecord) -> Self {
        Self {
            id: GrantId(record.grant_id),
            tool_name: record.tool_name,
            scope: record.scope,
            matches: record.matches,
            input_hash: record.input_hash,
            created_by: record.created_by,
            created_at: Time(record.created_at),
            expires_at: record.expires_at.map(Time),
            revoked_at: record.revoked_at.map(Time),
        }
    }
}
