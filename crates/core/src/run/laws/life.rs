//! A random but legal life of a run, with its shell, its people, and its servers' deaths.

use std::collections::{BTreeMap, BTreeSet};

use super::tape::Tape;
use super::world;
use crate::budget::{BudgetPatch, DayLimit};
use crate::id::CallId;
use crate::ledger::EntryStatus;
use crate::permission::Judgement;
use crate::run::trial::{Trial, agent, round_trip};
use crate::run::{CallVerdict, Command, Event, JudgedAgain, Phase, next_due, outstanding};
use crate::tool::{Attempt, Reconciled};

/// Events after which every life whose choices are used up must have ended.
const MAX_EVENTS: usize = 2_000;

/// Longer than an approval may lie unused at least.
const TWO_HOURS_MS: crate::Millis = 7_200_000;

/// A run and what is going on around it.
pub(super) struct Life {
    pub(super) trial: Trial,
    pub(super) tape: Tape,
    /// What its agent has that others of the trials don't.
    pub(super) changes: serde_json::Value,
    /// What its models call.
    tools: &'static [&'static str],
    /// The rules change all the time.
    restless: bool,
    /// Commands that are being performed.
    in_flight: Vec<Command>,
    /// The last attempt of each call that was sent.
    sent: BTreeMap<CallId, u32>,
    /// Writes whose far side doesn't dedupe, and of which an attempt may have happened.
    unclear: BTreeSet<CallId>,
    /// Writes of which an attempt may have happened, and nobody said that it didn't.
    pub(super) maybe: BTreeSet<CallId>,
    /// Tool and input of writes that the model was told to be unclear, for good.
    given_up: BTreeSet<(String, String)>,
    /// Somebody said something that the run hasn't heard yet.
    held: usize,
}

impl Life {
    pub(super) fn new(tape: Vec<u8>) -> Self {
        let mut tape = Tape::new(tape);
        let changes = world::changes(&mut tape);
        Self::with(tape, changes, &world::TOOLS)
    }

    /// A life of approvals: people are asked about nearly everything, and the rules change all the time.
    pub(super) fn of_approvals(tape: Vec<u8>) -> Self {
        let mut tape = Tape::new(tape);
        let changes = world::asking(&mut tape);
        Self { restless: true, ..Self::with(tape, changes, &world::ASKED) }
    }

