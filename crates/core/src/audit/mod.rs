//! The record of who did what.
//!
//! Each entry holds the hash of the one before and is hashed itself, over everything that is shown of it. So none can be
//! changed, dropped, moved or put in between without that the hashes disagree; and whoever has noted a head can tell
//! whether the whole chain up to there is still the same.

mod action;
mod chain;
mod entry;

pub use action::Action;
pub use chain::{Chain, Fault};
pub use entry::{Act, Actor, Entry, Head, Origin, Place};
