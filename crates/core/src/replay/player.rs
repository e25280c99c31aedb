//! A shell in memory: it folds events over the state, and keeps what they say.

use std::collections::BTreeMap;

use serde_json::Value;

use super::gate::Gate;
use super::ids::Ids;
use super::needs::{Need, Waits};
use super::story::Teller;
use super::{Part, Recording, Replayed, Under, Unplayable, simulate, tape};
use crate::Millis;
use crate::budget::{Estimate, Size};
use crate::catalog::Equipped;
use crate::context::{ContextOverflow, Next, Sizes, next, target_of_turn};
use crate::id::{ApprovalId, CallId};
use crate::message::{Message, place};
use crate::run::{Event, Record, RunConfig, RunState, Transition, note_inputs, step};
use crate::trace::{Frame, Span, Told, spans};

/// A run that is played again.
pub(super) struct Player<'a> {
    /// The agent, with the tools that are listed.
    pub(super) equipped: Equipped<'a>,
    max_recoveries: u32,
    pub(super) gate: Option<Gate<'a>>,
    frame: &'a Frame,
    pub(super) ids: Ids,
    pub(super) state: RunState,
    /// When the last event happened.
    pub(super) now: Millis,
    pub(super) waits: Waits,
    history: Vec<Message>,
    /// Tokens of its messages: many contexts are built of them.
    sizes: Sizes,
    /// Inputs of the open step's calls.
    pub(super) inputs: BTreeMap<CallId, Value>,
    teller: Teller,
    first: RunState,
    given: Vec<Message>,
    parts: Vec<Part>,
    open: Option<Part>,
    decided: Vec<(ApprovalId, ApprovalId)>,
}

impl<'a> Player<'a> {
    pub(super) fn new(recording: &Recording<'a>, under: Under<'a>, frame: &'a Frame) -> Self {
        let ids = Ids::new(recording, frame.run_id);
        let (registry, budgets, gate) = match under {
            Under::TheSame => (recording.registry, &recording.first.budgets, None),
            Under::Changed(changes) => (changes.registry, changes.budgets, Gate::of(&changes)),
        };
        let first = RunState { run_id: frame.run_id, budgets: budgets.clone(), ..recording.first.clone() };
        let renamed = |message: &Message| Message { id: ids.message(message.id), ..message.clone() };
        let given: Vec<Message> = recording.inputs.iter().map(renamed).collect();
        Self {
            equipped: Equipped::of(registry),
            max_recoveries: recording.max_recoveries,
            gate,
            frame,
            now: first.clock.since.unwrap_or(0),
            waits: Waits::of(&first),
            sizes: Sizes::default(),
            history: recording.before.iter().chain(&given).cloned().collect(),
            inputs: BTreeMap::new(),
            teller: Teller::default(),
            state: first.clone(),
            first,
            given,
            parts: Vec::new(),
            open: None,
            decided: Vec::new(),
            ids,
        }
    }

    /// Whether contexts name messages that are gone, so that they can't be built again.
    pub(super) fn lacks_messages(&self, journal: &[Event]) -> bool {
        let known: std::collections::HashSet<_> = self.history.iter().map(|message| message.id).collect();
        let named = journal.iter().filter_map(|event| match event {
            Event::ContextBuilt { manifest, .. } => Some(manifest),
            _ => None,
        });
        let named = named.flat_map(|manifest| {
            manifest.included.iter().chain(manifest.omitted.iter().map(|omitted| &omitted.message_id))
        });
        named.into_iter().any(|id| !self.ids.knows(id.0) && !known.contains(id))
    }

    /// Takes the recorded events just as they came.
    pub(super) fn verbatim(mut self, journal: &[Event]) -> Result<Replayed, Unplayable> {
        for event in journal {
            let recorded = event.clone();
            let event = self.ids.event(&self.state, recorded.clone());
            self.happens(event, Some(&recorded));
        }
        // A state machine of another version may need more than was recorded.
        simulate::simulated(self, tape::Tape::default())
    }

