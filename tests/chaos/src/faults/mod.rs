//! What can be broken. Each fault breaks one thing for some seconds and leaves the rest to the round, which heals.

mod backends;
mod clocks;
mod connections;
mod crash;
mod disk;
mod drain;
mod freeze;
mod horizon;
mod kill;
mod lines;
mod listener;
mod migration;
mod poison;
mod pooler;
mod restarts;

use std::time::Duration;

use futures::future::BoxFuture;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use crate::clients::Clients;
use crate::stage::{Result, Server, Stage};

/// What came of a fault.
#[derive(Clone, Debug)]
pub enum Told {
    /// It happened so.
    Done(String),
    /// It can't happen on this machine.
    Skipped(String),
    /// Something that the service owes while it lasts was not there.
    Failed(String),
}

/// A kind of fault.
#[derive(Clone, Copy)]
pub struct Fault {
    /// Its name, for `--only`.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    run: for<'a> fn(&'a mut Scene<'_>) -> BoxFuture<'a, Result<Told>>,
}

impl Fault {
    /// Makes it happen, once.
    ///
    /// # Errors
    /// The stage itself broke.
    pub async fn run(&self, scene: &mut Scene<'_>) -> Result<Told> {
        (self.run)(scene).await
    }
}

/// Every kind.
pub const ALL: &[Fault] = &[
    kill::ONE,
    kill::SOME,
    kill::ALL,
    crash::CLAIM,
    crash::RECLAIM,
    crash::COMMIT,
    crash::WRITE,
    crash::EFFECT,
    crash::MODEL,
    poison::FAULT,
    freeze::FAULT,
    restarts::FAULT,
    migration::FAULT,
    lines::CUT,
    lines::HOLE,
    lines::LATE,
    lines::DELAY,
    lines::DROP_ANSWERS,
    backends::FAULT,
    listener::FAULT,
    disk::FAULT,
    clocks::SERVERS,
    clocks::DATABASE,
    horizon::FAULT,
    connections::FAULT,
    drain::TERM_THEN_KILL,
    drain::ROLLING,
    pooler::FAULT,
];

/// The kinds with these names; the first name that is none is the error.
///
/// # Errors
/// A name that is none.
pub fn named(names: &[String]) -> std::result::Result<Vec<Fault>, String> {
    let of = |name: &String| ALL.iter().find(|fault| fault.name == name).copied().ok_or_else(|| name.clone());
    names.iter().map(of).collect()
}

/// What a fault may touch.
pub struct Scene<'s> {
    /// The stage.
    pub stage: &'s Stage,
    /// Those who send the runs.
    pub clients: &'s Clients,
    /// All choices come from here.
    pub rng: StdRng,
    /// It shall not take long.
    pub brief: bool,
}

impl<'s> Scene<'s> {
    /// The scene of one fault: its choices follow from the seed and its place in the plan.
    pub fn new(stage: &'s Stage, clients: &'s Clients, seed: u64, brief: bool) -> Self {
        Self { stage, clients, rng: StdRng::seed_from_u64(seed), brief }
    }

    /// So many times, or once.
    fn times(&self, usually: u64) -> std::ops::Range<u64> {
        0..if self.brief { 1 } else { usually }
    }

    /// Any server.
    fn server(&mut self) -> &'s Server {
        let index = self.rng.random_range(0..self.stage.servers.len());
        &self.stage.servers[index]
    }

    /// Some different servers.
    fn servers(&mut self, count: usize) -> Vec<&'s Server> {
        let mut servers: Vec<&Server> = self.stage.servers.iter().map(AsRef::as_ref).collect();
        servers.shuffle(&mut self.rng);
        servers.truncate(count);
        servers
    }

    /// A number between these, both included.
    fn number(&mut self, from: u64, to: u64) -> u64 {
        self.rng.random_range(from..=to)
    }

    /// Waits between so many milliseconds.
    async fn wait(&mut self, from: u64, to: u64) {
        let pause = Duration::from_millis(self.number(from, to));
        tokio::time::sleep(pause).await;
    }

    fn coin(&mut self) -> bool {
        self.rng.random_bool(0.5)
    }
}

impl std::fmt::Debug for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Numbers of servers, for people.
fn numbers(servers: &[&Server]) -> String {
    let words: Vec<String> = servers.iter().map(|server| server.index.to_string()).collect();
    words.join(", ")
}
