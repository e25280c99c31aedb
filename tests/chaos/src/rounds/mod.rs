//! A round: a stage, a world and clients, faults one after the other by a seeded plan, then the judge.

mod findings;
mod folder;
pub mod mutants;
mod outside;
mod plan;
mod play;
mod say;
mod tally;
mod tell;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::faults::{self, Fault};
use crate::stage::{Error, Result};

pub use folder::Folder;
pub use play::{Outcome, play};
pub use say::say;
pub use tally::Tally;
pub use tell::tell;

/// What a round is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where everything is written. It is made if it is missing.
    pub dir: PathBuf,
    /// All choices follow from it.
    pub seed: u64,
    /// How long faults are made. What comes before and after takes a minute more, and no longer than three.
    pub length: Duration,
    /// The faults to choose from.
    pub faults: Vec<Fault>,
    /// Each fault once, in their order, however long it takes.
    pub in_order: bool,
    /// The program `answerable-chaos`, for the world's process.
    pub program: PathBuf,
    /// PostgreSQL as in production.
    pub durable: bool,
    /// Guards that the servers do without.
    pub without: Option<String>,
    /// Runs that are under way at a time.
    pub runs_at_once: usize,
    /// Time without faults at the beginning.
    pub calm: Duration,
    /// Each fault shall not take long.
    pub brief: bool,
    /// The lease of all servers.
    pub lease: Duration,
}

impl Options {
    /// Ten minutes of everything, written to `dir`, with this program as the world.
    ///
    /// # Errors
    /// This program has no name.
    pub fn usual(dir: &Path) -> Result<Self> {
        Ok(Self {
            dir: dir.to_owned(),
            seed: 0,
            length: Duration::from_secs(600),
            faults: faults::ALL.to_vec(),
            in_order: false,
            program: std::env::current_exe().map_err(Error::io("this program"))?,
            durable: true,
            without: None,
            runs_at_once: 30,
            calm: Duration::from_secs(10),
            brief: false,
            lease: Duration::from_secs(3),
        })
    }
}

/// Servers of a round.
pub const SERVERS: usize = 3;
