//! The world outside, as a child process.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use crate::stage::{Error, Process, Result};
use crate::world::Addresses;

/// A world that runs until it is dropped.
#[derive(Debug)]
pub(super) struct Outside {
    pub(super) addresses: Addresses,
    process: Process,
}

impl Outside {
    /// Starts it and reads where it answers.
    pub(super) async fn start(program: &Path, dir: &Path, seed: u64) -> Result<Self> {
        let mut world = Command::new(program);
        world.arg("world").arg("--dir").arg(dir).args(["--seed", &seed.to_string()]);
        // Its end comes with the end of its input, which is this process's end.
        world.stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = Process::spawn(world, Signal::SIGKILL).map_err(Error::io("the world"))?;
        let stdout = process.stdout().ok_or_else(|| Error::says("the world has no output"))?;
        let read = move || {
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line).map(|_| line)
        };
        let line = tokio::task::spawn_blocking(read).await.map_err(|error| Error::says(error.to_string()))?;
        let line = line.map_err(Error::io("the world's first line"))?;
        let addresses = serde_json::from_str(&line)
            .map_err(|error| Error::says(format!("the world: {error}: {line}")))?;
        Ok(Self { addresses, process })
    }

    /// It must live as long as the round.
    pub(super) fn check(&self) -> Result<()> {
        self.process.ended().map_or(Ok(()), |status| Err(Error::says(format!("the world ended: {status}"))))
    }
}
