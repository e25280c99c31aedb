//! A recording as a simulation reads it: what was answered to which need, how long that took, and what came by itself.

use std::collections::{BTreeMap, VecDeque};

use super::Recording;
use super::needs::{Need, Waits};
use crate::Millis;
use crate::budget::Estimate;
use crate::catalog::Equipped;
use crate::id::CallId;
use crate::run::{Call, Event, RunConfig, RunState, next_due, step};

/// A recorded event.
#[derive(Debug, Clone)]
pub(super) struct Entry<'a> {
    /// The event, with the recorded ids.
    pub(super) event: &'a Event,
    /// When it happened, never before an earlier one: events that were committed together may stand out of order.
    pub(super) time: Millis,
    /// What it answers; `None`: it came by itself.
    pub(super) need: Option<Need>,
    /// How long that was waited for.
    pub(super) took: Millis,
    /// A timer was overdue for so long when it came.
    pub(super) overdue: Option<Millis>,
    /// It came where a context was due.
    pub(super) at_boundary: bool,
    /// The call that it is about, as it was then.
    pub(super) call: Option<Called>,
}

/// A call at some moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Called {
    pub(super) tool_name: String,
    pub(super) input_hash: String,
    pub(super) key: String,
}

impl From<&Call> for Called {
    fn from(call: &Call) -> Self {
        Self {
            tool_name: call.tool_name.clone(),
            input_hash: call.input_hash.clone(),
            key: call.idempotency_key.clone(),
        }
    }
}

impl Called {
    /// That call of a run, as it is now.
    pub(super) fn of(state: &RunState, id: CallId) -> Option<Self> {
        state.call(id).map(Self::from)
    }

    /// Whether what one was answered is an answer to the other.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.tool_name, &self.input_hash) == (&other.tool_name, &other.input_hash)
    }
}

/// A recording, sorted.
#[derive(Debug, Default)]
pub(super) struct Tape<'a> {
    pub(super) entries: Vec<Entry<'a>>,
    /// What answers each need, by the recorded ids, in order; what was used is gone.
    answers: BTreeMap<Need, VecDeque<usize>>,
    /// What came by itself, in order; what was used is gone.
    pub(super) by_itself: VecDeque<usize>,
    /// Attempts, clients' answers, and runs of other agents by tool and input, those of each call together.
    by_input: BTreeMap<(String, String), Vec<Vec<usize>>>,
    /// Calls that ran then, answered or not.
    begun: BTreeMap<CallId, Called>,
    /// Calls that the models made.
    calls: usize,
    /// What was waited for in vain in the end, by the recorded ids, and for how long.
    given_up: BTreeMap<Need, Millis>,
    /// Estimates of contexts, in order.
    estimates: VecDeque<Estimate>,
}

impl<'a> Tape<'a> {
    /// Sorts a recording. What the state machine of today finds illegal in it is kept all the same.
    pub(super) fn of(recording: &Recording<'a>) -> Self {
        let mut equipped = Equipped::of(recording.registry);
        let (mut state, mut waits) = (recording.first.clone(), Waits::of(recording.first));
        let (mut given_up, mut begun) = (BTreeMap::new(), BTreeMap::new());
        let mut last = recording.journal.first().map_or(0, Event::at);
        let mut entries = Vec::with_capacity(recording.journal.len());
        for event in recording.journal {
            last = event.at().max(last);
            let entry = entry(&state, &waits, event, last);
            let met = entry.need;
            entries.push(entry);
            let registry = equipped.registry();
            let config = RunConfig { registry, max_recoveries: recording.max_recoveries };
            if let Ok(transition) = step(config, state.clone(), event.clone().moved_to(last)) {
                state = transition.state;
                equipped.hear(event);
                given_up.extend(waits.go_on(&state, met, last));
                for call in state.calls.iter().filter(|call| call.started_at.is_some()) {
                    begun.entry(call.id).or_insert_with(|| Called::from(call));
                }
            }
        }
        Self { given_up, begun, ..Self::sorted(entries) }
    }

