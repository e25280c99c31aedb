//! The approvals' rows in memory: each is asked for once, decided once, and used once or never.

use std::collections::BTreeMap;

use crate::Millis;
use crate::id::{ApprovalId, CallId};
use crate::run::{ApprovalKind, ApprovalRow, ApprovalStatus, CallVerdict, LedgerRow};

/// A stored approval.
#[derive(Debug)]
pub(in crate::run) struct ApprovalTold {
    pub(in crate::run) row: ApprovalRow,
    pub(in crate::run) status: ApprovalStatus,
    /// What was approved, if a call may run by it.
    pub(in crate::run) given: Option<Given>,
    pub(in crate::run) used: bool,
    /// Why it can't be used.
    pub(in crate::run) void: Option<String>,
}

/// What people approved.
#[derive(Debug)]
pub(in crate::run) struct Given {
    input_hash: String,
    pub(in crate::run) deciders: Vec<String>,
}

/// The approvals of a run.
#[derive(Debug, Default)]
pub(in crate::run) struct Approvals {
    pub(in crate::run) all: BTreeMap<ApprovalId, ApprovalTold>,
}

impl Approvals {
    pub(super) fn open(&mut self, row: &ApprovalRow, at: Millis) {
        assert!(row.expires_at > at, "people have some time");
        assert_eq!(row.kind == ApprovalKind::ToolCall, row.tool_version.is_some(), "it is of one version");
        let told = ApprovalTold {
            row: row.clone(),
            status: ApprovalStatus::Pending,
            given: None,
            used: false,
            void: None,
        };
        assert!(self.all.insert(row.id, told).is_none(), "an approval is asked for once");
    }

    pub(super) fn close(&mut self, id: ApprovalId, status: ApprovalStatus) -> &mut ApprovalTold {
        let known = self.all.get_mut(&id).expect("an approval that was asked for");
        assert_eq!(known.status, ApprovalStatus::Pending, "an approval is decided once");
        known.status = status;
        known
    }

    /// What people said of a call: on that approval, or on the one that is open.
    pub(super) fn decide(
        &mut self,
        call: CallId,
        approval: Option<ApprovalId>,
        verdict: &CallVerdict,
        by: &str,
    ) {
        let is_open = |row: &&ApprovalRow| row.call == Some(call) && row.kind == ApprovalKind::ToolCall;
        let open = self.pending().find(is_open).map(|row| row.id);
        let denied = matches!(verdict, CallVerdict::Denied);
        let status = if denied { ApprovalStatus::Denied } else { ApprovalStatus::Approved };
        let known = self.close(approval.or(open).expect("an open approval"), status);
        if let CallVerdict::Approved(approval) = verdict {
            let edited = approval.edited.as_ref().map(|(_, hash, _)| hash.clone());
            let input_hash = edited.or_else(|| known.row.input_hash.clone()).expect("a hash");
            let deciders = approval.deciders.clone().unwrap_or_else(|| vec![by.to_owned()]);
            known.given = Some(Given { input_hash, deciders });
        }
    }

    /// The one time that it is used: for just what was approved.
    pub(super) fn using(&mut self, id: ApprovalId, row: &LedgerRow) {
        let known = self.all.get_mut(&id).expect("an approval that was asked for");
        let given = known.given.as_ref().expect("nothing begins by what nobody approved");
        assert_eq!(known.row.call, Some(row.call), "it is of this call");
        assert_eq!(given.input_hash, row.input_hash, "what runs is what was approved");
        assert_eq!((known.status, &known.void), (ApprovalStatus::Approved, &None));
        assert!(!std::mem::replace(&mut known.used, true), "an approval is used once");
    }

    pub(super) fn void(&mut self, id: ApprovalId, reason: &str) {
        let known = self.all.get_mut(&id).expect("an approval that was asked for");
        assert!(known.given.is_some() && !known.used, "only what was approved and isn't used can be void");
        assert!(known.void.replace(reason.to_owned()).is_none(), "it is void once");
    }

    /// Approvals that nobody has decided.
    pub(in crate::run) fn pending(&self) -> impl Iterator<Item = &ApprovalRow> {
        self.all.values().filter(|told| told.status == ApprovalStatus::Pending).map(|told| &told.row)
    }

    /// Questions that are no longer open.
    pub(super) fn settled(&self) -> usize {
        self.all.values().filter(|told| told.status != ApprovalStatus::Pending).count()
    }

    /// Nothing runs any more: what was approved was used, or is void.
    pub(super) fn check_end(&self) {
        for told in self.all.values() {
            assert!(told.given.is_none() || told.used != told.void.is_some(), "{told:?}");
        }
    }
}
