//! The judge, given lives that must not be: it has to notice each.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use serde_json::json;

use super::judge::faults;
use super::witness::{
    Answered, Asked, Change, Demand, Evidence, Remember, Request, TenantRule, Vote, What, Word,
};

const DENIES: &[TenantRule] = &[TenantRule { tool: Some("pay"), from_amount: 0, demand: Demand::Deny }];
const TWO: &[TenantRule] =
    &[TenantRule { tool: None, from_amount: 3, demand: Demand::Ask { people: 2, creators: true } }];

/// A life that is as it should be: one payment, approved and made.
fn lawful() -> Evidence {
    let begin = Instant::now();
    let later = |ms| begin + Duration::from_millis(ms);
    Evidence {
        votes: vec![vote("a1", "ann", begin)],
        changes: vec![change(What::Policy(&[]), &[], &[]), change(What::Policy(TWO), &["c1"], &["c1"])],
        approvals: vec![asked("a1", "c1")],
        requests: vec![request("c1", later(2))],
        creators: BTreeMap::from([("r".to_owned(), vec!["cara".to_owned()])]),
    }
}

fn vote(approval: &str, by: &str, sent: Instant) -> Vote {
    Vote {
        approval: approval.to_owned(),
        word: Word::Approve,
        input: json!({"amount": 3}),
        by: by.to_owned(),
        key: format!("key of {by}"),
        remember: None,
        sent,
        answer: Some(Answered { status: 200, decides: true }),
    }
}

fn asked(id: &str, call: &str) -> Asked {
    let text = str::to_owned;
    Asked {
        id: text(id),
        run: text("r"),
        call: text(call),
        tool: text("pay"),
        status: text("approved"),
        required: 1,
        used: true,
        void: false,
    }
}

fn request(call: &str, at: Instant) -> Request {
    let text = str::to_owned;
    Request {
        run: text("r"),
        call: text(call),
        tool: text("pay"),
        input: json!({"amount": 3}),
        key: text("k"),
        at,
    }
}

fn change(what: What, before: &[&str], after: &[&str]) -> Change {
    let set = |calls: &[&str]| calls.iter().map(|call| (*call).to_owned()).collect::<HashSet<_>>();
    Change { what, before: set(before), after: set(after) }
}

/// Fails unless the judge finds something after `forge` has been at it.
#[track_caller]
fn is_noticed(forge: impl FnOnce(&mut Evidence)) {
    let mut evidence = lawful();
    forge(&mut evidence);
    assert!(!faults(&evidence).is_empty(), "not noticed: {evidence:#?}");
}

#[test]
fn a_lawful_life_is_left_alone() {
    assert_eq!(faults(&lawful()), [""; 0]);
    let mut unheard = lawful();
    unheard.votes[0].answer = None;
    assert_eq!(faults(&unheard), [""; 0], "an approval whose answer was lost may count");
}

#[test]
fn what_nobody_approved() {
    is_noticed(|life| life.votes.clear());
    is_noticed(|life| life.votes[0].answer = Some(Answered { status: 409, decides: false }));
    is_noticed(|life| life.votes[0].approval = "of another call".to_owned());
    is_noticed(|life| life.requests[0].at = life.votes[0].sent - Duration::from_millis(1));
}

#[test]
fn another_input_than_was_approved() {
    is_noticed(|life| life.requests[0].input = json!({"amount": 4}));
    is_noticed(|life| life.votes[0].input = json!({"amount": "3"}));
}

#[test]
fn what_was_refused() {
    for status in ["denied", "expired", "cancelled", "pending"] {
        is_noticed(|life| life.approvals[0].status = status.to_owned());
    }
    for word in [Word::Deny, Word::Answer] {
        is_noticed(|life| {
            let said = Vote { word, ..life.votes[0].clone() };
            life.votes.push(said);
        });
    }
    is_noticed(|life| life.changes[0] = change(What::Cancelled("r".to_owned()), &[], &[]));
}

#[test]
fn rules_of_the_moment() {
    is_noticed(|life| life.changes[0] = change(What::Policy(DENIES), &[], &[]));
    is_noticed(|life| life.changes[0] = change(What::Policy(TWO), &[], &[]));
    is_noticed(|life| life.changes[0] = change(What::KeyRevoked("key of ann".to_owned()), &[], &[]));
    is_noticed(|life| life.requests[0].tool = "refund".to_owned());
    // What began before is judged by what held before.
    let mut lawful = lawful();
    lawful.changes[1] = change(What::Policy(DENIES), &[], &["c1"]);
    assert_eq!(faults(&lawful), [""; 0]);
}

#[test]
fn what_was_made_twice() {
    is_noticed(|life| life.requests.push(life.requests[0].clone()));
    is_noticed(|life| {
        life.requests[0].tool = "note".to_owned();
        let again = Request { key: "another".to_owned(), ..life.requests[0].clone() };
        life.requests.push(again);
    });
    is_noticed(|life| life.approvals.push(asked("a2", "c1")));
    is_noticed(|life| life.approvals[0].void = true);
    is_noticed(|life| life.approvals[0].required = 2);
}

#[test]
fn grants() {
    let remembering = |life: &mut Evidence, remember: Remember| {
        life.votes[0].remember = Some(remember);
        life.requests[0].call = "c2".to_owned();
        life.changes.truncate(1);
    };
    let run = Remember { whole_tenant: false, exact_input: true };
    let mut lawful = lawful();
    remembering(&mut lawful, run);
    assert_eq!(faults(&lawful), [""; 0]);
    is_noticed(|life| {
        remembering(life, run);
        life.requests[0].run = "another".to_owned();
    });
    is_noticed(|life| {
        remembering(life, run);
        life.requests[0].input = json!({"amount": 2});
    });
    is_noticed(|life| {
        remembering(life, Remember { whole_tenant: true, exact_input: false });
        life.changes[0] = change(What::GrantRevoked("a1".to_owned()), &[], &[]);
    });
    is_noticed(|life| {
        remembering(life, Remember { whole_tenant: true, exact_input: false });
        life.changes[0] = change(What::Policy(TWO), &[], &[]);
    });
    is_noticed(|life| {
        remembering(life, run);
        life.votes[0].by = "link".to_owned();
    });
    is_noticed(|life| {
        remembering(life, run);
        let later = Vote { remember: None, ..vote("a1", "bob", life.votes[0].sent) };
        life.votes.push(later);
        life.changes[0] = change(What::KeyRevoked("key of ann".to_owned()), &[], &[]);
    });
}
