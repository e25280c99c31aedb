//! Random lives of runs: the laws are tried on them, and other crates' tests see what models are shown in their course. What
//! holds after every event is checked by the trial itself.

mod deciders;
mod life;
mod people;
#[cfg(test)]
mod replays;
pub mod shown;
mod tape;
#[cfg(test)]
mod tried;
mod world;
