//! Those of a random life who decide on calls, and who change what calls are judged by.

use serde_json::json;

use super::life::Life;
use super::world;
use crate::id::GrantId;
use crate::json::input_hash;
use crate::permission::{BY_LINK, Grant};
use crate::run::trial::CREATOR;
use crate::run::{ApprovalRow, CallVerdict, Event};
use crate::tool::Output;

/// Whoever may be asked.
const PEOPLE: [&str; 5] = ["user:ann", "user:bob", "user:cat", BY_LINK, CREATOR];

impl Life {
    /// What people say about a call; `None`: those who would have to agree aren't there.
    pub(super) fn decision(&mut self, index: usize) -> Option<Event> {
        let verdict = match self.tape.pick(8) {
            0..=4 => self.approval(index)?,
            5 => CallVerdict::Answered(Output::plain("by hand")),
            _ => CallVerdict::Denied,
        };
        Some(self.trial.decided(index, verdict))
    }

    /// As many approve as were asked for; now and then with an edit, or for the next time as well.
    fn approval(&mut self, index: usize) -> Option<CallVerdict> {
        let id = self.trial.state.calls[index].approval_id();
        let asked = self.trial.state.open_approvals.iter().find(|open| open.row.id == id)?;
        let row = asked.row.clone();
        let may = |who: &&str| {
            let is_other = row.self_approval || (*who != BY_LINK && *who != CREATOR);
            is_other && !self.trial.rules.gone.contains(*who)
        };
        let first = self.tape.pick(PEOPLE.len());
        let people = PEOPLE.into_iter().cycle().skip(first).take(PEOPLE.len());
        let deciders: Vec<String> =
            people.filter(may).take(row.required as usize).map(str::to_owned).collect();
        if deciders.len() < row.required as usize {
            return None;
        }
        let edited = self.tape.rarely(4).then(|| {
            let input = json!({"n": self.tape.one(&[7, 1])});
            let hash = input_hash(&input);
            (input, hash, format!("key-{}", self.trial.now))
        });
        if edited.is_none() && self.tape.rarely(5) {
            self.remembers(&row, &deciders);
        }
        Some(self.trial.approval(index, &deciders, edited))
    }

    fn remembers(&mut self, row: &ApprovalRow, deciders: &[String]) {
        let (Some(tool_name), Some(max_risk)) = (row.tool_name.clone(), row.risk) else { return };
        let (id, now) = (GrantId(self.trial.new_id()), self.trial.now);
        self.trial.rules.grants.push(Grant {
            id,
            tool_name,
            input_hash: row.input_hash.clone().filter(|_| self.tape.pick(2) == 0),
            expires_at: self.tape.one(&[None, Some(now + 500), Some(now + 5_000)]),
            deciders: deciders.to_vec(),
            max_risk,
        });
    }

    /// What was allowed may be forbidden by now: another policy, none, no grants, or a decider who is gone.
    pub(super) fn rules_change(&mut self) {
        let rules = &mut self.trial.rules;
        match self.tape.pick(5) {
            0 => self.trial.rules_are(None),
            1 => {
                rules.number += 1;
                rules.grants.clear();
            }
            2 => {
                rules.number += 1;
                rules.gone = [self.tape.one(&PEOPLE).to_owned()].into();
            }
            _ => {
                let policy = world::policy(&mut self.tape);
                self.trial.rules_are(Some(&policy));
            }
        }
    }
}
