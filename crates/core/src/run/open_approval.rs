//! What people are asked, and when they hear of it again: now and then, and shortly before its time is over.

use serde::{Deserialize, Serialize};

use super::approval_row::ApprovalRow;
use super::call::Stage;
use super::event_type::EventType;
use super::state::RunState;
use super::step::Machine;
use crate::Millis;
use crate::id::ApprovalId;

/// Version of a state that has an approval in it, open or given ([`super::STATE_VERSION`]).
pub(super) const VERSION_OF_APPROVALS: u16 = 5;
/// An approval is about to expire when a tenth of its time is left, but an hour before at the earliest, in milliseconds.
const LONGEST_WARNING_MS: i64 = 3_600_000;

/// An approval that waits for people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenApproval {
    /// What they are asked.
    pub row: ApprovalRow,
    /// They are reminded then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remind_at: Option<Millis>,
    /// They are told then that its time is nearly over; `None`: they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiring_at: Option<Millis>,
}

impl OpenApproval {
    fn of(row: ApprovalRow, at: Millis) -> Self {
        let warning = (row.expires_at.saturating_sub(at) / 10).clamp(1, LONGEST_WARNING_MS);
        let expiring_at = Some(row.expires_at.saturating_sub(warning));
        Self { remind_at: next_reminder(&row, at), expiring_at, row }
    }

    /// When people hear of it next.
    pub fn next_due(&self) -> Option<Millis> {
        [self.remind_at, self.expiring_at].into_iter().flatten().min()
    }
}

/// None in its last tenth: they hear then that its time is nearly over.
fn next_reminder(row: &ApprovalRow, at: Millis) -> Option<Millis> {
    let next = at.saturating_add_unsigned(row.remind_every_ms?);
    (next < row.expires_at).then_some(next)
}

impl RunState {
    /// Whether people may still decide on it.
    fn is_open(&self, approval: ApprovalId) -> bool {
        let of_call = self.calls.iter().any(|call| match call.stage {
            Stage::Asked { .. } => call.approval_id() == approval,
            Stage::AskedUncertain { .. } => call.uncertain_approval_id() == approval,
            _ => false,
        });
        of_call || self.budget_ask.is_some_and(|ask| ask.approval_id == approval)
    }
}

impl Machine<'_> {
    pub(super) fn keep_open(&mut self, row: ApprovalRow) {
        self.state.version = self.state.version.max(VERSION_OF_APPROVALS);
        self.state.open_approvals.push(OpenApproval::of(row, self.at));
    }

    /// Nobody hears any more of what is decided.
    pub(super) fn forget_settled_approvals(&mut self) {
        if self.state.open_approvals.is_empty() {
            return;
        }
        let mut open = std::mem::take(&mut self.state.open_approvals);
        open.retain(|open| self.state.is_open(open.row.id));
        self.state.open_approvals = open;
    }

    /// Tells people again what they are asked, where that is due.
    pub(super) fn remind(&mut self) {
        self.forget_settled_approvals();
        let mut open = std::mem::take(&mut self.state.open_approvals);
        for approval in &mut open {
            if approval.expiring_at.is_some_and(|due| due <= self.at) {
                (approval.expiring_at, approval.remind_at) = (None, None);
                self.emit_in_step(EventType::ApprovalExpiring, approval.row.event_data());
            } else if approval.remind_at.is_some_and(|due| due <= self.at) {
                approval.remind_at = next_reminder(&approval.row, self.at);
                self.emit_in_step(EventType::ApprovalReminder, approval.row.event_data());
            }
        }
        self.state.open_approvals = open;
    }
}
