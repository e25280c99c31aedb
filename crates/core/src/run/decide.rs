//! People decide on a call: it runs, it doesn't, or they answer in the tool's place.

use serde_json::{Value, json};

use super::call::{Approved, Stage};
use super::decision::Decision;
use super::event::{Approval, CallVerdict};
use super::event_type::EventType;
use super::record::Record;
use super::step::{Legal, Machine};
use super::void::void_by_rules;
use crate::Millis;
use crate::id::{ApprovalId, CallId};
use crate::permission::Effect;

/// An approval may be used for so long after it was given, in milliseconds, though its time is over meanwhile: an hour. It
/// waits for other calls of its step, or for a server.
const USE_WITHIN_MS: u64 = 3_600_000;
/// Code points of an edited input that the model is shown beside the result.
const MAX_EDIT_SHOWN: usize = 2_000;

impl Machine<'_> {
    pub(super) fn call_decided(
        &mut self,
        call: CallId,
        approval: Option<ApprovalId>,
        verdict: CallVerdict,
        (by, given_at): (String, Option<Millis>),
        reason: Option<String>,
    ) -> Legal {
        let index = self.index_of(call, "CallDecided")?;
        let known = &self.state.calls[index];
        let is_open = approval.is_none_or(|approval| approval == known.approval_id());
        let Stage::Asked { expires_at, on_expiry } = known.stage else {
            return Err(self.illegal("CallDecided"));
        };
        if !is_open {
            return Err(self.illegal("CallDecided"));
        }
        let status = if matches!(verdict, CallVerdict::Denied) { "denied" } else { "approved" };
        let known = &self.state.calls[index];
        let data = json!({"tool_call_id": known.id, "tool_name": known.tool_name, "approval_id": known.approval_id(),
            "status": status, "by": by, "reason": reason});
        self.emit_in_step(EventType::ApprovalDecided, data);
        match verdict {
            CallVerdict::Approved(approval) => {
                let reason = reason.unwrap_or_else(|| "approved".into());
                // It may have waited for a server.
                let given_at = given_at.map_or(self.at, |given_at| given_at.min(self.at));
                let given = Approved {
                    approval: self.state.calls[index].approval_id(),
                    decision: Decision::by_person(Effect::Allow, by, reason, self.at),
                    until: expires_at.max(given_at.saturating_add_unsigned(USE_WITHIN_MS)),
                    on_expiry,
                };
                self.approved(index, *approval, given);
            }
            CallVerdict::Denied => {
                let reason = reason.unwrap_or_else(|| "a person said no".into());
                let decision = Decision::by_person(Effect::Deny, by, reason, self.at);
                self.records.push(Record::CallDecided { call, decision: decision.clone() });
                self.deny(index, &decision.by, &decision.reason);
            }
            CallVerdict::Answered(output) => {
                let reason = reason.unwrap_or_else(|| "a person answered instead of the tool".into());
                let decision = Decision::by_person(Effect::Allow, by, reason, self.at);
                self.records.push(Record::CallDecided { call, decision });
                self.succeed(index, output, None);
            }
        }
        self.note_progress();
        Ok(())
    }

    /// Somebody approved. What was approved may run, unless the policies say no by now, or it isn't any more what it was.
    /// An edit holds either way: it is what is asked about then.
    fn approved(&mut self, index: usize, approval: Approval, given: Approved) {
        let judgement = approval.judged_again;
        self.note_rules(index, &judgement);
        if let Some(edited) = approval.edited {
            self.edit(index, edited);
        }
        let why = self.void_by_tool(index).or_else(|| void_by_rules(&judgement, approval.stands));
        match why {
            Some(why) => self.void(index, given.approval, why, &judgement),
            None => {
                self.state.calls[index].stage = Stage::Ready;
                self.stands(index, given, &judgement);
            }
        }
    }

    fn edit(&mut self, index: usize, (input, input_hash, key): (Value, String, String)) {
        let known = &mut self.state.calls[index];
        known.input_hash.clone_from(&input_hash);
        known.idempotency_key = key;
        known.edited = Some(crate::text::head(&input.to_string(), MAX_EDIT_SHOWN).to_owned());
        self.records.push(Record::CallEdited { call: known.id, input, input_hash });
    }
}
