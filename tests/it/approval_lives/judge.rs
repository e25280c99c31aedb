//! Whether what reached the tools was allowed to, by what the test knows. A call began somewhere between two changes; it
//! must be allowed by what held at one moment in between.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::RangeInclusive;

use super::witness::{Demand, Evidence, Request, TenantRule, Vote, What, Word};

/// Tools that may be sent twice under one key.
const IDEMPOTENT: [&str; 1] = ["note"];

/// All that is wrong with a life.
pub(super) fn faults(evidence: &Evidence) -> Vec<String> {
    let mut faults = Vec::new();
    for request in &evidence.requests {
        if !evidence.moments(&request.call).any(|moment| evidence.licenses(request, moment)) {
            faults.push(format!("nothing let this run: {request:#?}\n{}", evidence.about(&request.call)));
        }
    }
    faults.extend(evidence.refused_that_ran());
    faults.extend(evidence.made_twice());
    faults.extend(evidence.approved_by_too_few());
    faults
}

impl Evidence {
    /// After how many of the changes the call may have begun.
    fn moments(&self, call: &str) -> RangeInclusive<usize> {
        let after = self.changes.iter().rposition(|change| !change.after.contains(call));
        let before = self.changes.iter().position(|change| change.before.contains(call));
        after.map_or(0, |n| n + 1)..=before.unwrap_or(self.changes.len())
    }

    /// Whether a call could begin when `moment` changes had been made.
    fn licenses(&self, request: &Request, moment: usize) -> bool {
        let made = self.changes[..moment].iter().map(|change| &change.what);
        let (mut policy, mut gone): (&[TenantRule], _) = (&[], HashSet::new());
        for what in made {
            match what {
                What::Policy(rules) => policy = rules,
                What::Cancelled(run) if *run == request.run => return false,
                What::GrantRevoked(id) | What::KeyRevoked(id) | What::Cancelled(id) => {
                    gone.insert(id.as_str());
                }
            }
        }
        match demand(policy, request) {
            Demand::Allow => true,
            Demand::Deny => false,
            Demand::Ask { people, creators } => {
                let creators = if creators { None } else { self.creators.get(&request.run) };
                self.people_agreed(request, &gone, people, creators)
                    || self.was_remembered(request, &gone, people, creators)
            }
        }
    }

    /// Whether people approved just this input of just this call before it came.
    fn people_agreed(
        &self,
        request: &Request,
        gone: &HashSet<&str>,
        people: usize,
        creators: Option<&Vec<String>>,
    ) -> bool {
        self.approvals.iter().filter(|asked| asked.call == request.call).any(|asked| {
            let votes = self.approving(&asked.id).filter(|vote| {
                vote.input == request.input
                    && vote.sent <= request.at
                    && !gone.contains(vote.key.as_str())
                    && !is_theirs(vote, creators)
            });
            are_enough(votes, people)
        })
    }

    /// Whether people who were enough had approved something else and said that it is for this, too. Nobody says so by a link.
    fn was_remembered(
        &self,
        request: &Request,
        gone: &HashSet<&str>,
        people: usize,
        creators: Option<&Vec<String>>,
    ) -> bool {
        let remembered = self.votes.iter().filter(|vote| vote.word == Word::Approve && vote.may_count());
        remembered.filter(|vote| vote.sent <= request.at && !gone.contains(vote.approval.as_str())).any(
            |vote| {
                let Some(remember) = vote.remember else { return false };
                let Some(of) = self.approvals.iter().find(|asked| asked.id == vote.approval) else {
                    return false;
                };
                let covers = of.tool == request.tool
                    && (remember.whole_tenant || of.run == request.run)
                    && (!remember.exact_input || vote.input == request.input);
                let behind = self.approving(&of.id).filter(|other| {
                    other.by != "link"
                        && other.remember == vote.remember
                        && other.input == vote.input
                        && !gone.contains(other.key.as_str())
                        && !is_theirs(other, creators)
                });
                covers && are_enough(behind, people)
            },
        )
    }

    fn approving(&self, approval: &str) -> impl Iterator<Item = &Vote> {
        let votes = self.votes.iter().filter(move |vote| vote.approval == approval);
        votes.filter(|vote| vote.word == Word::Approve && vote.may_count())
    }

