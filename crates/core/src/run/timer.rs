//! What happens by itself: limits of time, expiries, retries that are due, and the death of a server.

use serde_json::json;

use super::approval_row::ApprovalStatus;
use super::call::Stage;
use super::decision::Decision;
use super::event_type::EventType;
use super::open_approval::OpenApproval;
use super::record::Record;
use super::state::{Phase, RunState};
use super::status::StopReason;
use super::step::{Legal, Machine};
use crate::Millis;
use crate::budget::Limit;
use crate::id::CallId;
use crate::ledger::{Next, after_attempt};
use crate::permission::{Effect, OnExpiry};
use crate::tool::{Attempt, ErrorCode};

/// When the state next changes without anybody's doing; `None`: never.
pub fn next_due(state: &RunState) -> Option<Millis> {
    // A run that is ending only waits for its writes.
    if state.is_ended() || state.ending.is_some() {
        return None;
    }
    let calls = state.calls.iter().filter_map(|call| match call.stage {
        Stage::Asked { expires_at, .. }
        | Stage::Parked { expires_at }
        | Stage::Child { expires_at, .. }
        | Stage::AskedUncertain { expires_at } => Some(expires_at),
        Stage::Backoff { until, .. } if !state.suspended => Some(until),
        _ => None,
    });
    let asks = matches!(state.phase, Phase::Model | Phase::Summary);
    let model = state.model.not_before.filter(|_| asks);
    let ask = state.budget_ask.map(|ask| ask.expires_at);
    let limits = [state.clock.due(state.budgets.timeout_ms), state.deadline];
    calls
        .filter(|_| state.phase == Phase::Tools)
        .chain(model)
        .chain(ask)
        .chain(state.open_approvals.iter().filter_map(OpenApproval::next_due))
        .chain(limits.into_iter().flatten())
        .min()
}

