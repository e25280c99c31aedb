//! How many approvals there are.

use answerable_core::id::AgentId;
use answerable_store::{ApprovalCounts, ApprovalGroup};
use serde::Serialize;

/// Numbers of approvals.
#[derive(Debug, Serialize)]
pub(crate) struct Counts {
    total: i64,
    more: bool,
    groups: Vec<Group>,
}

#[derive(Debug, Serialize)]
struct Group {
    value: Option<String>,
    count: i64,
}

impl Counts {
    /// Where nothing can match.
    pub(crate) fn of_none() -> Self {
        Self { total: 0, more: false, groups: Vec::new() }
    }

    /// As they were counted.
    pub(crate) fn of(counts: ApprovalCounts, group: Option<ApprovalGroup>) -> Self {
        let shown = |value: String| match group {
            Some(ApprovalGroup::Agent) => value.parse().map_or(value, |uuid| AgentId(uuid).to_string()),
            _ => value,
        };
        let groups = counts.groups.into_iter();
        let groups = groups.map(|(value, count)| Group { value: value.map(shown), count });
        Self { total: counts.total, more: counts.more, groups: groups.collect() }
    }
}
