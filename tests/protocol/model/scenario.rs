//! How large a world is looked at, and what is asked of it.

use std::time::Instant;

use stateright::{Checker as _, Model as _};

use crate::guards::Guards;
use crate::properties::ALWAYS;
use crate::protocol::Protocol;
use crate::state::Faults;

/// Kind of the run's one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Never sent again; unclear, it is uncertain.
    Plain,
    /// Sent again under the same key.
    Idempotent,
    /// Sent again if the far side says that it was not done.
    LookedUp,
}

/// How large the world is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) servers: usize,
    pub(crate) runs: usize,
    pub(crate) kind: Kind,
    /// Faults that may happen. Messages may be late, and servers out of reach, as often as they like.
    pub(crate) faults: Faults,
    /// Answers may be lost.
    pub(crate) losses: bool,
    /// The call kills the server that sends it.
    pub(crate) deadly: bool,
    /// Deaths after which a run is not tried again.
    pub(crate) deaths: u8,
    /// Attempts at most.
    pub(crate) attempts: u8,
    /// Runs that the tenant may have claimed at once.
    pub(crate) places: usize,
    /// No run changes hands more often.
    pub(crate) epochs: u8,
}

/// No fault but lateness and lost answers.
pub(crate) const NONE: Faults = Faults { crashes: 0, stops: 0, drains: 0, clock_steps: 0 };
/// A server is killed.
pub(crate) const CRASH: Faults = Faults { crashes: 1, ..NONE };
/// A server stands still for a while.
pub(crate) const STOP: Faults = Faults { stops: 1, ..NONE };
/// A server is asked to leave.
pub(crate) const DRAIN: Faults = Faults { drains: 1, ..NONE };

impl Bounds {
    /// Two servers and a run; each fault of `faults` as often as it says.
    pub(crate) fn of(kind: Kind, faults: Faults) -> Self {
        Self {
            servers: 2,
            runs: 1,
            kind,
            faults,
            losses: true,
            deadly: false,
            deaths: 1,
            attempts: 3,
            places: 2,
            epochs: 3,
        }
    }
}

/// All that always holds does, and all of `reached` is reached.
pub(crate) fn holds(guards: Guards, bounds: Bounds, reached: &[&'static str]) {
    holds_of(guards, bounds, &ALWAYS, reached);
}

/// All of `kept` holds, and all of `reached` is reached.
pub(crate) fn holds_of(guards: Guards, bounds: Bounds, kept: &[&'static str], reached: &[&'static str]) {
    let began = Instant::now();
    let watched = kept.iter().chain(reached).copied().collect();
    let checker = Protocol { guards, bounds, watched }.checker().spawn_bfs().join();
    eprintln!("{} states in {:.1?}", checker.unique_state_count(), began.elapsed());
    checker.assert_properties();
}

/// `property` doesn't hold: the shortest way there is printed.
pub(crate) fn breaks(guards: Guards, bounds: Bounds, property: &'static str) {
    let began = Instant::now();
    let checker = Protocol { guards, bounds, watched: vec![property] }.checker().spawn_bfs().join();
    eprintln!("{} states in {:.1?}", checker.unique_state_count(), began.elapsed());
    let path = checker.assert_any_discovery(property);
    eprintln!("not so: {property}");
    path.into_actions().iter().for_each(|action| eprintln!("  {action:?}"));
}