    fn sorted(entries: Vec<Entry<'a>>) -> Self {
        let mut tape = Self::default();
        let mut places: BTreeMap<CallId, usize> = BTreeMap::new();
        for (i, entry) in entries.iter().enumerate() {
            match entry.need {
                Some(need) => tape.answers.entry(need).or_default().push_back(i),
                // What a run does whose tenant isn't suspended is what is asked for.
                None if matches!(entry.event, Event::Suspended { .. } | Event::Resumed { .. }) => {}
                None => tape.by_itself.push_back(i),
            }
            if let Event::ContextBuilt { estimate, .. } | Event::SummaryNeeded { estimate, .. } = entry.event
            {
                tape.estimates.push_back(*estimate);
            }
            if let Event::ModelReplied { calls, .. } = entry.event {
                tape.calls += calls.len();
            }
            // What is looked up in the ledger is that call's alone.
            let is_keys = matches!(entry.event, Event::KeyTaken { .. });
            if let Some(Need::Tool(id) | Need::Submission(id) | Need::Agent(id) | Need::Child(id)) =
                entry.need
                && let (Some(call), false) = (&entry.call, is_keys)
            {
                let key = (call.tool_name.clone(), call.input_hash.clone());
                let calls = tape.by_input.entry(key).or_default();
                let place = places.entry(id).or_insert_with(|| calls.len());
                match calls.get_mut(*place) {
                    Some(answers) => answers.push(i),
                    None => calls.push(vec![i]),
                }
            }
        }
        tape.entries = entries;
        tape
    }

    /// The next answer to a need, by the recorded ids.
    pub(super) fn next_for(&self, need: Need) -> Option<usize> {
        self.answers.get(&need)?.front().copied()
    }

    /// Events and calls that there are.
    pub(super) fn size(&self) -> usize {
        self.entries.len() + self.calls
    }

    /// For how long this was waited for in vain, by the recorded ids: no answer came earlier.
    pub(super) fn in_vain(&self, need: Need) -> Millis {
        self.given_up.get(&need).copied().unwrap_or(0).max(0)
    }

    /// Whether this recorded call ran, being what it is now: then there is no other answer than its own, if any.
    pub(super) fn has_run(&self, id: CallId, now: &Called) -> bool {
        self.begun.get(&id).is_some_and(|then| then.is_same(now))
    }

    /// What the `nth` call of this tool with this input was answered, in order.
    pub(super) fn nth_answers(&self, call: &Called, nth: usize) -> VecDeque<usize> {
        let key = (call.tool_name.clone(), call.input_hash.clone());
        let calls = self.by_input.get(&key).and_then(|calls| calls.get(nth));
        calls.map(|answers| answers.iter().copied().collect()).unwrap_or_default()
    }

    /// It was used, or can't be.
    pub(super) fn take(&mut self, index: usize) {
        let need = self.entries.get(index).and_then(|entry| entry.need);
        let left = match need {
            Some(need) => self.answers.get_mut(&need),
            None => Some(&mut self.by_itself),
        };
        if let Some(left) = left
            && let Some(place) = left.iter().position(|known| *known == index)
        {
            left.remove(place);
        }
    }

    /// What the next context was estimated at; after the last, what that was.
    pub(super) fn next_estimate(&mut self) -> Option<Estimate> {
        if self.estimates.len() > 1 { self.estimates.pop_front() } else { self.estimates.front().copied() }
    }
}

fn entry<'a>(state: &RunState, waits: &Waits, event: &'a Event, time: Millis) -> Entry<'a> {
    let need = Need::met_by(event, state);
    let since = need.and_then(|need| waits.since(need));
    Entry {
        event,
        time,
        need,
        took: since.map_or(0, |since| time.saturating_sub(since).max(0)),
        overdue: next_due(state).filter(|due| *due <= time).map(|due| time.saturating_sub(due)),
        at_boundary: waits.since(Need::Context).is_some(),
        call: need.and_then(Need::call).and_then(|id| Called::of(state, id)),
    }
}
