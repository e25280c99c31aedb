//! Eval cases: what a case says, what must hold once it was played, and how that is told.
//!
//! A [`Case`] is a file: an agent, what it is asked, what the model and the tools say, and what is expected. Whoever
//! plays it asks [`Answers`] what the tools say and hands in what was [`Observed`]; [`check`] compares and names each
//! difference in a [`Finding`]; a [`report::Report`] is told as a table, as JUnit XML or as JSON. [`case_of`] makes a
//! case out of a run's export.
//!
//! Invariant: nothing here plays anything, knows a file, a clock or a network, or names a type of the product: what is
//! judged is what its API says, as JSON.

mod answers;
mod calls;
pub mod case;
mod check;
mod export;
mod observed;
mod plan;
mod read;
pub mod report;
mod shown;
mod yaml;

pub use answers::{Answers, ToolRequest, unknown_call};
pub use case::{Case, Expect};
pub use check::{Finding, check};
pub use export::case_of;
pub use observed::{Observed, Shown, Traffic};
pub use plan::{Stage, obstacle};
pub use read::{Form, Unreadable, read};
