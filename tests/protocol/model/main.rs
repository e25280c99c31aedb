//! The protocol by which servers share runs (claim, renew, fence, commit, take over), as a small model of which *every*
//! state within its bounds is looked at. The tests of the real thing are in `tests/it` and `tests/chaos`: they meet what
//! happens to happen; this meets everything that can, in a smaller world.
//!
//! `cargo test -p answerable-protocol -- --nocapture` prints how many states there were and, for each guard that is left
//! out, the shortest way to the harm.
//!
//! # What it is made of
//! - `state.rs`: the database's row of a run (its call, epoch, sequence, last commit, lease, deaths), the servers and
//!   how far each is with a run, and the messages between them.
//! - `action.rs`, `protocol.rs`: what may happen next, and what follows. A message arrives at any later time, or its
//!   answer is lost; a server crashes, comes back, stands still and goes on with what it had in mind, is drained.
//! - `database.rs`: the statements of `crates/store/src/claim.rs` and `commit_run`. `server.rs`: what `crates/engine`
//!   does in `scheduler.rs`, `lease.rs`, `gate.rs`, `drive.rs` and `session.rs`, and the core's recovery of a call that was out.
//! - `guards.rs`: what keeps the promises, each to be left out; the code has all of them. `properties.rs`: the promises.
//! - `holds.rs`: with all guards all promises hold. `broken.rs`: without one, one is broken, or another covers for it.
//!   `alive.rs`: nothing gets stuck.
//!
//! # Time
//! A tick is a third of a lease. Leases and the servers' own limits are counted down, by the database's clock and by
//! monotonic ones that run equally fast; a stopped server's runs on. A server that is awake takes note of its limit
//! before more time goes by, and one that has just woken may do anything else before that. Nobody has to renew: a
//! server that doesn't is one that can't reach the database.
//!
//! # Bounds
//! Two servers (three once), one run (two once) with one call; one fault of a kind, or a kill and a stop; a run changes
//! hands two or three times at most (five for one that kills its servers) and may survive one death. Lateness and lost
//! answers are not bounded. The largest world has about 350 000 states, most have less than 50 000; all together some ten
//! seconds of one core.
//!
//! # What it leaves out
//! The inbox and so cancels (a silent server's run is taken for one before its lease runs out, but only to end it), waiting,
//! model calls, reads, business keys, a far side that doesn't answer or says "not done" of a request that is still on its
//! way to it, what is written to the ledger after a run's end, transactions that conflict (a statement is one step, as its
//! row locks make it), a renewal that finds a row busy (it is one that was not made), a renewal that arrives after its
//! sender gave up on it (it keeps others away for longer and lets nobody do anything), and a server that has an old and a
//! new lease of one run (they are renewed apart: `crates/engine/tests`).

mod action;
mod alive;
mod broken;
mod database;
mod guards;
mod holds;
mod properties;
mod protocol;
mod scenario;
mod server;
mod state;
