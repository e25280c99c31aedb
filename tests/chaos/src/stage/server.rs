//! One server: its process, its address, its way to the database, and who starts it again.

use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use super::process::{Process, ending};
use super::{Error, Journal, Proxy, Result, faketime};

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(10);
/// Pause before a dead server is started again.
const DOWN: Duration = Duration::from_millis(700);

/// What the next start of a server gets, once.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// `ANSWERABLE_FAULT_CRASH`.
    pub crash: Option<String>,
    /// How wrong its clock is, as libfaketime takes it: `+1h`.
    pub clock: Option<String>,
}

/// What all servers of a stage have in common.
#[derive(Clone, Debug)]
pub struct Common {
    pub(super) program: PathBuf,
    pub(super) dir: PathBuf,
    pub(super) environment: Vec<(String, String)>,
    pub(super) http: reqwest::Client,
    pub(super) journal: Arc<Journal>,
}

/// A server that is started again whenever it dies.
#[derive(Debug)]
pub struct Server {
    /// Its number, from 0.
    pub index: usize,
    /// Its way to the database.
    pub proxy: Proxy,
    common: Common,
    database: String,
    port: u16,
    pooled: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    process: Option<Process>,
    next: Launch,
    /// What every start gets.
    lasting: Launch,
    /// It stays down for now.
    held: bool,
    down_since: Option<Instant>,
    last_end: String,
}

impl Server {
    /// Makes a server of `database`; it starts when it is supervised.
    ///
    /// # Errors
    /// There is no free port.
    pub fn new(index: usize, database: &str, proxy: Proxy, common: Common) -> Result<Self> {
        // Free a moment ago: ports of the kernel's choice are not given out again soon.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = port.map_err(Error::io("a free port"))?.port();
        let (pooled, state) = (AtomicBool::new(false), Mutex::default());
        Ok(Self { index, proxy, common, database: database.to_owned(), port, pooled, state })
    }

    /// Where it answers.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Whether its connections lead through the pooler, from its next start on.
    pub fn through_pooler(&self, socket: Option<PathBuf>) {
        self.pooled.store(socket.is_some(), Ordering::SeqCst);
        if let Some(socket) = socket {
            self.proxy.lead_to(socket);
        }
    }

    /// SIGKILL; it is started again soon.
    pub fn kill(&self) {
        if let Some(process) = &self.state().process {
            process.kill();
        }
        self.buried();
    }

    /// SIGKILL, and the next life begins as `next` says, at once.
    pub fn restart(&self, next: Launch) {
        self.kill();
        let mut state = self.state();
        state.next = next;
        state.down_since = None;
    }

    /// What every start gets from here on, unless that start has its own.
    pub fn lasting(&self, lasting: Launch) {
        self.state().lasting = lasting;
    }

    /// SIGTERM; how it ended, or `None` where it still runs after `patience`. It is started again soon.
    pub async fn terminate(&self, patience: Duration) -> Option<String> {
        self.signal(Signal::SIGTERM);
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if let Some(how) = self.buried() {
                return Some(how);
            }
            tokio::time::sleep(LOOK).await;
        }
        None
    }

    /// Takes note of its death, if it is dead: how it died.
    fn buried(&self) -> Option<String> {
        let mut state = self.state();
        let Some(process) = &state.process else { return Some(state.last_end.clone()) };
        let (how, pid) = (ending(process.ended()?), process.pid());
        state.process = None;
        state.down_since = Some(Instant::now());
        state.last_end.clone_from(&how);
        drop(state);
        self.common.journal.note("death", json!({"server": self.index, "how": how, "pid": pid}));
        Some(how)
    }

    /// Sends a signal, unless it has ended.
    pub fn signal(&self, signal: Signal) {
        if let Some(process) = &self.state().process {
            process.signal(signal);
        }
    }

    /// Keeps it down after its next death, or no longer.
    pub fn hold_down(&self, held: bool) {
        self.state().held = held;
    }

    /// Whether it runs.
    pub fn is_up(&self) -> bool {
        self.state().process.as_ref().is_some_and(|process| process.ended().is_none())
    }

    /// Its process id, if it runs.
    pub fn pid(&self) -> Option<i32> {
        self.state().process.as_ref().filter(|process| process.ended().is_none()).map(Process::pid)
    }

    /// Returns true when it says that it is ready, false if it doesn't within `patience`.
    pub async fn ready(&self, patience: Duration) -> bool {
        let (url, deadline) = (format!("{}/readyz", self.url()), Instant::now() + patience);
        loop {
            let asked = self.common.http.get(&url).timeout(Duration::from_secs(2)).send().await;
            if asked.is_ok_and(|answer| answer.status().is_success()) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// Starts it, and starts it again whenever it is dead, for ever.
    pub(super) async fn supervise(self: Arc<Self>) {
        loop {
            if let Err(error) = self.look() {
                self.common
                    .journal
                    .note("stage.error", json!({"server": self.index, "error": error.to_string()}));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn look(&self) -> Result<()> {
        self.buried();
        let mut state = self.state();
        let due = state.down_since.is_none_or(|since| since.elapsed() >= DOWN);
        if state.process.is_none() && !state.held && due {
            let (once, lasting) = (std::mem::take(&mut state.next), &state.lasting);
            let next = Launch {
                crash: once.crash.or_else(|| lasting.crash.clone()),
                clock: once.clock.or_else(|| lasting.clock.clone()),
            };
            let process = self.spawn(&next)?;
            let pid = process.pid();
            self.common.journal.note(
                "start",
                json!({"server": self.index, "pid": pid, "crash": next.crash, "clock": next.clock,
                    "pooled": self.pooled.load(Ordering::SeqCst)}),
            );
            state.process = Some(process);
        }
        Ok(())
    }

    fn spawn(&self, next: &Launch) -> Result<Process> {
        let mut command = Command::new(&self.common.program);
        for (name, _) in std::env::vars_os() {
            let ours = |prefix: &&str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
            if ["ANSWERABLE_", "OTEL_", "PG", "DATABASE_"].iter().any(ours) {
                command.env_remove(name);
            }
        }
        command.envs(self.common.environment.iter().map(|(name, value)| (name, value)));
        command.envs(self.urls());
        if let Some(crash) = &next.crash {
            command.env("ANSWERABLE_FAULT_CRASH", crash);
        }
        if let Some((clock, library)) = next.clock.as_ref().zip(faketime::library()) {
            faketime::preload(&mut command, &library, ("FAKETIME", clock));
        }
        let log = self.common.dir.join(format!("server-{}.log", self.index));
        let log =
            File::options().create(true).append(true).open(&log).map_err(Error::io("the log of a server"))?;
        command.args(["serve", "--listen", &format!("127.0.0.1:{}", self.port)]);
        command.current_dir("/").stdin(Stdio::null());
        command.stdout(log.try_clone().map_err(Error::io("the log of a server"))?).stderr(log);
        let program = self.common.program.display().to_string();
        Process::spawn(command, Signal::SIGKILL).map_err(Error::io(program))
    }

    fn urls(&self) -> Vec<(&'static str, String)> {
        let url = |address| format!("postgres://postgres@{address}/{}?sslmode=disable", self.database);
        if self.pooled.load(Ordering::SeqCst) {
            let direct = url(self.proxy.direct_address());
            vec![("DATABASE_URL", url(self.proxy.address())), ("ANSWERABLE_DATABASE_DIRECT_URL", direct)]
        } else {
            vec![("DATABASE_URL", url(self.proxy.direct_address()))]
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
