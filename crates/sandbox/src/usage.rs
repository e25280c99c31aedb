//! What a running sandbox uses, as seen from outside.

mod deleted;
mod disk;
mod memory;
mod processes;
mod room;

pub(crate) use deleted::Deleted;
pub(crate) use disk::Walk;
pub(crate) use memory::Memory;
pub(crate) use processes::{Processes, children, tells_of_children};
pub(crate) use room::Room;
