//! People decide on a call: it runs, it doesn't, or they answer in the tool's place.

use serde_json::json;

use super::call::Stage;
use super::event::{Approval, CallVerdict};
use super::record::{Decision, EventType, Record};
use super::step::{Legal, Machine};
use crate::id::CallId;
use crate::permission::Effect;

/// Code points of an edited input that the model is shown beside the result.
const MAX_EDIT_SHOWN: usize = 2_000;

impl Machine<'_> {
    pub(super) fn call_decided(
        &mut self,
        call: CallId,
        verdict: CallVerdict,
        by: String,
        reason: Option<String>,
    ) -> Legal {
        let index = self.index_of(call, "CallDecided")?;
        if !matches!(self.state.calls[index].stage, Stage::Asked { .. }) {
            return Err(self.illegal("CallDecided"));
        }
        let status = if matches!(verdict, CallVerdict::Denied) { "denied" } else { "approved" };
        let known = &self.state.calls[index];
        let data = json!({"tool_call_id": known.id, "tool_name": known.tool_name, "approval_id": known.approval_id(),
            "status": status, "by": by, "reason": reason});
        self.emit_in_step(EventType::ApprovalDecided, data);
        match verdict {
            CallVerdict::Approved(approval) => self.approved(index, *approval, by, reason),
            CallVerdict::Denied => {
                let reason = reason.unwrap_or_else(|| "a person said no".into());
                let decision = Decision { effect: Effect::Deny, rule: None, by, reason, decided_at: self.at };
                self.records.push(Record::CallDecided { call, decision: decision.clone() });
                self.deny(index, &decision.by, &decision.reason);
            }
            CallVerdict::Answered(output) => {
                let reason = reason.unwrap_or_else(|| "a person answered instead of the tool".into());
                let decision =
                    Decision { effect: Effect::Allow, rule: None, by, reason, decided_at: self.at };
                self.records.push(Record::CallDecided { call, decision });
                self.succeed(index, output, None);
            }
        }
        self.note_progress();
        Ok(())
    }

    /// The approval is used: what was approved runs, unless policy says no by now.
    fn approved(&mut self, index: usize, approval: Approval, by: String, reason: Option<String>) {
        let call = self.state.calls[index].id;
        if approval.judged_again.effect == Effect::Deny {
            let decision = Decision::of(&approval.judged_again, self.at);
            self.decided(index, &decision);
            self.deny(index, &decision.by, &decision.reason);
            return;
        }
        if let Some((input, input_hash, key)) = approval.edited {
            let known = &mut self.state.calls[index];
            known.input_hash.clone_from(&input_hash);
            known.idempotency_key = key;
            known.edited = Some(crate::text::head(&input.to_string(), MAX_EDIT_SHOWN).to_owned());
            self.records.push(Record::CallEdited { call, input, input_hash });
        }
        let reason = reason.unwrap_or_else(|| "approved".into());
        let decision = Decision { effect: Effect::Allow, rule: None, by, reason, decided_at: self.at };
        self.records.push(Record::CallDecided { call, decision });
        self.state.calls[index].stage = Stage::Ready;
    }
}
