//! Start, ask, stop.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::account::Account;
use crate::child::Child;
use crate::command::{command, last_words, run};
use crate::find::{Binaries, find};
use crate::socket::SocketFolder;
use crate::{Error, Options, cluster, folder, pidfile, url};

/// How long a server of an earlier owner may take to go away.
const PATIENCE_WITH_ANOTHER: Duration = Duration::from_secs(20);
/// How long the start may take, recovery after a crash included.
const PATIENCE_AT_START: Duration = Duration::from_secs(60);
/// How long the fast shutdown may take before the server is ended without its last checkpoint.
const PATIENCE_AT_STOP: Duration = Duration::from_secs(30);
/// The log begins anew at a start that finds it longer than this, in bytes.
const LONGEST_LOG: u64 = 4 << 20;

/// A running private PostgreSQL. Dropping it stops the server and waits for its end.
#[derive(Debug)]
pub struct PrivatePostgres {
    data_dir: PathBuf,
    binaries: Binaries,
    child: Child,
    socket: SocketFolder,
    _lock: File,
}

impl PrivatePostgres {
    /// Starts the server, making its cluster first if there is none, and returns when it takes connections.
    /// Blocks: milliseconds with an existing cluster, a second or two with a new one, and up to 20 s while a
    /// server of an earlier owner still shuts down.
    ///
    /// # Errors
    /// No binaries, a data folder that can't be used or that another process holds, or what PostgreSQL said.
    pub fn start(options: Options) -> Result<Self, Error> {
        let account = Account::to_step_down_to();
        let data_dir = folder::prepare(&options.data_dir, account)?;
        let deadline = Instant::now() + PATIENCE_WITH_ANOTHER;
        let lock = folder::hold(&data_dir, deadline)?;
        let made_by = cluster::made_by(&data_dir);
        // The wheel is looked for beside the folder as it was named, not where a link leads to.
        let named = std::path::absolute(&options.data_dir).unwrap_or_else(|_| data_dir.clone());
        let binaries = find(options.bin_dir.as_deref(), &named, made_by.as_deref(), account)?;
        if made_by.is_none() {
            cluster::create(&data_dir, &binaries, account, options.fsync)?;
        }
        pidfile::wait_until_free(&cluster::path(&data_dir), deadline)?;
        let socket = SocketFolder::prepare(&data_dir, account)?;
        let log = open_log(&data_dir)?;
        let command = postgres(&options, &binaries, account, &data_dir, &socket, log)?;
        let child = Child::spawn(command).map_err(|e| failed(e.to_string()))?;
        let server = Self { data_dir, binaries, child, socket, _lock: lock };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// The URL of a database on this server, over its Unix socket, for the superuser `postgres`.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        url::url(self.socket.path(), database)
    }

    /// Makes a database unless it exists.
    ///
    /// # Errors
    /// A name that PostgreSQL would not take, or what it said.
    pub fn create_database(&self, name: &str) -> Result<(), Error> {
        if name.is_empty() || name.len() > 63 || name.contains('\0') {
            return Err(Error::DatabaseName(name.to_owned()));
        }
        let exists = format!("SELECT 1 FROM pg_database WHERE datname = '{}'", name.replace('\'', "''"));
        if self.psql(&exists)?.trim() == "1" {
            return Ok(());
        }
        // Nobody is ever connected to template0, so that databases can be made at the same time.
        let create = format!("CREATE DATABASE \"{}\" TEMPLATE template0", name.replace('"', "\"\""));
        match self.psql(&create) {
            Err(Error::Program { reason, .. }) if reason.contains("already exists") => Ok(()),
            other => other.map(drop),
        }
    }

    /// Stops the server: connections are closed, data is written out. Waits for its end.
    ///
    /// # Errors
    /// The server had to be ended the hard way; its data is safe all the same when `fsync` is on.
    pub fn stop(self) -> Result<(), Error> {
        self.end()
    }

    /// Whether the server still runs; it may have been killed from outside.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.child.has_ended()
    }

    /// Process id of the postmaster.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid().cast_unsigned()
    }

    /// Where the server's data really lies.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The server's log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        log_path(&self.data_dir)
    }

    fn wait_until_ready(&self) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE_AT_START;
        while !pidfile::is_ready(&cluster::path(&self.data_dir), self.child.pid()) {
            if self.child.wait(Duration::from_millis(5)) {
                let words = fs::read_to_string(self.log()).ok().and_then(|text| last_words(&text));
                return Err(failed(words.unwrap_or_else(|| "ended at once".to_owned())));
            }
            if Instant::now() >= deadline {
                let seconds = PATIENCE_AT_START.as_secs();
                return Err(Error::TooSlow { what: "start", seconds, log: self.log() });
            }
            sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn psql(&self, sql: &str) -> Result<String, Error> {
        let mut psql = command(&self.binaries.program("psql"), None);
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--no-password"]);
        psql.args(["--host", self.socket.path(), "--port", "5432", "--username", "postgres"]);
        psql.args(["--dbname", "postgres", "--set", "ON_ERROR_STOP=1", "--command", sql]);
        run("psql", &mut psql)
    }

    fn end(&self) -> Result<(), Error> {
        self.child.signal(Signal::SIGINT);
        if self.child.wait(PATIENCE_AT_STOP) {
            return Ok(());
        }
        for signal in [Signal::SIGQUIT, Signal::SIGKILL] {
            self.child.signal(signal);
            if self.child.wait(Duration::from_secs(10)) {
                break;
            }
        }
        Err(Error::TooSlow { what: "stop", seconds: PATIENCE_AT_STOP.as_secs(), log: self.log() })
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        // Nobody is left to tell; after `stop` this finds the child ended.
        let _ = self.end();
    }
}

fn postgres(
    options: &Options,
    binaries: &Binaries,
    account: Option<Account>,
    data_dir: &Path,
    socket: &SocketFolder,
    log: File,
) -> Result<Command, Error> {
    let on = |yes: bool| if yes { "on" } else { "off" };
    let settings = [
        ("listen_addresses", String::new()),
        ("port", "5432".to_owned()),
        ("unix_socket_directories", socket.path().to_owned()),
        ("unix_socket_permissions", "0700".to_owned()),
        ("max_connections", options.max_connections.to_string()),
        ("fsync", on(options.fsync).to_owned()),
        ("full_page_writes", on(options.fsync).to_owned()),
        ("jit", "off".to_owned()),
        ("timezone", "UTC".to_owned()),
        ("log_timezone", "UTC".to_owned()),
        ("log_checkpoints", "off".to_owned()),
    ];
    let mut command = command(&binaries.program("postgres"), account);
    command.arg("-D").arg(cluster::path(data_dir));
    for (name, value) in settings {
        command.arg("-c").arg(format!("{name}={value}"));
    }
    command.stdout(log.try_clone().map_err(|e| Error::folder(data_dir, e))?).stderr(log);
    Ok(command)
}

fn log_path(data_dir: &Path) -> PathBuf {
    data_dir.join("server.log")
}

fn open_log(data_dir: &Path) -> Result<File, Error> {
    let path = log_path(data_dir);
    if path.metadata().is_ok_and(|meta| meta.len() > LONGEST_LOG) {
        let _ = fs::remove_file(&path);
    }
    File::options().create(true).append(true).open(&path).map_err(|e| Error::folder(path, e))
}

fn failed(reason: String) -> Error {
    Error::Program { program: "postgres", reason }
}
