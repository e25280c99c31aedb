//! Each guard left out alone: what it keeps is broken. Where another guard covers for it, that is shown, and the pair
//! left out.

use crate::guards::Guards;
use crate::properties::{
    FENCED, FINAL, FINISHES, INTENT, LIMIT, ONCE, ONE_OPEN, PLACES, TAKEN_OVER, TRUE_DEATHS,
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
    breaks(Guards { commit_id: false, ..ALL }, Bounds::of(Kind::Plain, NONE), TRUE_DEATHS);
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
    holds_of(guards, bounds, &[ONE_OPEN, TRUE_DEATHS], &[FINISHES]);
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
