//! Tools over files, against a workspace in memory.

mod changing;
mod reading;
mod shelf;
mod world;
