//! Each guard left out alone: what it keeps is broken. Where another guard covers for it, that is shown, and the pair
//! left out.

use crate::guards::Guards;
use crate::properties::{
    FENCED, FINAL, FINISHES, INTENT, LET_GO, LIMIT, ONCE, ONE_OPEN, PLACES, SLEEPER_SENDS, TAKEN_OVER, TOLD,
    TRUE_DEATHS, TRUE_SUSPICIONS, UNCERTAIN,
};
use crate::scenario::{Bounds, DRAIN, Kind, NONE, STOP, breaks, holds_of};

const ALL: Guards = Guards::ALL;

fn two_runs_for_one_place() -> Bounds {
    Bounds { runs: 2, places: 1, losses: false, epochs: 2, ..Bounds::of(Kind::Idempotent, NONE) }
}

#[test]
fn without_the_epoch_an_old_owner_writes() {
    breaks(Guards { epoch: false, ..ALL }, Bounds::of(Kind::Plain, NONE), FENCED);
}

/// An old owner's write is the run's next then, and the new owner's is refused: still only one of them goes on. So it is
/// in the code: both are compared in `commit_run`, and what is sent is what a commit said.
#[test]
fn the_sequence_covers_for_the_epoch_where_effects_are_concerned() {
    let guards = Guards { epoch: false, look_before_send: false, ..ALL };
    let bounds = Bounds { epochs: 2, ..Bounds::of(Kind::Plain, STOP) };
    holds_of(guards, bounds, &[ONCE, INTENT, FINAL], &[FINISHES, TAKEN_OVER]);
}

#[test]
fn without_epoch_and_sequence_a_plain_write_leaves_twice() {
    let guards = Guards { epoch: false, seq: false, look_before_send: false, ..ALL };
    breaks(guards, Bounds::of(Kind::Plain, STOP), ONCE);
}

#[test]
fn without_the_sequence_a_late_copy_of_a_commit_changes_an_ended_run() {
    breaks(Guards { seq: false, ..ALL }, Bounds::of(Kind::Plain, NONE), FINAL);
}

#[test]
fn without_the_commits_id_a_lost_answer_looks_like_a_death() {
    breaks(Guards { commit_id: false, ..ALL }, Bounds::of(Kind::Plain, NONE), TRUE_SUSPICIONS);
}

#[test]
fn without_its_epoch_a_late_hand_back_gives_away_what_another_has() {
    breaks(Guards { hand_back_epoch: false, ..ALL }, Bounds::of(Kind::Idempotent, DRAIN), ONE_OPEN);
}

#[test]
fn without_its_epoch_a_renewal_keeps_an_old_owner_at_work() {
    breaks(Guards { renew_epoch: false, ..ALL }, Bounds::of(Kind::Idempotent, STOP), ONE_OPEN);
}

#[test]
fn without_the_claim_lock_a_tenant_gets_more_than_its_places() {
    breaks(Guards { claim_lock: false, ..ALL }, two_runs_for_one_place(), PLACES);
}

/// `SKIP LOCKED` and the conditions that the update repeats.
#[test]
fn the_second_look_covers_for_the_claim_lock_where_one_run_is_concerned() {
    let guards = Guards { claim_lock: false, ..ALL };
    let bounds = Bounds { epochs: 2, ..Bounds::of(Kind::Idempotent, NONE) };
    holds_of(guards, bounds, &[ONE_OPEN, TRUE_SUSPICIONS, TRUE_DEATHS], &[FINISHES]);
}

#[test]
fn without_the_second_look_two_servers_take_over_one_run() {
    breaks(Guards { second_look: false, ..ALL }, Bounds::of(Kind::Idempotent, NONE), ONE_OPEN);
}

#[test]
fn without_intent_first_a_request_leaves_of_which_nobody_knows() {
    breaks(Guards { intent_first: false, ..ALL }, Bounds::of(Kind::Plain, NONE), INTENT);
}

