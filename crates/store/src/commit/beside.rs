//! What few commits write beside `commit_run`, in the same transaction. Most have nothing here and stay one round trip.
//! The same commit may be sent twice, so each of these rows can be written twice.

use answerable_core::agent::ToolSpec;
use answerable_core::id::{CallId, RunId};
use answerable_core::run::{ChildRow, Record, RunState};
use uuid::Uuid;

use crate::Result;
use crate::tx::TenantTx;

/// Rows beside a commit.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// The newest list of tools, and its hash.
    tools: Option<(String, Vec<ToolSpec>)>,
    /// Runs that it begins.
    children: Vec<ChildRow>,
    /// Runs that are to end, and why.
    stopped: Vec<(CallId, String)>,
    /// The run has ended, and another one waits for that.
    ended: bool,
}

impl Beside {
    /// What of `records` isn't `commit_run`'s.
    pub(super) fn of(records: &[Record]) -> Self {
        let mut beside = Self::default();
        for record in records {
            match record {
                Record::ToolsListed { hash, tools } => beside.tools = Some((hash.clone(), tools.clone())),
                Record::ChildOpened(row) => beside.children.push((**row).clone()),
                Record::ChildStopped { call, reason } => beside.stopped.push((*call, reason.clone())),
                _ => {}
            }
        }
        beside
    }

    /// The same with the end of a run that another one called.
    pub(super) fn ending(self, state: &RunState) -> Self {
        Self { ended: state.is_ended() && state.depth > 0, ..self }
    }

    /// There is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_none() && self.children.is_empty() && !self.has_news()
    }

    /// It begins other runs.
    pub(super) fn begins_runs(&self) -> bool {
        !self.children.is_empty()
    }

    /// Other runs must hear of it.
    pub(super) fn has_news(&self) -> bool {
        self.ended || !self.stopped.is_empty()
    }

    /// Runs that are to end.
    pub(super) fn stopped(&self) -> impl Iterator<Item = RunId> {
        self.stopped.iter().map(|(call, _)| RunId(call.0))
    }

    /// Writes it, in the transaction of a commit that is stored.
    pub(super) async fn write(&self, tx: &mut TenantTx, run: Uuid) -> Result<()> {
        if let Some((hash, tools)) = &self.tools {
            tx.run_tools_write(run, hash, tools).await?;
        }
        for row in &self.children {
            tx.child_create(RunId(run), row).await?;
        }
        for (call, reason) in &self.stopped {
            tx.child_mark_stop(RunId(call.0), reason).await?;
        }
        if self.ended {
            tx.child_mark_ended(RunId(run)).await?;
        }
        Ok(())
    }
}
