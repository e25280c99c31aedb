//! The demo's processes: started with a log file each, watched, and ended by their process id.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use super::Trouble;

/// A process of the demo.
pub(super) struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`, its output going to `NAME.log` in `folder`.
    pub(super) fn start(name: &'static str, mut command: Command, folder: &Path) -> Result<Self, Trouble> {
        let log = folder.join(format!("{name}.log"));
        let child = open_log(&log)
            .and_then(|file| Ok((file.try_clone()?, file)))
            .and_then(|(out, err)| {
                command
                    .stdin(Stdio::piped())
                    .stdout(out)
                    .stderr(err)
                    // A Ctrl-C is for the demo, which then ends the others in order.
                    .process_group(0)
                    .kill_on_drop(true)
                    .spawn()
            })
            .map_err(|error| Trouble::new(format!("{name} could not be started: {error}")))?;
        Ok(Self { name, child, log })
    }

    /// The process id, while it runs.
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits until `url` answers 200, or says why it never will.
    pub(super) async fn answers(
        &mut self,
        client: &reqwest::Client,
        url: &str,
        within: Duration,
    ) -> Result<(), Trouble> {
        let begun = Instant::now();
        while begun.elapsed() < within {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.trouble(&format!("left with {status} while starting")));
            }
            let asked = client.get(url).timeout(Duration::from_secs(2)).send().await;
            if asked.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(self.trouble(&format!("did not answer {url} within {} s", within.as_secs())))
    }

    /// Kills it, as the kernel would when memory runs out: no warning, no farewell.
    pub(super) async fn kill(&mut self) -> Result<(), Trouble> {
        self.child
            .kill()
            .await
            .map_err(|error| Trouble::new(format!("{} could not be killed: {error}", self.name)))
    }

    /// Asks it to end, and kills it if it doesn't.
    pub(super) async fn stop(&mut self, within: Duration) {
        if let Some(pid) = self.pid().and_then(|pid| i32::try_from(pid).ok()) {
            // It may be gone already, which is what is wanted.
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        if tokio::time::timeout(within, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }

    /// The last lines that it printed.
    pub(super) fn tail(&self, lines: usize) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let kept: Vec<&str> = log.lines().collect();
        let kept = kept[kept.len().saturating_sub(lines)..].join("\n  ");
        format!("The last lines of {}:\n  {kept}", self.name)
    }

    fn trouble(&self, what: &str) -> Trouble {
        Trouble::new(format!("{} {what}.\n{}", self.name, self.tail(20)))
    }
}

fn open_log(path: &Path) -> std::io::Result<File> {
    File::options().create(true).append(true).open(path)
}

/// A loopback address that nobody listens at.
pub(super) fn free_address() -> Result<SocketAddr, Trouble> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map_err(|error| Trouble::new(format!("no free port: {error}")))
}
