//! A replay under changes, as a simulation: of all that could happen next, the earliest does.

use std::collections::{BTreeMap, VecDeque};

use super::needs::Need;
use super::player::Player;
use super::tape::{Called, Tape};
use super::unanswered::{no_news_of_tools, unanswered};
use super::{Replayed, Unplayable};
use crate::Millis;
use crate::catalog::retaken;
use crate::id::CallId;
use crate::run::{Call, Event, next_due};

/// Events that a recorded event or call may lead to at most, on average: more is a circle.
const MOST_EACH: usize = 16;
/// Events that a replay may have in any case.
const MOST_ANYHOW: usize = 1_000;

/// Something that could happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    at: Millis,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// A recorded event.
    Recorded(usize),
    /// What another call with the same input was answered.
    Borrowed(CallId, usize),
    /// Nothing recorded answers this.
    Unanswered(Need),
    /// A timer of the run is due.
    Timer,
}

/// Plays on, from whatever the player has come to. Nobody is suspended in it.
pub(super) fn simulated<'a>(player: Player<'a>, tape: Tape<'a>) -> Result<Replayed, Unplayable> {
    let most = tape.size() * MOST_EACH + MOST_ANYHOW;
    let mut simulation = Simulation {
        player,
        tape,
        furthest: None,
        behind: 0,
        borrowed: BTreeMap::new(),
        borrowers: BTreeMap::new(),
    };
    if simulation.player.state.suspended {
        simulation.player.happens(Event::Resumed { at: simulation.player.now }, None);
    }
    for _ in 0..most {
        if simulation.player.state.is_ended() {
            return Ok(simulation.player.done());
        }
        let next = simulation.next().ok_or(Unplayable::Endless)?;
        simulation.happens(next);
    }
    Err(Unplayable::Endless)
}

struct Simulation<'a> {
    player: Player<'a>,
    tape: Tape<'a>,
    /// The last recorded event that was reached.
    furthest: Option<usize>,
    /// How far behind its time in the recording that was; before it, if negative.
    behind: Millis,
    /// What calls without an answer of their own are answered.
    borrowed: BTreeMap<CallId, VecDeque<usize>>,
    /// How many of them there were, by tool and input.
    borrowers: BTreeMap<(String, String), usize>,
}

