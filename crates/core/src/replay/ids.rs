//! Ids of a replay: each follows from the recorded one and from the new run's id, so that the same replay has the same ids.

use std::collections::HashSet;

use uuid::Uuid;

use super::Recording;
use crate::context::{Manifest, Omitted};
use crate::id::{ApprovalId, CallId, LedgerId, MessageId, RunId};
use crate::json::sha256_hex;
use crate::run::{CallVerdict, Event, NewCall, RunState};

/// Bits of a UUIDv7 that are random or count: behind its time, its version and its variant.
const FREE_BITS: u128 = (1 << 62) - 1;

/// From the ids of a recording to those of its replay. A recorded id is flipped in some of its free bits, always the same, so
/// that it stays a UUIDv7 of its moment, two ids never become one, and ids that lie beside each other still do: approvals
/// and ledger entries have the ids of their calls.
pub(super) struct Ids {
    mask: u128,
    own: HashSet<Uuid>,
}

impl Ids {
    pub(super) fn new(recording: &Recording<'_>, run: RunId) -> Self {
        let mut own: HashSet<Uuid> = recording.inputs.iter().map(|message| message.id.0).collect();
        for event in recording.journal {
            match event {
                Event::Steered { message_id, .. } => drop(own.insert(message_id.0)),
                Event::Summarized { reply, .. } => drop(own.insert(reply.message_id.0)),
                Event::ModelReplied { reply, calls, .. } => {
                    own.insert(reply.message_id.0);
                    let of_call = |call: &NewCall| {
                        [Some(call.id.0), call.message_id.map(|id| id.0)].into_iter().flatten()
                    };
                    own.extend(calls.iter().flat_map(of_call));
                }
                _ => {}
            }
        }
        Self { mask: mask(run), own }
    }

    /// Whether it is an id of the recorded run's own.
    pub(super) fn knows(&self, id: Uuid) -> bool {
        self.own.contains(&id)
    }

    /// The id of what was recorded under `id`; what isn't the run's own keeps its id.
    fn id(&self, id: Uuid) -> Uuid {
        if self.knows(id) { self.flipped(id) } else { id }
    }

    fn flipped(&self, id: Uuid) -> Uuid {
        Uuid::from_u128(id.as_u128() ^ self.mask)
    }

    pub(super) fn message(&self, id: MessageId) -> MessageId {
        MessageId(self.id(id.0))
    }

    pub(super) fn call(&self, id: CallId) -> CallId {
        CallId(self.id(id.0))
    }

    /// An approval of a recorded call: it lies beside it.
    fn approval(&self, id: ApprovalId, recorded: CallId) -> ApprovalId {
        let beside = id.0.as_u128() ^ recorded.0.as_u128();
        ApprovalId(Uuid::from_u128(self.call(recorded).0.as_u128() ^ beside))
    }

    /// The recorded call behind a call of the replay.
    pub(super) fn recorded(&self, id: CallId) -> CallId {
        CallId(self.flipped(id.0))
    }

