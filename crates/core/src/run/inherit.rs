//! Runs that stand on other runs: they go on from a state, and bring along what was used and what was done.

use serde::{Deserialize, Serialize};

use super::child::Given;
use super::clock::Clock;
use super::state::{Phase, RunState};
use super::status::Status;
use super::summing::Summing;
use crate::Millis;
use crate::budget::{Budgets, Used};
use crate::id::{LedgerId, RunId};
use crate::loop_guard::LoopGuard;
use crate::model_retry::Progress;

/// What a run brought along from the one that it stands on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inherited {
    /// Used before; it counts against the limits, and on the bill only there.
    pub used: Used,
    /// Effects made before that a call of this run may take: so many aren't taken yet. Which they are is in the store.
    pub effects: u32,
    /// Those that calls of the open step took.
    pub taken: Vec<LedgerId>,
}

/// What follows the state that is gone on from.
#[derive(Debug, Clone)]
pub struct Heir {
    /// The new run.
    pub run_id: RunId,
    /// Its limits, of which as much is used as was before.
    pub budgets: Budgets,
    /// Messages that join the history before its first step.
    pub messages: u64,
    /// Effects that it may take from the ledger.
    pub effects: u32,
    /// Its time counts from then.
    pub counts_from: Millis,
}

impl RunState {
    /// A new run that goes on where this one, which has ended, left off. The loop guard begins anew: somebody looked at
    /// what went round in circles, and wants it to go on.
    pub fn continued(&self, heir: Heir) -> Self {
        Self { guard: LoopGuard::default(), ..self.inherited_by(heir) }
    }

    /// A new run that goes on from this checkpoint, which follows step `step`. A commit that saves a checkpoint may have
    /// begun the next step as well; of that nothing is kept.
    pub fn forked(&self, step: u32, heir: Heir) -> Self {
        let begun = self.step.saturating_sub(step);
        let mut forked = self.inherited_by(heir);
        forked.step = step;
        forked.used.steps = self.used.steps.saturating_sub(begun);
        if let Some(inherited) = &mut forked.inherited {
            inherited.used.steps = forked.used.steps;
        }
        forked
    }

    fn inherited_by(&self, heir: Heir) -> Self {
        let inherited = Inherited { used: self.used.clone(), effects: heir.effects, taken: Vec::new() };
        Self {
            version: self.version.max(VERSION_OF_HEIRS),
            run_id: heir.run_id,
            status: Status::Queued,
            phase: Phase::Queued,
            budgets: heir.budgets,
            used: self.used.clone(),
            clock: Clock { ran_ms: self.clock.ran_ms, since: Some(heir.counts_from) },
            deadline: None,
            step: self.step,
            model: Progress::default(),
            turns: self.turns,
            estimate: self.estimate,
            calls: Vec::new(),
            guarded: 0,
            guard: self.guard.clone(),
            over_limit: false,
            denied: self.denied.clone(),
            unsettled: self.unsettled.clone(),
            budget_ask: None,
            asks: 0,
            ending: None,
            end: None,
            deaths: 0,
            deaths_before_step: 0,
            next_message: self.next_message + heir.messages,
            // It stands on this one, and is nobody's child.
            depth: 0,
            by_children: Used::default(),
            abandoned: Given::default(),
            open_approvals: Vec::new(),
            denials: None,
            inherited: Some(inherited),
            correction: self.correction.clone(),
            summing: Summing::default(),
            tools: None,
            suspended: false,
            bill: None,
        }
    }

    /// Whether an effect made before may be what a call wants.
    pub fn has_effects_to_take(&self) -> bool {
        self.inherited.as_ref().is_some_and(|inherited| inherited.effects > 0)
    }
}

/// What a binary must understand to work on such a run.
const VERSION_OF_HEIRS: u16 = 2;
