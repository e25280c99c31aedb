//! A recorded run, and the replay that it is compared with.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::budget::{BudgetPatch, Budgets};
use crate::id::RunId;
use crate::permission::{CompiledPolicy, Owner};
use crate::registry::Registry;
use crate::replay::{
    Changes, Difference, Recording, Replayed, Rules, Under, Unplayable, first_difference, replay, story_of,
};
use crate::run::trial::{MAX_RECOVERIES, Trial, agent, frame};
use crate::run::{Event, RunState};

/// A run that was recorded, its contexts built as a shell builds them.
pub(in crate::run::table) struct Recorded {
    pub(in crate::run::table) registry: Registry,
    pub(in crate::run::table) replayed: Replayed,
    pub(in crate::run::table) journal: Vec<Event>,
}

/// What a run is played again under.
pub(in crate::run::table) struct Other {
    pub(in crate::run::table) agent: Value,
    /// Also judged by this.
    pub(in crate::run::table) policy: Value,
    pub(in crate::run::table) budgets: BudgetPatch,
    pub(in crate::run::table) context: Value,
    pub(in crate::run::table) rules: bool,
}

impl Default for Other {
    fn default() -> Self {
        let budgets = BudgetPatch::default();
        Self { agent: json!({}), policy: json!({}), budgets, context: json!({}), rules: true }
    }
}

pub(in crate::run::table) fn policy(policy: Value) -> Other {
    Other { policy, ..Other::default() }
}

pub(in crate::run::table) fn run(
    recording: &Recording<'_>,
    under: Under<'_>,
) -> Result<Replayed, Unplayable> {
    let run_id = RunId(Uuid::from_u128((0x018b_cfe5_6800_7000 << 64) | (0x8000 << 48) | 5));
    replay(recording, under, &frame(&RunState { run_id, ..recording.first.clone() }))
}

impl Recorded {
    /// `agent`: its changes, as the trial has them.
    pub(in crate::run::table) fn of(trial: &Trial, changes: &Value) -> Self {
        let registry = agent(changes);
        let (budgets, context) = (&trial.recording().first.budgets, json!({}));
        let rules = Some(Rules { tenant: None, run: None, creators: &[], context: &context });
        let changes = Changes { registry: &registry, budgets, rules };
        let replayed = run(&trial.recording(), Under::Changed(changes)).expect("played");
        assert!(replayed.last().is_ended());
        let journal = replayed.parts.iter().flat_map(|part| part.events.clone()).collect();
        Self { registry, replayed, journal }
    }

    pub(in crate::run::table) fn recording(&self) -> Recording<'_> {
        Recording {
            registry: &self.registry,
            max_recoveries: MAX_RECOVERIES,
            first: &self.replayed.first,
            before: &[],
            inputs: &self.replayed.inputs,
            journal: &self.journal,
        }
    }

    /// The replay, with the laws checked, and its first difference.
    pub(in crate::run::table) fn under(&self, other: &Other) -> (Trial, Option<Difference>) {
        let recording = self.recording();
        let registry = agent(&other.agent);
        let tenant = serde_json::from_value(other.policy.clone()).expect("a policy");
        let tenant = CompiledPolicy::compile(&tenant, Owner::Tenant).expect("a policy");
        let rules = Rules { tenant: Some(&tenant), run: None, creators: &[], context: &other.context };
        let budgets: Budgets = other.budgets.apply(&recording.first.budgets);
        let rules = other.rules.then_some(rules);
        let changes = Changes { registry: &registry, budgets: &budgets, rules };
        let replayed = run(&recording, Under::Changed(changes)).expect("played");
        let difference = first_difference(&story_of(&recording), &replayed.story);
        (Trial::of_replay(registry, &replayed), difference)
    }
}
