//! Guards of the model that the code does not have: what it doesn't promise therefore, and what each would add.

use crate::guards::Guards;
use crate::properties::{
    FENCED, FINAL, FINISHES, INTENT, LET_GO, LIMIT, ONCE, ONE_OPEN, SLEEPER_SENDS, TAKEN_OVER, TOLD,
    TRUE_DEATHS, UNCERTAIN,
};
use crate::scenario::{Bounds, Kind, NONE, STOP, breaks, holds_of};

const ALL: Guards = Guards::ALL;

/// What the promises rest on is there. A server that slept may send a plain write when the run has already ended
/// uncertain: once, and that is what uncertain says.
#[test]
fn as_the_code_is_a_plain_write_leaves_once_and_nobody_old_writes() {
    let bounds = Bounds { losses: false, epochs: 2, ..Bounds::of(Kind::Plain, STOP) };
    let kept = [ONCE, INTENT, FENCED, ONE_OPEN, FINAL, LIMIT];
    holds_of(Guards::CODE, bounds, &kept, &[FINISHES, TAKEN_OVER, UNCERTAIN, SLEEPER_SENDS]);
}

/// If claims were not heard late, the others here would not matter to idempotent calls.
#[test]
fn as_the_code_is_but_for_late_claims_one_call_is_open_once() {
    let guards = Guards { claim_age: true, ..Guards::CODE };
    let bounds = Bounds { losses: false, epochs: 2, ..Bounds::of(Kind::Idempotent, STOP) };
    holds_of(guards, bounds, &[INTENT, FENCED, ONE_OPEN, FINAL, LIMIT], &[FINISHES, TAKEN_OVER]);
}

/// The answer to a claim may come when the lease it speaks of has nearly run out, and the server begins two thirds of a
/// lease of its own with it. A claim that waits for its lock has a lease that began before that, too.
#[test]
fn a_claim_that_is_heard_late_lets_two_servers_have_one_call_open() {
    breaks(Guards { claim_age: false, ..ALL }, Bounds::of(Kind::Idempotent, NONE), ONE_OPEN);
}

/// The server lives and could give the run back, but doesn't know of it: the lease runs out.
#[test]
fn a_claim_that_is_not_heard_of_counts_as_a_death() {
    breaks(Guards { unheard_claims: false, ..ALL }, Bounds::of(Kind::Plain, NONE), TRUE_DEATHS);
}

/// `commit_run` knows its last commit again whatever the epoch, so a server that slept is told to send what the new
/// owner has looked into already.
#[test]
fn a_commit_that_is_repeated_by_an_old_owner_is_called_stored() {
    breaks(Guards { repeat_epoch: false, ..ALL }, Bounds::of(Kind::Plain, STOP), TOLD);
}

/// A call waits for its secrets before its request is sent, longest when the database is away, which is also why a run is
/// given up. A new owner that was told meanwhile that nothing had come, and sent it, is followed by the old one's.
#[test]
fn a_call_that_was_given_up_before_it_left_leaves_all_the_same() {
    breaks(Guards { drop_unsent: false, ..ALL }, Bounds::of(Kind::LookedUp, NONE), ONCE);
}

/// While a server waits for what becomes of a write whose run it gave up, its heartbeat finds the lease still its own and
/// renews it: nobody works on the run, and nobody can take it over.
#[test]
fn a_lease_that_was_given_up_is_renewed() {
    breaks(Guards { let_go: false, ..ALL }, Bounds::of(Kind::Plain, NONE), LET_GO);
}

/// A server that slept between commit and request sends it when it wakes. If the new owner asked the far side before
/// that, heard that nothing had come, and sent the call again, it is done twice.
#[test]
fn a_server_that_slept_overtakes_a_look_up() {
    breaks(Guards { look_before_send: false, ..ALL }, Bounds::of(Kind::LookedUp, STOP), ONCE);
}