    fn with(mut tape: Tape, changes: serde_json::Value, tools: &'static [&'static str]) -> Self {
        let registry = agent(&changes);
        let budgets = registry.spec.budgets.clone();
        let deadline = tape.one(&[None, None, None, None, Some(crate::run::trial::DAWN + 4_000)]);
        let trial = Trial::accepted(registry, budgets, deadline);
        Self {
            trial,
            tape,
            changes,
            tools,
            restless: false,
            in_flight: Vec::new(),
            sent: BTreeMap::new(),
            unclear: BTreeSet::new(),
            maybe: BTreeSet::new(),
            given_up: BTreeSet::new(),
            held: 0,
        }
    }

    /// Lives until the end.
    pub(super) fn live(&mut self) {
        for _ in 0..MAX_EVENTS {
            if self.trial.state.is_ended() {
                self.after_the_end();
                return;
            }
            self.goes_on();
        }
        panic!("it never ends: {:?}", self.trial.state);
    }

    /// Some time passes, and one thing happens.
    pub(super) fn goes_on(&mut self) {
        self.trial.now += [0, 1, 10, 700][self.tape.pick(4)];
        if self.restless && self.trial.state.status.is_waiting() && self.tape.rarely(16) {
            self.trial.now += TWO_HOURS_MS;
        }
        self.next();
        self.send();
    }

    /// One thing happens.
    fn next(&mut self) {
        if self.trial.state.phase == Phase::Queued && !self.tape.rarely(8) {
            self.happens(Event::Started { at: self.trial.now });
            return;
        }
        if self.restless && self.tape.rarely(4) {
            return self.rules_change();
        }
        match self.tape.pick(200) {
            100..=105 => self.crash(),
            106 => drop(self.trial.cancel()),
            107..=110 => self.held += 1,
            111..=116 => self.limits_change(),
            117..=118 => self.happens(Event::Recovered {
                at: self.trial.now,
                deaths: self.trial.state.deaths,
                unsent: Vec::new(),
            }),
            119 => self.late_and_strange(),
            120 => {
                let (code, detail) = ("store_broken".into(), "it broke".into());
                self.happens(Event::Broken { at: self.trial.now, code, detail });
            }
            121..=126 => self.time_passes(),
            127 => self.rests(),
            140..=143 => self.happens(Event::Suspended { at: self.trial.now }),
            // Whoever takes it up then says first that it rested and was resumed.
            _ if self.trial.state.suspended && self.in_flight.is_empty() => self.rests(),
            128..=137 => self.rules_change(),
            138 if self.a_model_is_asked() => self.quota_is_used_up(DayLimit::Tokens),
            139 if self.a_model_is_asked() => self.quota_is_used_up(DayLimit::Money),
            _ if !self.in_flight.is_empty() => self.command_is_done(),
            _ if self.people_owe_something() && !self.tape.rarely(6) => self.people_answer(),
            _ => self.time_passes(),
        }
    }

    /// Its tenant is suspended for a while: that time doesn't count.
    fn rests(&mut self) {
        let counted = |life: &Self| life.trial.state.elapsed_ms(life.trial.now);
        let (from, before) = (self.trial.now, counted(self));
        self.trial.now += [1, 700, TWO_HOURS_MS][self.tape.pick(3)];
        self.happens(Event::Rested { at: self.trial.now, from, until: self.trial.now });
        assert_eq!(counted(self), before, "a rest takes no time");
        if self.trial.state.suspended {
            self.happens(Event::Resumed { at: self.trial.now });
        }
    }

    fn a_model_is_asked(&self) -> bool {
        let asks =
            |command: &Command| matches!(command, Command::CallModel { .. } | Command::Summarize { .. });
        self.in_flight.iter().any(asks)
    }

    fn quota_is_used_up(&mut self, limit: DayLimit) {
        self.happens(Event::QuotaUsedUp { at: self.trial.now, limit });
    }

    pub(super) fn happens(&mut self, event: Event) {
        self.trial.must(event);
    }

    /// What is outstanding is performed; what isn't any more is given up.
    fn send(&mut self) {
        let outstanding = outstanding(&self.trial.state);
        self.in_flight.retain(|command| outstanding.contains(command));
        for command in outstanding {
            if self.in_flight.contains(&command) {
                continue;
            }
            self.in_flight.push(command);
            if let Command::RunTool { call, attempt } = command {
                self.sends(call, attempt);
            }
        }
    }

    fn sends(&mut self, id: CallId, attempt: u32) {
        assert!(!self.unclear.contains(&id), "a write that may have happened is sent again");
        let last = self.sent.insert(id, attempt);
        assert!(last.is_none_or(|last| attempt > last), "attempt {attempt} follows {last:?}");
        let call = self.trial.state.call(id).expect("a call");
        let told = (call.tool_name.clone(), call.input_hash.clone());
        assert!(!self.given_up.contains(&told), "the same call is sent again in another's name: {told:?}");
    }

    fn command_is_done(&mut self) {
        let command = self.in_flight.remove(self.tape.pick(self.in_flight.len()));
        let at = self.trial.now;
        match command {
            Command::ListTools { .. } => {
                let event = world::listing(&mut self.tape, &self.trial);
                self.happens(event);
            }
            Command::BuildContext => self.context(),
            Command::CallModel { .. } => self.model(),
            Command::Summarize { .. } => {
                let event = world::summary(&mut self.tape, &mut self.trial);
                self.happens(event);
            }
            Command::ClaimKey { call } => {
                let index = self.index(call);
                match world::holder(&mut self.tape) {
                    None if self.trial.state.calls[index].agent => {
                        let found = world::found(&mut self.tape);
                        self.happens(self.trial.found(index, found));
                    }
                    None => self.happens(Event::KeyFree { at, call }),
                    Some((same, status)) => self.happens(self.trial.key_taken(index, same, status)),
                }
            }
            Command::RunTool { call, .. } => {
                let outcome = world::attempt(&mut self.tape);
                if matches!(outcome, Attempt::Unclear(..)) {
                    self.may_have_happened(call);
                }
                let jitter = 300;
                self.note_given_up(|life| life.happens(Event::ToolAttempted { at, call, outcome, jitter }));
            }
            Command::Reconcile { call } => {
                let state = world::reconciled(&mut self.tape);
                if state == Reconciled::NotApplied {
                    self.unclear.remove(&call);
                    self.maybe.remove(&call);
                }
                let index = self.index(call);
                self.note_given_up(|life| drop(life.trial.reconciles(index, state)));
            }
        }
    }

    fn index(&self, call: CallId) -> usize {
        self.trial.call_ids().iter().position(|known| *known == call).expect("a call of the open step")
    }

    fn context(&mut self) {
        let may_change = self.trial.state.phase == Phase::Boundary && self.trial.state.may_list_again();
        if may_change && self.tape.rarely(4) {
            return self.happens(Event::ToolsChanged { at: self.trial.now });
        }
        for _ in 0..std::mem::take(&mut self.held) {
            self.trial.steer();
        }
        let at = self.trial.now;
        if self.tape.rarely(100) {
            self.happens(Event::ContextOverflowed { at, tokens: 99, max_tokens: 50 });
        } else if self.may_sum_up() && self.tape.rarely(6) {
            let newest = self.trial.state.next_message - 1;
            let needed = self.trial.summary_needed(newest, self.tape.one(&[10, 90]));
            self.happens(needed);
        } else {
            let tokens = self.tape.one(&[10, 15, 40]);
            self.happens(self.trial.built(tokens));
        }
    }

    fn may_sum_up(&self) -> bool {
        self.trial.state.phase == Phase::Boundary && self.trial.state.summing.may_be_tried()
    }

    fn model(&mut self) {
        if self.tape.rarely(8) {
            let failed = world::model_failure(&mut self.tape, &self.trial);
            self.happens(failed);
        } else {
            let reply = world::reply(&mut self.tape, self.tools);
            let replied = self.trial.replied(&reply, self.held > 0);
            self.happens(replied);
        }
    }

    /// An attempt is unclear: unless the far side dedupes, it must not be sent again.
    fn may_have_happened(&mut self, id: CallId) {
        let call = self.trial.state.call(id).expect("a call");
        let tool = self.trial.equipped().tool(&call.tool_name).expect("a tool");
        if tool.writes() {
            self.maybe.insert(id);
        }
        if tool.writes() && !tool.idempotent {
            self.unclear.insert(id);
        }
    }

    /// Remembers the calls of which the model was told, by `then`, that nobody will ever know.
    fn note_given_up(&mut self, then: impl FnOnce(&mut Self)) {
        let before = self.trial.state.unsettled.len();
        then(self);
        self.given_up.extend(self.trial.state.unsettled[before..].iter().cloned());
    }

    pub(super) fn time_passes(&mut self) {
        // A queued or working run isn't left alone until its time is over, but now and then.
        let idle = self.in_flight.is_empty() || self.tape.rarely(20);
        if idle && next_due(&self.trial.state).is_some() && self.trial.state.phase != Phase::Queued {
            self.note_given_up(|life| drop(life.trial.fire()));
        } else {
            self.happens(Event::TimerFired { at: self.trial.now });
        }
    }

    /// All that was in flight is lost; another server finds what is stored, and knows of some calls that they waited still.
    fn crash(&mut self) {
        let mut unsent = Vec::new();
        for command in std::mem::take(&mut self.in_flight) {
            let Command::RunTool { call, attempt } = command else { continue };
            if self.tape.rarely(4) {
                self.sent.insert(call, attempt - 1);
                unsent.push(call);
            } else {
                self.may_have_happened(call);
            }
        }
        self.trial.state = round_trip(&self.trial.state);
        if self.trial.state.suspended {
            self.rests();
        }
        self.note_given_up(|life| drop(life.trial.dies_with(unsent)));
    }

    /// Words that come too late or to the wrong place are illegal and change nothing.
    fn late_and_strange(&mut self) {
        let (at, before) = (self.trial.now, self.trial.state.clone());
        let call = CallId(self.trial.new_id());
        let approval = crate::id::ApprovalId(call.0);
        let verdicts =
            vec![JudgedAgain { call, judgement: Judgement::denied("nobody asked"), stands: false }];
        let known = before.calls.first().map_or(call, |known| known.id);
        for event in [
            Event::KeyFree { at, call },
            Event::ToolAttempted { at, call, outcome: crate::run::trial::unclear(), jitter: 0 },
            Event::CallDecided {
                at,
                call,
                approval: None,
                verdict: CallVerdict::Denied,
                by: "x".into(),
                reason: None,
                given_at: None,
            },
            // Nothing was asked under that id.
            Event::CallDecided {
                at,
                call: known,
                approval: Some(approval),
                verdict: CallVerdict::Denied,
                by: "x".into(),
                reason: None,
                given_at: None,
            },
            Event::RulesChanged { at, verdicts },
            Event::EffectSettled { at, call, applied: true, content: None, by: "x".into() },
            Event::BudgetDenied { at, approval, by: "x".into() },
        ] {
            assert!(self.trial.happens(event).is_err());
        }
        assert_eq!(self.trial.state, before);
    }

    /// What may have happened is never told to have clearly failed; and nothing changes after the end.
    fn after_the_end(&mut self) {
        for entry in self.trial.tables.ledger.entries.values() {
            let failed = entry.outcome.is_some_and(|outcome| outcome.status == EntryStatus::Failed);
            assert!(!failed || !self.maybe.contains(&entry.row.call), "{entry:?} may have happened");
        }
        let at = self.trial.now;
        let message_id = crate::id::MessageId(self.trial.new_id());
        let late = self.trial.call_ids().into_iter();
        let late = late.map(|call| Event::ToolAttempted {
            at,
            call,
            outcome: crate::run::trial::unclear(),
            jitter: 0,
        });
        let always = [
            Event::TimerFired { at },
            Event::Suspended { at },
            Event::Resumed { at },
            Event::Rested { at, from: at, until: at },
            Event::CancelRequested { at, reason: None },
            Event::Recovered { at, deaths: 1, unsent: Vec::new() },
            Event::Steered { at, message_id, content: "late".into(), parts: vec![], pinned: false },
            Event::BudgetChanged { at, patch: BudgetPatch::default(), by: "x".into() },
        ];
        for event in always.into_iter().chain(late) {
            assert!(self.trial.happens(event).is_err(), "nothing happens after the end");
        }
    }
}
