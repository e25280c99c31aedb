//! With every guard in place everything holds, whatever of the bounded faults happens when.

use crate::guards::Guards;
use crate::properties::{CRASH_LOOP, FENCED, FINAL, FINISHES, INTENT, LIMIT, ONCE, TAKEN_OVER, UNCERTAIN};
use crate::scenario::{Bounds, CRASH, DRAIN, Kind, NONE, STOP, holds, holds_of};
use crate::state::Faults;

#[test]
fn a_plain_write_and_a_kill_and_a_stop() {
    let faults = Faults { crashes: 1, stops: 1, ..NONE };
    let bounds = Bounds { losses: false, ..Bounds::of(Kind::Plain, faults) };
    holds(Guards::ALL, bounds, &[FINISHES, TAKEN_OVER, UNCERTAIN]);
}

#[test]
fn an_idempotent_write_and_a_kill() {
    holds(Guards::ALL, Bounds::of(Kind::Idempotent, CRASH), &[FINISHES, TAKEN_OVER, CRASH_LOOP]);
}

#[test]
fn an_idempotent_write_and_a_stop() {
    let bounds = Bounds { losses: false, ..Bounds::of(Kind::Idempotent, STOP) };
    holds(Guards::ALL, bounds, &[FINISHES, TAKEN_OVER]);
}

#[test]
fn a_write_that_is_looked_up_and_a_stop() {
    let bounds = Bounds { epochs: 2, ..Bounds::of(Kind::LookedUp, STOP) };
    holds(Guards::ALL, bounds, &[FINISHES, TAKEN_OVER]);
}

#[test]
fn a_drain() {
    holds(Guards::ALL, Bounds::of(Kind::Idempotent, DRAIN), &[FINISHES, TAKEN_OVER]);
}

#[test]
fn three_servers_and_a_kill() {
    let bounds = Bounds { servers: 3, losses: false, ..Bounds::of(Kind::Idempotent, CRASH) };
    holds(Guards::ALL, bounds, &[FINISHES, TAKEN_OVER]);
}

#[test]
fn two_runs_and_one_place() {
    let bounds =
        Bounds { runs: 2, places: 1, losses: false, epochs: 2, ..Bounds::of(Kind::Idempotent, NONE) };
    holds(Guards::ALL, bounds, &[FINISHES, TAKEN_OVER]);
}

#[test]
fn a_call_that_kills_its_servers() {
    let bounds = Bounds { deadly: true, attempts: 9, epochs: 5, ..Bounds::of(Kind::Idempotent, NONE) };
    holds(Guards::ALL, bounds, &[CRASH_LOOP]);
}

/// Who is alive is judged by one clock. If it jumps, two servers may be at one run for as long as it takes the older one
/// to hear of it, but a plain write leaves once all the same.
#[test]
fn a_step_of_the_databases_clock() {
    let faults = Faults { clock_steps: 1, ..NONE };
    let bounds = Bounds { losses: false, ..Bounds::of(Kind::Plain, faults) };
    holds_of(Guards::ALL, bounds, &[ONCE, INTENT, FENCED, FINAL, LIMIT], &[FINISHES, TAKEN_OVER, UNCERTAIN]);
}