    /// Calls that were denied, answered, cancelled or not decided in time, and ran.
    fn refused_that_ran(&self) -> Vec<String> {
        let ran: HashSet<&str> = self.requests.iter().map(|request| request.call.as_str()).collect();
        let refused = self.approvals.iter().filter(|asked| {
            let said =
                |vote: &Vote| vote.approval == asked.id && vote.word != Word::Approve && vote.decides();
            asked.status != "approved" || self.votes.iter().any(said)
        });
        let ran = refused.filter(|asked| ran.contains(asked.call.as_str()));
        ran.map(|asked| format!("it was refused and ran: {asked:#?}\n{}", self.about(&asked.call))).collect()
    }

    /// Calls that were made under two keys, that can't be told apart at the far side, or by an approval that is used or void.
    fn made_twice(&self) -> Vec<String> {
        let mut by_call: BTreeMap<&str, Vec<&Request>> = BTreeMap::new();
        for request in &self.requests {
            by_call.entry(&request.call).or_default().push(request);
        }
        let mut faults = Vec::new();
        for (call, requests) in by_call {
            let keys: BTreeSet<&str> = requests.iter().map(|request| request.key.as_str()).collect();
            let once = IDEMPOTENT.contains(&requests[0].tool.as_str()) || requests.len() == 1;
            let used = self.approvals.iter().filter(|asked| asked.call == call && asked.used);
            let (used, void): (Vec<_>, Vec<_>) = used.partition(|asked| !asked.void);
            if keys.len() > 1 || !once || used.len() > 1 || !void.is_empty() {
                faults.push(format!(
                    "it was made twice, or by a void approval: {requests:#?}\n{}",
                    self.about(call)
                ));
            }
        }
        faults
    }

    /// Approvals that were used though fewer had agreed than were asked for.
    fn approved_by_too_few(&self) -> Vec<String> {
        let used = self.approvals.iter().filter(|asked| asked.used);
        let few = used.filter(|asked| {
            !self.approving(&asked.id).any(|one| {
                let agreeing = self.approving(&asked.id).filter(|vote| vote.input == one.input);
                are_enough(agreeing, asked.required)
            })
        });
        few.map(|asked| format!("too few approved it: {asked:#?}\n{}", self.about(&asked.call))).collect()
    }

    /// What is known of a call, for whoever has to find the fault.
    fn about(&self, call: &str) -> String {
        let approvals: Vec<_> = self.approvals.iter().filter(|asked| asked.call == call).collect();
        let votes = self.votes.iter().filter(|vote| approvals.iter().any(|asked| asked.id == vote.approval));
        let changes: Vec<_> = self.changes.iter().map(|change| &change.what).collect();
        format!(
            "asked: {approvals:#?}\nvotes: {:#?}\nbegun after {:?} of these changes: {changes:#?}",
            votes.collect::<Vec<_>>(),
            self.moments(call)
        )
    }
}

/// Whether a vote is of somebody who started the run, or may be.
fn is_theirs(vote: &Vote, creators: Option<&Vec<String>>) -> bool {
    creators.is_some_and(|creators| vote.by == "link" || creators.contains(&vote.by))
}

/// Whether these are so many different people; whoever has a link may be one of the others.
fn are_enough<'v>(votes: impl Iterator<Item = &'v Vote>, people: usize) -> bool {
    let named = votes.filter(|vote| people < 2 || vote.by != "link");
    named.map(|vote| vote.by.as_str()).collect::<BTreeSet<_>>().len() >= people
}

/// What the agent's policy and the tenant's demand together.
fn demand(policy: &[TenantRule], request: &Request) -> Demand {
    let of_agent = match request.tool.as_str() {
        "pay" => Demand::Ask { people: 1, creators: true },
        "refund" => Demand::Ask { people: 2, creators: false },
        _ => Demand::Allow,
    };
    let amount = request.input["amount"].as_i64().unwrap_or(i64::MAX);
    let applying = policy
        .iter()
        .filter(|rule| rule.tool.is_none_or(|tool| tool == request.tool) && amount >= rule.from_amount);
    applying.fold(of_agent, |demand, rule| stricter(demand, rule.demand))
}

fn stricter(one: Demand, other: Demand) -> Demand {
    match (one, other) {
        (Demand::Deny, _) | (_, Demand::Deny) => Demand::Deny,
        (Demand::Allow, asks) | (asks, Demand::Allow) => asks,
        (Demand::Ask { people: a, creators: x }, Demand::Ask { people: b, creators: y }) => {
            Demand::Ask { people: a.max(b), creators: x && y }
        }
    }
}