    /// Lets an event happen; what is illegal is left out. `recorded`: the event that it was made of.
    pub(super) fn happens(&mut self, event: Event, recorded: Option<&Event>) {
        let config = RunConfig { registry: self.equipped.registry(), max_recoveries: self.max_recoveries };
        let Ok(Transition { state, records }) = step(config, self.state.clone(), event.clone()) else {
            return;
        };
        self.decided.extend(recorded.and_then(|recorded| approval_of(recorded).zip(approval_of(&event))));
        note_inputs(&mut self.inputs, &records);
        let told = Told {
            registry: self.equipped.registry(),
            before: &self.state,
            event: &event,
            after: &state,
            records: &records,
            inputs: &self.inputs,
        };
        let spans = spans(self.frame, &told);
        self.equipped.hear(&event);
        for record in &records {
            self.teller.note(record);
            if let Record::Message(message) = record {
                place(&mut self.history, message.clone());
            }
        }
        self.now = self.now.max(event.at());
        let met = Need::met_by(&event, &self.state);
        self.waits.go_on(&state, met, self.now);
        self.state = state;
        self.write(event, spans, records);
    }

    /// Adds to the open part. A part ends with a checkpoint: the state after it is what is saved.
    fn write(&mut self, event: Event, spans: Vec<Span>, records: Vec<Record>) {
        let ends = records.iter().any(|record| matches!(record, Record::Checkpoint(_)));
        let part = self.open.get_or_insert_with(|| Part::beginning(&self.first));
        part.events.push(event);
        part.spans.push(spans);
        part.records.extend(records);
        if ends {
            self.close_part();
        }
    }

    fn close_part(&mut self) {
        if let Some(part) = self.open.take() {
            self.parts.push(Part { state: self.state.clone(), ..part });
        }
    }

    /// The next context, built now, or that a summary must be made first; `recorded` is what one was estimated at then.
    pub(super) fn context(&self, at: Millis, recorded: Option<Estimate>, duration_ms: u64) -> Event {
        match next(self.equipped.registry(), &self.state, &self.history, &self.sizes) {
            Next::Overflow(ContextOverflow { tokens, max_tokens }) => {
                Event::ContextOverflowed { at, tokens, max_tokens }
            }
            Next::Summary(plan) => {
                let estimate = estimate(&plan.size, recorded);
                Event::SummaryNeeded { at, task: plan.into(), estimate }
            }
            Next::Turn(manifest, size) => {
                let (provider, model) = target_of_turn(&self.equipped.registry().spec.model, &self.state);
                let (provider, model) = (provider.to_owned(), model.to_owned());
                let estimate = estimate(&size, recorded);
                Event::ContextBuilt { at, manifest, estimate, provider, model, duration_ms }
            }
        }
    }

    /// The run as it was played. It has ended.
    pub(super) fn done(mut self) -> Replayed {
        self.close_part();
        Replayed {
            first: self.first,
            inputs: self.given,
            parts: self.parts,
            story: self.teller.told(&self.state),
            decided: self.decided,
        }
    }
}

/// What a request of this size is estimated at, by the price that the recorded one had.
fn estimate(size: &Size, recorded: Option<Estimate>) -> Estimate {
    let plain = Estimate::of(size, None);
    let Some(recorded) = recorded else { return plain };
    let (input_tokens, of) = (plain.input_tokens, u128::from(recorded.input_tokens.max(1)));
    let cost = (u128::from(recorded.cost_microusd) * u128::from(input_tokens)).div_ceil(of);
    let cost_microusd = if recorded.input_tokens == input_tokens {
        recorded.cost_microusd
    } else {
        u64::try_from(cost).unwrap_or(u64::MAX)
    };
    let output_microusd_per_mtok = recorded.output_microusd_per_mtok;
    Estimate { cost_microusd, priced: recorded.priced, output_microusd_per_mtok, ..plain }
}

/// The approval that a person's word decides. The API writes that down, not the run.
fn approval_of(event: &Event) -> Option<ApprovalId> {
    match event {
        // Older journals don't name it: people were asked once about a call.
        Event::CallDecided { call, approval, .. } => Some(approval.unwrap_or(ApprovalId(call.0))),
        Event::EffectSettled { call, .. } => Some(ApprovalId(uuid::Uuid::from_u128(call.0.as_u128() ^ 1))),
        Event::BudgetDenied { approval, .. } => Some(*approval),
        _ => None,
    }
}
