//! What a running sandbox uses, as seen from outside.

mod disk;
mod processes;

pub(crate) use disk::disk;
pub(crate) use processes::Processes;
