//! A shell for tests: it keeps a run's state and what its records say in memory, and after every event it checks what must
//! always hold.

mod agent;
mod approvals;
mod checks;
mod events;
mod history;
mod ledger;
mod listing;
mod play;
mod recorded;
mod rules;
mod spans;
mod summing;
mod tables;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

pub(super) use agent::agent;
pub(super) use listing::with_server;
pub(super) use play::{approved, not_done, refused, said, unclear};
pub(super) use rules::CREATOR;
use rules::Rules;
use spans::Spans;
pub(super) use spans::frame;
use tables::Tables;

use super::{Event, IllegalEvent, Record, RunConfig, RunState, Transition, step};
use crate::Millis;
use crate::budget::Budgets;
use crate::catalog::{Equipped, with_tools};
use crate::id::{CallId, MessageId, RunId};
use crate::message::{Message, Role};
use crate::registry::Registry;

/// When every trial begins.
pub(super) const DAWN: Millis = 1_700_000_000_000;
/// Deaths in one step that a run of a trial survives.
pub(super) const MAX_RECOVERIES: u32 = 2;

/// A run under test.
pub(super) struct Trial {
    pub(super) registry: Registry,
    pub(super) state: RunState,
    pub(super) tables: Tables,
    pub(super) now: Millis,
    pub(super) journal: Vec<Event>,
    accepted: RunState,
    /// Tools that were listed last.
    listed: Option<Registry>,
    /// What calls are judged by beside their agent's policy.
    pub(super) rules: Rules,
    /// Nothing begins by other rules than those.
    fenced: bool,
    pub(super) spans: Spans,
    ids: u128,
}

impl Trial {
    /// A run of the test agent, changed by `changes` ([`agent`]), that was just accepted.
    pub(super) fn new(changes: &Value) -> Self {
        let registry = agent(changes);
        let budgets = registry.spec.budgets.clone();
        Self::accepted(registry, budgets, None)
    }

    /// A run of `registry` with its limits.
    pub(super) fn accepted(registry: Registry, budgets: Budgets, deadline: Option<Millis>) -> Self {
        let run_id = RunId(Uuid::from_u128(0x0123_4567_89ab_7def_8123_4567_89ab_cdef));
        let state = RunState::accepted(run_id, budgets, 1, DAWN, deadline);
        let mut trial = Self {
            registry,
            accepted: state.clone(),
            listed: None,
            state,
            tables: Tables::default(),
            now: DAWN,
            journal: Vec::new(),
            rules: Rules::default(),
            fenced: true,
            spans: Spans::default(),
            ids: 0,
        };
        let id = MessageId(trial.new_id());
        trial.tables.message(Message::text(id, 1, Role::User, "go"));
        trial
    }

    /// A run that stands on this one and begins in `state`. The history and what was done are those of both.
    pub(super) fn heir(mut self, state: RunState) -> Self {
        // Its own events begin anew; those of the steps that it shows are checked with the others.
        use crate::run::EventType::{RunCancelled, RunFailed, RunFinished, RunStarted};
        let of_steps = |kind| !matches!(kind, RunStarted | RunFinished | RunFailed | RunCancelled);
        self.tables.events.retain(|told| of_steps(told.kind));
        self.tables.ended = None;
        let seq = state.next_message - 1;
        if !self.tables.messages.contains_key(&seq) {
            let id = MessageId(self.new_id());
            self.tables.message(Message::text(id, seq, Role::User, "go on"));
        }
        let spans = Spans::after(&self.tables);
        Self { accepted: state.clone(), state, journal: Vec::new(), spans, listed: None, ..self }
    }

    /// A fresh id. They lie apart, since approvals take theirs from calls.
    pub(super) fn new_id(&mut self) -> Uuid {
        self.ids += 16;
        Uuid::from_u128((0x018b_cfe5_6800_7000 << 64) | (0x8000 << 48) | self.ids)
    }

    /// Lets `event` happen. Everything that must hold is checked; an illegal event changes nothing.
    pub(super) fn happens(&mut self, event: Event) -> Result<Vec<Record>, IllegalEvent> {
        self.commits(event, false)
    }

    /// The same; `again`: what may begin by it was judged by the rules of now.
    fn commits(&mut self, event: Event, again: bool) -> Result<Vec<Record>, IllegalEvent> {
        let config = RunConfig { registry: self.equipped(), max_recoveries: MAX_RECOVERIES };
        let stored = (round_trip(&self.state), round_trip(&event));
        assert_eq!(stored.1, event, "an event survives its storage");
        assert_eq!(stored.0, self.state, "a state survives its storage");
        let done = step(config, self.state.clone(), event.clone());
        assert_eq!(step(config, stored.0, stored.1), done, "the same event gives the same state");
        let Transition { state, records } = done?;
        let begins = |record: &Record| {
            use Record::{ChildOpened, LedgerAttempt, LedgerOpened};
            matches!(record, LedgerOpened(_) | LedgerAttempt { .. } | ChildOpened(_))
        };
        assert!(
            !state.suspended || !records.iter().any(begins),
            "its tenant is suspended, and a call begins"
        );
        assert!(!self.state.is_ended(), "nothing happens after the end");
        if self.is_behind(&records) {
            assert!(!again, "it was judged again, and would begin by older rules");
            return self.judged_again(event);
        }
        self.tables.fold(&event, &records, self.now);
        let before = std::mem::replace(&mut self.state, state);
        let registry = self.listed.as_ref().unwrap_or(&self.registry);
        self.spans.take(registry, &before, &event, &self.state, &records);
        if let Event::ToolsListed { list, .. } = &event {
            let agent = with_tools(&self.registry.spec, &list.tools);
            self.listed = Some(Registry::compile(agent).expect("a list that was looked at"));
        }
        self.journal.push(event);
        self.check(&before, &records);
        Ok(records)
    }

    /// The agent, with the tools that were listed last.
    pub(super) fn equipped(&self) -> &Registry {
        self.listed.as_ref().unwrap_or(&self.registry)
    }

    /// Lets a legal `event` happen.
    pub(super) fn must(&mut self, event: Event) -> Vec<Record> {
        let what = format!("{event:?}");
        match self.happens(event) {
            Ok(records) => records,
            Err(error) => panic!("{error}: {what}\nin {:?}", self.state),
        }
    }

    /// The spans tell of all that is stored, once.
    fn check_spans(&self) {
        let asked = |event: &&Event| {
            use Event::{ModelFailed, ModelReplied, Summarized, SummaryFailed};
            matches!(
                event,
                ModelReplied { .. } | ModelFailed { .. } | Summarized { .. } | SummaryFailed { .. }
            )
        };
        self.spans.check(&self.state, &self.tables, self.journal.iter().filter(asked).count());
    }

    /// The journal, read back from storage and folded from the start, gives this state.
    pub(super) fn check_journal(&self) {
        self.check_spans();
        let mut equipped = Equipped::of(&self.registry);
        let fold = |state: RunState, event: &Event| {
            let config = RunConfig { registry: equipped.registry(), max_recoveries: MAX_RECOVERIES };
            let next = step(config, state, round_trip(event)).expect("a journal holds legal events").state;
            equipped.hear(event);
            next
        };
        assert_eq!(self.journal.iter().fold(round_trip(&self.accepted), fold), self.state);
    }

    /// Ids of the open step's calls, in their order.
    pub(super) fn call_ids(&self) -> Vec<CallId> {
        self.state.calls.iter().map(|call| call.id).collect()
    }
}

/// Writes and reads back, as the store does.
pub(super) fn round_trip<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let text = serde_json::to_string(value).expect("it can be written");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}
