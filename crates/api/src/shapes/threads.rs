//! Threads.

use std::collections::BTreeMap;

use answerable_core::id::{ThreadId, WorkspaceId};
use answerable_store::ThreadRow;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Time;
use crate::body::RequestBody;

/// What a thread is made of.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThreadCreate {
    #[serde(default)]
    pub(crate) metadata: BTreeMap<String, String>,
}

impl RequestBody for ThreadCreate {}

/// A thread as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Thread {
    id: ThreadId,
    object: &'static str,
    status: &'static str,
    workspace_id: WorkspaceId,
    metadata: Value,
    created_at: Time,
}

impl From<ThreadRow> for Thread {
    fn from(row: ThreadRow) -> Self {
        Self {
            id: ThreadId(row.thread_id),
            object: "thread",
            status: if row.busy { "busy" } else { "idle" },
            workspace_id: WorkspaceId(row.workspace_id),
            metadata: row.metadata,
            created_at: Time(row.created_at),
        }
    }
}