#[test]
fn without_intent_first_a_plain_write_leaves_twice() {
    breaks(Guards { intent_first: false, ..ALL }, Bounds::of(Kind::Plain, NONE), ONCE);
}

#[test]
fn without_the_recovery_counter_a_run_kills_server_after_server() {
    let bounds = Bounds { deadly: true, attempts: 9, epochs: 5, ..Bounds::of(Kind::Idempotent, NONE) };
    breaks(Guards { recovery_counter: false, ..ALL }, bounds, LIMIT);
}

#[test]
fn without_self_fencing_two_servers_have_one_call_open() {
    breaks(Guards { self_fence: false, ..ALL }, Bounds::of(Kind::Idempotent, NONE), ONE_OPEN);
}

#[test]
fn without_a_second_chance_a_server_that_was_only_away_counts_as_a_death() {
    breaks(Guards { seen_again: false, ..ALL }, Bounds::of(Kind::Idempotent, NONE), TRUE_DEATHS);
}

/// The answer to a claim may come when the lease it speaks of has nearly run out, and the server begins two thirds of a
/// lease of its own with it. A claim that waits for its lock has a lease that began before that, too.
#[test]
fn without_the_claims_age_two_servers_have_one_call_open() {
    breaks(Guards { claim_age: false, ..ALL }, Bounds::of(Kind::Idempotent, NONE), ONE_OPEN);
}

/// The server lives and could give the run back, but doesn't know of it: the lease runs out.
#[test]
fn without_putting_back_a_claim_that_is_not_heard_of_looks_like_a_death() {
    breaks(Guards { unheard_claims: false, ..ALL }, Bounds::of(Kind::Plain, NONE), TRUE_SUSPICIONS);
}

/// `commit_run` would know its last commit again whatever the epoch, and a server that slept would be told to send what the
/// new owner has looked into already.
#[test]
fn without_its_epoch_a_repeated_commit_of_an_old_owner_is_called_stored() {
    breaks(Guards { repeat_epoch: false, ..ALL }, Bounds::of(Kind::Plain, STOP), TOLD);
}

/// A call waits for its secrets before its request is sent, longest when the database is away, which is also why a run is
/// given up. A new owner that was told meanwhile that nothing had come, and sent it, is followed by the old one's.
#[test]
fn without_calling_back_a_call_that_was_given_up_leaves_all_the_same() {
    breaks(Guards { drop_unsent: false, ..ALL }, Bounds::of(Kind::LookedUp, NONE), ONCE);
}

/// While a server waits for what becomes of a write whose run it gave up, its heartbeat would find the lease still its own
/// and renew it: nobody works on the run, and nobody can take it over.
#[test]
fn without_letting_go_a_lease_that_was_given_up_is_renewed() {
    breaks(Guards { let_go: false, ..ALL }, Bounds::of(Kind::Plain, NONE), LET_GO);
}

/// A server that slept between commit and request would send it when it wakes. If the new owner asked the far side before
/// that, heard that nothing had come, and sent the call again, it is done twice.
#[test]
fn without_a_last_look_a_server_that_slept_overtakes_a_look_up() {
    breaks(Guards { look_before_send: false, ..ALL }, Bounds::of(Kind::LookedUp, STOP), ONCE);
}

/// What a plain write rests on is none of these. A server that slept may send one when the run has already ended uncertain:
/// once, and that is what uncertain says.
#[test]
fn the_commit_covers_for_all_that_goes_by_time_where_a_plain_write_is_concerned() {
    let guards = Guards {
        repeat_epoch: false,
        claim_age: false,
        unheard_claims: false,
        look_before_send: false,
        drop_unsent: false,
        let_go: false,
        ..ALL
    };
    let bounds = Bounds { losses: false, epochs: 2, ..Bounds::of(Kind::Plain, STOP) };
    let kept = [ONCE, INTENT, FENCED, ONE_OPEN, FINAL, LIMIT];
    holds_of(guards, bounds, &kept, &[FINISHES, TAKEN_OVER, UNCERTAIN, SLEEPER_SENDS]);
}