impl Simulation<'_> {
    fn next(&mut self) -> Option<Candidate> {
        let needs = Need::of(&self.player.state);
        let mut best = self.comes_by_itself(&needs);
        for need in needs {
            let Some(candidate) = self.answer(need) else { continue };
            let is_better = |best: &Candidate| order(&candidate) < order(best);
            if best.as_ref().is_none_or(is_better) {
                best = Some(candidate);
            }
        }
        let timer = next_due(&self.player.state).filter(|due| match best {
            None => true,
            Some(Candidate { at, what: What::Recorded(index) }) => {
                *due < at && !self.was_late(index, at - due)
            }
            Some(Candidate { at, .. }) => *due <= at,
        });
        timer.map(|due| Candidate { at: due.max(self.player.now), what: What::Timer }).or(best)
    }

    /// A timer was overdue for as long in the recording: the server was dead or busy, and the event came first.
    fn was_late(&self, index: usize, by: Millis) -> bool {
        self.tape.entries.get(index).and_then(|entry| entry.overdue).is_some_and(|overdue| overdue >= by)
    }

    /// What people and servers do next by themselves. What people said, and what changed at servers,
    /// waits for a context, as it did.
    fn comes_by_itself(&self, needs: &[Need]) -> Option<Candidate> {
        let at_boundary = needs.contains(&Need::Context);
        let may_come = |index: &&usize| {
            let entry = self.tape.entries.get(**index);
            let waits = |event: &Event| matches!(event, Event::Steered { .. } | Event::ToolsChanged { .. });
            entry.is_some_and(|entry| !waits(entry.event) || at_boundary || !entry.at_boundary)
        };
        let index = *self.tape.by_itself.iter().find(may_come)?;
        let at = self.tape.entries.get(index)?.time.saturating_add(self.behind).max(self.player.now);
        Some(Candidate { at, what: What::Recorded(index) })
    }

    /// What comes of a need, and when: after as long as it took then. `None`: nobody answers it.
    fn answer(&mut self, need: Need) -> Option<Candidate> {
        let now = self.player.now;
        let since = self.player.waits.since(need).unwrap_or(now);
        let recorded = need.for_call(|id| self.player.ids.recorded(id));
        if let Some(index) = self.tape.next_for(recorded)
            && self.fits(need, index)
        {
            let took = self.tape.entries.get(index)?.took;
            let at = since.saturating_add(took).max(now);
            return Some(Candidate { at, what: What::Recorded(index) });
        }
        if let Need::Tool(call) | Need::Submission(call) | Need::Agent(call) | Need::Child(call) = need
            && let Some(index) = self.borrow(call, need)
        {
            return Some(Candidate { at: now, what: What::Borrowed(call, index) });
        }
        match need {
            Need::Tools
            | Need::Context
            | Need::Model
            | Need::Summary
            | Need::Key(_)
            | Need::Agent(_)
            | Need::Child(_)
            | Need::Tool(_)
            | Need::Reconcile(_) => {
                let at = since.saturating_add(self.tape.in_vain(recorded)).max(now);
                Some(Candidate { at, what: What::Unanswered(need) })
            }
            Need::Start
            | Need::Decision(_)
            | Need::Settlement(_)
            | Need::Submission(_)
            | Need::Budget(..) => None,
        }
    }

    /// Whether what was recorded for a call is an answer to what it is now: the same tool and input. A business key that
    /// somebody had must be the same, too. What a person decides they decided on the model's own input.
    fn fits(&self, need: Need, index: usize) -> bool {
        let (Some(id), Some(entry)) = (need.call(), self.tape.entries.get(index)) else { return true };
        if matches!(need, Need::Decision(_)) {
            return self.event(index, self.player.now).is_some();
        }
        let (Some(then), Some(now)) = (&entry.call, Called::of(&self.player.state, id)) else { return false };
        match entry.event {
            Event::KeyTaken { holder, .. } if !holder.inherited => then.is_same(&now) && then.key == now.key,
            _ => then.is_same(&now),
        }
    }

    /// The next answer of another call with the same input, for a call that has none of its own: the first such call gets
    /// those of the first that was answered, and so on.
    fn borrow(&mut self, id: CallId, need: Need) -> Option<usize> {
        let call = Called::of(&self.player.state, id)?;
        if self.tape.has_run(self.player.ids.recorded(id), &call) {
            return None;
        }
        if !self.borrowed.contains_key(&id) {
            let place = self.borrowers.entry((call.tool_name.clone(), call.input_hash.clone())).or_default();
            self.borrowed.insert(id, self.tape.nth_answers(&call, *place));
            *place += 1;
        }
        let index = self.borrowed.get(&id)?.front().copied()?;
        let entry = self.tape.entries.get(index)?;
        // A client's answer is none to an attempt, nor the other way round.
        let fits = entry.need.map(|met| met.for_call(|_| id)) == Some(need);
        fits.then_some(index)
    }

    fn happens(&mut self, next: Candidate) {
        let at = next.at;
        match next.what {
            What::Timer => self.player.happens(Event::TimerFired { at }, None),
            What::Unanswered(need) => {
                let event = match need {
                    Need::Context => Some(self.context(at, 0)),
                    Need::Tools => {
                        let agent = &self.player.equipped.agent().spec;
                        Some(no_news_of_tools(agent, &self.player.state, at))
                    }
                    _ => unanswered(need, at),
                };
                event.into_iter().for_each(|event| self.player.happens(event, None));
            }
            What::Borrowed(call, index) => {
                self.borrowed.get_mut(&call).map(VecDeque::pop_front);
                let event = self.tape.entries.get(index).map(|entry| entry.event.clone().moved_to(at));
                if let Some(event) = event {
                    self.player.happens(for_call(event, call), None);
                }
            }
            What::Recorded(index) => self.recorded(index, at),
        }
    }

    fn recorded(&mut self, index: usize, at: Millis) {
        self.tape.take(index);
        let Some(entry) = self.tape.entries.get(index) else { return };
        let (recorded, time) = (entry.event, entry.time);
        if self.furthest.is_none_or(|furthest| index > furthest) {
            self.furthest = Some(index);
            self.behind = at.saturating_sub(time);
        }
        // A timer that fired then and isn't due now.
        let idle = next_due(&self.player.state).is_none_or(|due| due > at);
        if matches!(recorded, Event::TimerFired { .. }) && idle {
            return;
        }
        let event = match recorded {
            Event::ContextBuilt { duration_ms, .. } => Some(self.context(at, *duration_ms)),
            Event::ContextOverflowed { .. } | Event::SummaryNeeded { .. } => Some(self.context(at, 0)),
            _ => self.event(index, at),
        };
        if let Some(event) = event {
            self.player.happens(event, Some(recorded));
        }
    }

    fn context(&mut self, at: Millis, duration_ms: u64) -> Event {
        let recorded = self.tape.next_estimate();
        self.player.context(at, recorded, duration_ms)
    }

    /// A recorded event as it is now.
    fn event(&self, index: usize, at: Millis) -> Option<Event> {
        let entry = self.tape.entries.get(index)?;
        let mut event = self.player.ids.event(&self.player.state, entry.event.clone().moved_to(at));
        if let Event::ToolsListed { list, .. } = &mut event {
            list.tools = retaken(&self.player.equipped.agent().spec, &list.tools);
        }
        match &mut event {
            // Whatever people were asked about then, it answers what they are asked now.
            Event::CallDecided { call, approval, .. } => {
                *approval = self.player.state.call(*call).map(Call::approval_id);
            }
            // The rules of a replay that judges again never change; else only calls are judged that there are.
            Event::RulesChanged { .. } if self.player.gate.is_some() => return None,
            Event::RulesChanged { verdicts, .. } => {
                verdicts.retain(|verdict| self.player.state.call(verdict.call).is_some());
                if verdicts.is_empty() {
                    return None;
                }
            }
            _ => {}
        }
        let Some(gate) = &self.player.gate else { return Some(event) };
        let call = Need::met_by(&event, &self.player.state).and_then(Need::call);
        let tool_name = call.and_then(|id| self.player.state.call(id)).map(|call| call.tool_name.as_str());
        let input = call.and_then(|id| self.player.inputs.get(&id));
        gate.again(self.player.equipped.registry(), event, tool_name.unwrap_or_default(), input)
    }
}

/// The earliest goes first; of those at one moment the one that was recorded first, and what is recorded before what isn't.
fn order(candidate: &Candidate) -> (Millis, usize) {
    let place = match candidate.what {
        What::Recorded(index) => index,
        What::Borrowed(..) | What::Unanswered(_) | What::Timer => usize::MAX,
    };
    (candidate.at, place)
}

/// What another call was answered, as an answer to this one.
fn for_call(mut event: Event, id: CallId) -> Event {
    if let Event::ToolAttempted { call, .. }
    | Event::ToolResultSubmitted { call, .. }
    | Event::AgentFound { call, .. }
    | Event::ChildEnded { call, .. } = &mut event
    {
        *call = id;
    }
    event
}
