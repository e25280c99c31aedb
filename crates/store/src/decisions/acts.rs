//! What is written down of decisions in the record of who did what: hashes of what was decided on, never the words.

use answerable_core::audit::Action;
use answerable_core::id::{ApprovalId, CallId, RunId};
use serde_json::{Value, json};

use super::weigh::Verdict;
use super::{LockedApproval, votes};
use crate::tx::TenantTx;

impl TenantTx {
    /// Somebody agrees, and more must.
    pub(super) fn vote_act(&mut self, locked: &LockedApproval, vote: &Value) {
        let approval = &locked.record;
        let cast = approval.votes.as_array().map_or(0, Vec::len) + 1;
        let detail = json!({"run_id": RunId(approval.run_id), "call_id": approval.call_id.map(CallId),
            "kind": approval.kind, "tool_name": approval.tool_name, "decision": vote.get("decision"),
            "of": vote.get("of"), "input_hash": approval.input_hash, "votes": cast, "required": approval.required});
        self.act(Action::ApprovalVote, ApprovalId(approval.approval_id), detail);
    }

    /// Somebody decides.
    pub(super) fn verdict_act(&mut self, locked: &LockedApproval, verdict: &Verdict) {
        let approval = &locked.record;
        let detail = json!({"run_id": RunId(approval.run_id), "call_id": approval.call_id.map(CallId),
            "kind": approval.kind, "tool_name": approval.tool_name, "decision": votes::word(verdict.word),
            "of": verdict.vote.get("of"), "input_hash": approval.input_hash, "edited": verdict.edited.is_some(),
            "approved_hash": verdict.approved_hash(), "required": approval.required});
        self.act(Action::ApprovalDecide, ApprovalId(approval.approval_id), detail);
    }
}
