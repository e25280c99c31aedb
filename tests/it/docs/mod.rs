//! The examples of the documentation, run as they stand there: a page that can't be followed to the letter fails here.
//!
//! A block with a title is a file, or the other terminal; one of `sh` is run; one of `json` without a title, after it, is
//! what its output must fit (`"~words"`: contains them, `"…"`: whatever is there). What a page's section
//! `The examples` has comes before each of its others.

mod approvals;
mod follow;
mod page;
mod tools;
