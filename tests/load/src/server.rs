//! A server as a child process.

use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

use crate::Result;

/// How long it may take to answer `/readyz`, migrations included.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub struct Server {
    url: String,
    child: Child,
}

impl Server {
    /// Starts the program with these settings; it writes its log into `log`. Must be called on a thread that lives as long as
    /// the server shall.
    pub(crate) fn spawn(program: &Path, settings: &[(String, String)], log: &Path) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let log = File::create(log)?;
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            let begins_with = |start: &str| name.as_encoded_bytes().starts_with(start.as_bytes());
            if ["ANSWERABLE_", "OTEL_", "PG"].into_iter().any(begins_with) {
                command.env_remove(name);
            }
        }
        command.envs(settings.iter().cloned()).args(["serve", "--listen", &address.to_string()]);
        // A folder that has no answerable.toml.
        command.current_dir("/").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        end_with_this_thread(&mut command);
        let child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        Ok(Self { url: format!("http://{address}"), child })
    }

    /// Where it answers.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns when it says that it is ready.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        let (http, deadline) = (reqwest::Client::builder().no_proxy().build()?, Instant::now() + PATIENCE);
        loop {
            let answer = http.get(format!("{}/readyz", self.url)).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("a server ended: {status}").into());
            }
            if Instant::now() >= deadline {
                return Err(format!("a server was not ready within {PATIENCE:?}").into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(unsafe_code, reason = "PR_SET_PDEATHSIG must be set between fork and exec")]
fn end_with_this_thread(command: &mut Command) {
    // SAFETY: the closure makes one system call that is async-signal-safe and touches no memory but its own.
    unsafe {
        command.pre_exec(|| set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from));
    }
}
