//! The ledger's rows in memory.

use std::collections::BTreeMap;

use crate::id::{CallId, LedgerId};
use crate::ledger::{Effect, EntryStatus, Outcome};
use crate::run::LedgerRow;
use crate::tool::{ErrorCode, ResultStatus, ToolResult};

/// A stored entry.
#[derive(Debug)]
pub(in crate::run) struct Entry {
    pub(in crate::run) row: LedgerRow,
    pub(in crate::run) attempts: u32,
    /// `None`: started, not known yet.
    pub(in crate::run) outcome: Option<Outcome>,
}

/// The entries of a run.
#[derive(Debug, Default)]
pub(in crate::run) struct Ledger {
    pub(in crate::run) entries: BTreeMap<LedgerId, Entry>,
}

impl Ledger {
    pub(super) fn open(&mut self, row: &LedgerRow) {
        assert!(!row.idempotency_key.is_empty() && row.input_hash.starts_with("sha256:"));
        let entry = Entry { row: row.clone(), attempts: 1, outcome: None };
        assert!(self.entries.insert(row.id, entry).is_none(), "one entry a call");
    }

    pub(super) fn attempt(&mut self, id: LedgerId, attempt: u32) {
        let entry = self.entries.get_mut(&id).expect("an entry");
        assert!(entry.outcome.is_none(), "a closed entry is not sent again");
        assert_eq!(attempt, entry.attempts + 1, "attempts rise one by one");
        entry.attempts = attempt;
    }

    pub(super) fn close(&mut self, id: LedgerId, outcome: Outcome) {
        let entry = self.entries.get_mut(&id).expect("an entry");
        assert!(entry.outcome.is_none(), "an entry is closed once");
        match outcome.status {
            EntryStatus::Started => panic!("no entry is closed as started"),
            EntryStatus::Succeeded => {
                let effect = if entry.row.writes { Effect::Committed } else { Effect::None };
                assert_eq!((outcome.effect, outcome.error_code), (effect, None));
            }
            // Another agent's run may fail after it has changed something.
            EntryStatus::Failed => {
                assert!(
                    outcome.effect == Effect::None || outcome.effect == Effect::Committed && entry.row.writes
                );
                assert!(outcome.error_code.is_some());
            }
            EntryStatus::Uncertain => {
                assert_eq!(
                    (outcome.effect, outcome.error_code),
                    (Effect::Possible, Some(ErrorCode::SideEffectUncertain))
                );
                assert!(entry.row.writes, "only a write can be uncertain");
            }
        }
        entry.outcome = Some(outcome);
    }

    /// A person's word, written by the API.
    pub(super) fn settled(&mut self, id: LedgerId, applied: bool) {
        let entry = self.entries.get_mut(&id).expect("an entry");
        assert_eq!(entry.outcome, Some(Outcome::uncertain()), "only what is uncertain is settled");
        entry.outcome =
            Some(if applied { Outcome::succeeded(true) } else { Outcome::failed(ErrorCode::Unavailable) });
    }

    /// Attempts of a call.
    pub(super) fn attempts(&self, call: CallId) -> u32 {
        self.entries.get(&LedgerId(call.0)).map_or(0, |entry| entry.attempts)
    }

    /// Entries whose outcome nobody has written.
    pub(in crate::run) fn started(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().filter(|entry| entry.outcome.is_none())
    }
}

impl Entry {
    /// What the model is told goes with what is known of the effect.
    pub(super) fn agrees_with(&self, result: &ToolResult) {
        let status = self.outcome.map(|outcome| outcome.status);
        let fine = match result.status {
            ResultStatus::Succeeded => status == Some(EntryStatus::Succeeded),
            ResultStatus::Failed if result.error_code == Some(ErrorCode::OutputTooLarge) => {
                status == Some(EntryStatus::Succeeded)
            }
            ResultStatus::Failed => status == Some(EntryStatus::Failed),
            ResultStatus::Uncertain => status == Some(EntryStatus::Uncertain),
            // Of a write that was out at a cancel nothing is known yet.
            ResultStatus::Cancelled => status.is_none() && self.row.writes || status.is_some(),
            ResultStatus::Denied | ResultStatus::Rejected => false,
        };
        assert!(fine, "{status:?} does not go with {result:?}");
    }
}
