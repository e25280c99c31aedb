//! Who is next: what a claim takes, of whom, and what holds a run back.

mod choice;
mod cost;
mod lines;
mod model;
mod queue;
mod resting;
mod shares;
mod stuck;