impl Machine<'_> {
    pub(super) fn timer_fired(&mut self) -> Legal {
        let timeout = self.state.clock.due(self.state.budgets.timeout_ms);
        let over = [timeout, self.state.deadline].into_iter().flatten().any(|due| due <= self.at);
        if over && self.state.ending.is_none() {
            self.end_by_limit(Limit::Timeout);
        }
        if self.state.ending.is_some() {
            return Ok(());
        }
        if self.state.model.not_before.is_some_and(|due| due <= self.at) {
            self.state.model.not_before = None;
        }
        if let Some(ask) = self.state.budget_ask.filter(|ask| ask.expires_at <= self.at) {
            self.expire(ask.approval_id, json!({}));
            self.refused_more(ask);
        }
        if self.state.phase == Phase::Tools {
            // One call's expiry may end the run: the others are cut short then, and nothing is sent again.
            for index in 0..self.state.calls.len() {
                if self.state.ending.is_none() {
                    self.call_expired(index);
                }
            }
            self.note_progress();
            self.send_due();
        }
        if self.state.ending.is_none() {
            self.remind();
        }
        Ok(())
    }

    /// Sends again what is due, unless the run ends.
    fn send_due(&mut self) {
        for index in 0..self.state.calls.len() {
            match self.state.calls[index].stage {
                Stage::Backoff { attempt, tainted, .. } if self.state.ending.is_some() => {
                    self.not_sent_again(index, attempt, tainted);
                }
                Stage::Backoff { until, .. } if until <= self.at => self.send_again(index),
                _ => {}
            }
        }
        self.note_progress();
    }

    fn call_expired(&mut self, index: usize) {
        match self.state.calls[index].stage.clone() {
            Stage::Asked { expires_at, on_expiry } if expires_at <= self.at => {
                self.approval_expired(index, on_expiry)
            }
            Stage::AskedUncertain { expires_at } if expires_at <= self.at => self.question_expired(index),
            Stage::Child { expires_at, .. } if expires_at <= self.at => self.child_expired(index),
            Stage::Parked { expires_at } if expires_at <= self.at => {
                if self.state.calls[index].writes {
                    self.uncertain(index, "the client gave no answer in time");
                } else {
                    self.fail(index, ErrorCode::Timeout, "The client gave no answer in time.");
                }
            }
            _ => {}
        }
    }

    fn approval_expired(&mut self, index: usize, on_expiry: OnExpiry) {
        let call = &self.state.calls[index];
        let (id, approval_id, tool_name) = (call.id, call.approval_id(), call.tool_name.clone());
        self.expire(approval_id, json!({"tool_call_id": id, "tool_name": tool_name}));
        if on_expiry == OnExpiry::Stop {
            let detail = format!("nobody decided on the call of {tool_name} in time");
            self.end_by(StopReason::ApprovalExpired, detail, Some(tool_name));
        }
        let reason = "nobody decided in time".to_owned();
        let decision = Decision::by_person(Effect::Deny, "expiry".into(), reason, self.at);
        self.records.push(Record::CallDecided { call: id, decision: decision.clone() });
        self.deny(index, &decision.by, &decision.reason);
    }

    fn question_expired(&mut self, index: usize) {
        let call = &self.state.calls[index];
        let (id, approval_id, tool_name) = (call.id, call.uncertain_approval_id(), call.tool_name.clone());
        let ledger_id = call.ledger_id();
        self.expire(approval_id, json!({"tool_call_id": id, "tool_name": tool_name}));
        self.complete(index, super::settle::uncertain_result("nobody could tell in time"), Some(ledger_id));
        let detail = format!("nobody knows whether the call of {tool_name} happened");
        self.end_by(StopReason::SideEffectUncertain, detail, Some(tool_name));
    }

    fn expire(&mut self, approval_id: crate::id::ApprovalId, mut data: serde_json::Value) {
        self.records.push(Record::ApprovalClosed {
            approval_id,
            status: ApprovalStatus::Expired,
            by: "expiry".into(),
        });
        data["approval_id"] = json!(approval_id);
        data["status"] = json!("expired");
        self.emit_in_step(EventType::ApprovalDecided, data);
    }

    /// A server died with the run, or handed it back unfinished: what was out then is unclear now, but for what is known not
    /// to have left, which is still to be sent.
    pub(super) fn recovered(&mut self, deaths: u32, unsent: &[CallId]) -> Legal {
        self.state.deaths = self.state.deaths.max(deaths);
        let in_step = self.state.deaths - self.state.deaths_before_step;
        let too_many = in_step > self.config.max_recoveries;
        if too_many {
            self.end_by(
                StopReason::CrashLoop,
                format!("its servers died {in_step} times in this step"),
                None,
            );
        }
        for index in 0..self.state.calls.len() {
            let is_unsent = unsent.contains(&self.state.calls[index].id);
            match self.state.calls[index].stage {
                Stage::Out { .. } if is_unsent && self.state.ending.is_none() => {}
                Stage::Out { attempt, tainted } if is_unsent => self.not_sent_again(index, attempt, tainted),
                // Whatever kills the servers isn't done once more, not even to learn what became of a write.
                Stage::Out { .. } | Stage::Reconciling { .. } if too_many => self.abandoned(index),
                Stage::Out { attempt, tainted } => self.lost(index, attempt, tainted),
                _ => {}
            }
        }
        self.note_progress();
        self.send_due();
        Ok(())
    }

    fn abandoned(&mut self, index: usize) {
        if self.state.calls[index].writes {
            self.uncertain(index, "the server stopped while it was out");
        } else {
            self.fail(index, ErrorCode::Cancelled, "The run ended before this call was done.");
        }
    }

    /// The server stopped while the call was out.
    fn lost(&mut self, index: usize, attempt: u32, tainted: bool) {
        let Some(tool) = self.tool_of(index) else { return };
        let why = "the server stopped while it was out".to_owned();
        let next = after_attempt(tool, attempt, tainted, Attempt::Unclear(ErrorCode::Unavailable, why), 0);
        let tainted = tainted || tool.writes();
        match next {
            Next::Retry(_) => {
                self.state.calls[index].stage = Stage::Backoff { attempt, tainted, until: self.at }
            }
            Next::Uncertain(why) => self.unclear(index, attempt, why),
            Next::Failed(code, message) => self.fail(index, code, &message),
            Next::Succeeded(_) => {}
        }
    }
}