    /// The event with the replay's ids; `state` is the replay's before it.
    pub(super) fn event(&self, state: &RunState, mut event: Event) -> Event {
        match &mut event {
            Event::ContextBuilt { manifest, .. } => self.manifest(manifest),
            Event::SummaryNeeded { task, .. } => task.upto = self.message(task.upto),
            Event::Summarized { reply, .. } => reply.message_id = self.message(reply.message_id),
            Event::ModelReplied { reply, calls, .. } => {
                reply.message_id = self.message(reply.message_id);
                calls.iter_mut().for_each(|call| self.new_call(call));
            }
            Event::CallDecided { call, approval, verdict, .. } => {
                *approval = approval.map(|id| self.approval(id, *call));
                if let CallVerdict::Approved(approval) = verdict
                    && let Some((_, _, key)) = &mut approval.edited
                {
                    self.key(key, *call);
                }
                *call = self.call(*call);
            }
            Event::KeyTaken { call, holder, .. } => {
                *call = self.call(*call);
                holder.ledger_id = LedgerId(self.id(holder.ledger_id.0));
            }
            Event::KeyFree { call, .. }
            | Event::AgentFound { call, .. }
            | Event::ChildEnded { call, .. }
            | Event::ToolAttempted { call, .. }
            | Event::ToolReconciled { call, .. }
            | Event::EffectSettled { call, .. }
            | Event::ToolResultSubmitted { call, .. } => *call = self.call(*call),
            Event::Steered { message_id, .. } => *message_id = self.message(*message_id),
            // Its id follows from the run.
            Event::BudgetDenied { approval, .. } => {
                *approval = state.budget_ask.map_or(*approval, |ask| ask.approval_id);
            }
            Event::RulesChanged { verdicts, .. } => {
                verdicts.iter_mut().for_each(|verdict| verdict.call = self.call(verdict.call));
            }
            Event::Recovered { unsent, .. } => {
                unsent.iter_mut().for_each(|call| *call = self.call(*call));
            }
            Event::Started { .. }
            | Event::ToolsListed { .. }
            | Event::ToolsKept { .. }
            | Event::ToolsUnavailable { .. }
            | Event::ToolsChanged { .. }
            | Event::ContextOverflowed { .. }
            | Event::ModelFailed { .. }
            | Event::QuotaUsedUp { .. }
            | Event::SummaryFailed { .. }
            | Event::TimerFired { .. }
            | Event::Suspended { .. }
            | Event::Resumed { .. }
            | Event::Rested { .. }
            | Event::CancelRequested { .. }
            | Event::BudgetChanged { .. }
            | Event::Broken { .. } => {}
        }
        event
    }

    fn manifest(&self, manifest: &mut Manifest) {
        manifest.included.iter_mut().for_each(|id| *id = self.message(*id));
        for omitted in &mut manifest.omitted {
            let id = self.message(omitted.message_id);
            *omitted = match omitted.summary_id {
                Some(summary) => Omitted::covered(id, self.message(summary)),
                None => Omitted { message_id: id, ..omitted.clone() },
            };
        }
    }

    fn new_call(&self, call: &mut NewCall) {
        self.key(&mut call.idempotency_key.0, call.id);
        call.id = self.call(call.id);
        call.message_id = call.message_id.map(|id| self.message(id));
    }

    /// A key that the runtime made is the call's id; one of the agent's own stays.
    fn key(&self, key: &mut String, recorded: CallId) {
        if *key == recorded.to_string() {
            *key = self.call(recorded).to_string();
        }
    }
}

/// What a run's ids differ in from those that it replays: not nothing, and not the last bits alone, by which the approvals
/// of a call differ from each other.
fn mask(run: RunId) -> u128 {
    let digest = sha256_hex(format!("replay {run}").as_bytes());
    let bits = digest.get("sha256:".len()..).and_then(|hex| u128::from_str_radix(hex.get(..16)?, 16).ok());
    (bits.unwrap_or_default() & FREE_BITS).max(16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replayed_id_is_one_of_its_moment_and_stands_where_it_stood() {
        let id = Uuid::parse_str("01a22b5c-0bbc-716a-849d-a45fe67f6c1c").expect("an id");
        let beside = Uuid::from_u128(id.as_u128() ^ 1);
        let mut seen = HashSet::new();
        for run in 0..100 {
            let run = RunId(Uuid::from_u128(run));
            let ids = Ids { mask: mask(run), own: HashSet::from([id, beside]) };
            let replayed = ids.id(id);
            assert_eq!((replayed.get_version_num(), replayed.get_variant()), (7, id.get_variant()));
            assert_eq!(replayed.as_bytes()[..8], id.as_bytes()[..8], "its time stays");
            assert_eq!(ids.id(beside).as_u128(), replayed.as_u128() ^ 1);
            assert_eq!(ids.recorded(CallId(replayed)), CallId(id));
            assert!(seen.insert(replayed) && seen.insert(ids.id(beside)), "two runs have one id");
            let foreign = Uuid::from_u128(9);
            assert_eq!(ids.id(foreign), foreign);
        }
        assert!(!seen.contains(&id) && !seen.contains(&beside));
    }
}
