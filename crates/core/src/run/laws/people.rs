//! The people of a random life: they decide, answer, settle and change limits.

use super::life::Life;
use super::world;
use crate::budget::BudgetPatch;
use crate::ledger::Effect as Made;
use crate::run::{Event, Stage, StopReason, SubmittedStatus};

impl Life {
    pub(super) fn people_owe_something(&self) -> bool {
        self.trial.state.budget_ask.is_some() || self.owed().next().is_some()
    }

    fn owed(&self) -> impl Iterator<Item = usize> {
        let is_owed = |stage: &Stage| {
            matches!(
                stage,
                Stage::Asked { .. }
                    | Stage::AskedUncertain { .. }
                    | Stage::Parked { .. }
                    | Stage::Child { .. }
            )
        };
        self.trial
            .state
            .calls
            .iter()
            .enumerate()
            .filter(move |(_, call)| is_owed(&call.stage))
            .map(|(index, _)| index)
    }

    pub(super) fn people_answer(&mut self) {
        let at = self.trial.now;
        if let Some(ask) = self.trial.state.budget_ask {
            let by = "key_a".to_owned();
            match self.tape.pick(2) {
                0 => self.happens(Event::BudgetDenied { at, approval: ask.approval_id, by }),
                _ => self.limits_change(),
            }
            return;
        }
        let owed: Vec<usize> = self.owed().collect();
        let index = self.tape.one(&owed);
        let event = match self.trial.state.calls[index].stage {
            Stage::Asked { .. } => match self.decision(index) {
                Some(decision) => decision,
                None => return self.time_passes(),
            },
            Stage::AskedUncertain { .. } => {
                self.maybe.remove(&self.trial.call(index));
                self.trial.settled(index, self.tape.pick(2) == 0)
            }
            Stage::Child { .. } => {
                let (reason, effect, part) = world::child(&mut self.tape);
                if effect == Made::Possible && reason != StopReason::FinalAnswer {
                    self.maybe.insert(self.trial.call(index));
                }
                self.trial.child_end(index, reason, effect, part)
            }
            _ => {
                let status = self.tape.one(&[SubmittedStatus::Succeeded, SubmittedStatus::Failed]);
                self.trial.submitted(index, status)
            }
        };
        self.happens(event);
    }

    /// As the API allows it: never below what is used.
    pub(super) fn limits_change(&mut self) {
        let (used, tape) = (self.trial.state.used.clone(), &mut self.tape);
        let patch = match tape.pick(6) {
            0 => BudgetPatch { max_steps: Some(used.steps + tape.one(&[0, 1, 5])), ..BudgetPatch::default() },
            1 => BudgetPatch {
                max_tool_calls: Some(used.tool_calls + tape.one(&[0, 1, 9])),
                ..BudgetPatch::default()
            },
            2 => BudgetPatch {
                max_tokens: Some(used.tokens() + tape.one(&[0, 30, 900])),
                ..BudgetPatch::default()
            },
            3 => BudgetPatch { max_cost_microusd: Some(None), ..BudgetPatch::default() },
            4 => BudgetPatch { max_cost_microusd: Some(Some(used.cost_microusd)), ..BudgetPatch::default() },
            _ => BudgetPatch {
                max_steps: Some(used.steps + 3),
                max_tool_calls: Some(used.tool_calls + 3),
                max_tokens: Some(used.tokens() + 500),
                max_cost_microusd: Some(None),
                ..BudgetPatch::default()
            },
        };
        let (asked, enough) = (self.trial.state.budget_ask, self.trial.state.is_enough(&patch));
        self.trial.budget(patch);
        // It may ask again at once, where another limit is in the way.
        assert_eq!(asked.is_some() && self.trial.state.budget_ask == asked, asked.is_some() && !enough);
    }
}
