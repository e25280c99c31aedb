//! A run as an eval case: what it was asked, by whom it was done, what models, tools and people said, and how it ended.
//!
//! All of that is read out of the journal: it is what really came in, before anything was made of it.

mod decisions;
mod listed;
mod model;
mod said;
mod tools;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::Millis;
use crate::agent::redacted;
use crate::catalog::Equipped;
use crate::id::{ArtifactId, CallId};
use crate::message::Message;
use crate::registry::Registry;
use crate::run::{Event, RunConfig, RunState, note_inputs, step};

/// What a case is made of.
#[derive(Debug)]
pub struct Source<'a> {
    /// The agent that the run was pinned to.
    pub registry: &'a Registry,
    /// The agent as it is shown; its secrets are taken out here.
    pub agent: &'a Value,
    /// The run's context.
    pub context: &'a Value,
    /// The policy that it was started with.
    pub policy: Option<&'a Value>,
    /// Deaths in one step that it survives.
    pub max_recoveries: u32,
    /// The state that it began in.
    pub first: &'a RunState,
    /// What it was given at its beginning.
    pub inputs: &'a [Message],
    /// Hashes of the artifacts that people's messages refer to, as far as those are there.
    pub hashes: &'a BTreeMap<ArtifactId, String>,
    /// What happened so far, in order.
    pub journal: &'a [Event],
}

/// The parts of a case that the journal tells of, as JSON: `agent`, `budgets`, `context`, `policy` if it had its own,
/// `input`, `model`, `tools`, `decisions`, `steers`. Pictures and documents that people sent are named by their size and hash; what they hold stays an
/// artifact.
pub fn eval_case(source: &Source<'_>) -> Value {
    let mut case = Case::default();
    let mut scene = Scene::of(source);
    for event in source.journal {
        let Ok(next) = step(scene.config(), scene.state.clone(), event.clone()) else { continue };
        scene.equipped.hear(event);
        case.listed.note(event);
        case.model.extend(model::attempt(&scene, event));
        case.tools.extend(tools::answer(&scene, event));
        case.steers.extend(said::steer(source, &scene, event));
        let call_step = next.state.step;
        next.records.iter().for_each(|record| case.decisions.note(record, call_step));
        case.decisions.hear(event);
        note_inputs(&mut scene.inputs, &next.records);
        scene.state = next.state;
    }
    let first = source.first;
    let mut told = json!({
        "input": source.inputs.iter().map(|message| said::input(source, message)).collect::<Vec<_>>(),
        "context": source.context,
        "budgets": first.budgets,
        "agent": case.listed.given_to(redacted(source.agent)),
        "model": case.model,
        "tools": case.tools,
        "decisions": case.decisions.told(),
        "steers": case.steers,
    });
    if let Some(policy) = source.policy {
        told["policy"] = policy.clone();
    }
    case.listed.rename(&mut told);
    told
}

#[derive(Default)]
struct Case {
    model: Vec<Value>,
    tools: Vec<Value>,
    decisions: decisions::Decisions,
    steers: Vec<Value>,
    listed: listed::ListedTools,
}

/// The run as it was when something came in.
struct Scene<'a> {
    equipped: Equipped<'a>,
    max_recoveries: u32,
    context: &'a Value,
    state: RunState,
    inputs: BTreeMap<CallId, Value>,
    /// When it started, or would have.
    began: Millis,
}

impl<'a> Scene<'a> {
    fn of(source: &Source<'a>) -> Self {
        let started = source.journal.iter().find(|event| matches!(event, Event::Started { .. }));
        let accepted = source.first.clock.since.unwrap_or(0);
        Self {
            equipped: Equipped::of(source.registry),
            max_recoveries: source.max_recoveries,
            context: source.context,
            state: source.first.clone(),
            inputs: BTreeMap::new(),
            began: started.map_or(accepted, Event::at),
        }
    }

    fn config(&self) -> RunConfig<'_> {
        RunConfig { registry: self.equipped.registry(), max_recoveries: self.max_recoveries }
    }

    /// Milliseconds since the run's start.
    fn at_ms(&self, event: &Event) -> Millis {
        event.at().saturating_sub(self.began).max(0)
    }
}
