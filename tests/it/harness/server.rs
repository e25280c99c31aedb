//! The server as a child process.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use answerable_testkit::TestDatabase;
use tokio::time::sleep;
use uuid::Uuid;

use super::binary::binary;
use super::client::Client;
use super::process::Process;
use super::until::many_files;

/// The lease of all servers in these tests; a run is taken over so long after its server's death.
pub(crate) const LEASE: Duration = Duration::from_millis(1500);
/// How long a server may take to answer `/readyz`; the machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much of a log is shown when a test fails, in bytes.
const SHOWN: u64 = 16 << 10;

/// A server on loopback. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Server {
    url: String,
    program: PathBuf,
    settings: Vec<(String, String)>,
    operator_key: String,
    process: Mutex<Option<Process>>,
    /// Both outputs of every process that this server was; without a name, so nothing of it stays.
    log: File,
}

impl Server {
    /// A server on a database of its own, ready to answer.
    pub(crate) async fn start(database: &TestDatabase) -> Self {
        Self::start_with(&database.url, &[]).await
    }

    /// The same with more settings: environment variables and their values.
    pub(crate) async fn start_with(database_url: &str, settings: &[(&str, &str)]) -> Self {
        let server = Self::launch(database_url, settings);
        server.ready().await;
        server
    }

    /// Starts a server and does not wait for it.
    pub(crate) fn launch(database_url: &str, more: &[(&str, &str)]) -> Self {
        let (settings, operator_key) = settings(database_url, more);
        Self::of(binary().to_owned(), settings, operator_key)
    }

    /// One more server with the same database and keys, ready to answer.
    pub(crate) async fn beside(&self) -> Self {
        self.beside_of(&self.program).await
    }

    /// The same of another program.
    pub(crate) async fn beside_of(&self, program: &Path) -> Self {
        let server = Self::of(program.to_owned(), self.settings.clone(), self.operator_key.clone());
        server.ready().await;
        server
    }

    /// One more server with the same database and keys, but for these settings, ready to answer.
    pub(crate) async fn beside_with(&self, changes: &[(&str, &str)]) -> Self {
        let server = Self::of(self.program.clone(), self.changed(changes), self.operator_key.clone());
        server.ready().await;
        server
    }

    /// This server's settings with changes; the last of a name counts.
    fn changed(&self, changes: &[(&str, &str)]) -> Vec<(String, String)> {
        let changes = changes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.settings.iter().cloned().chain(changes).collect()
    }

    /// A server of another program than the one under test, on a database of its own.
    pub(crate) async fn start_of(program: &Path, database: &TestDatabase) -> Self {
        let settings = settings(&database.url, &[]);
        let server = Self::of(program.to_owned(), settings.0, settings.1);
        server.ready().await;
        server
    }

    fn of(program: PathBuf, settings: Vec<(String, String)>, operator_key: String) -> Self {
        // Some tests open more connections to it than a process usually may.
        many_files();
        let log = tempfile::tempfile().expect("a file for the log");
        let url = format!("http://127.0.0.1:{}", free_port());
        let server = Self { url, program, settings, operator_key, process: Mutex::new(None), log };
        server.spawn();
        server
    }

    /// The program with this server's settings and no others.
    fn program(&self) -> Command {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            let ours = ["ANSWERABLE_", "OTEL_", "PG"]
                .iter()
                .any(|p| name.as_encoded_bytes().starts_with(p.as_bytes()));
            if ours {
                command.env_remove(name);
            }
        }
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        // A folder that has no answerable.toml.
        command.current_dir("/").stdin(Stdio::null());
        command
    }

    /// What came of another command of the program, beside the server and with its settings.
    pub(crate) async fn command(&self, arguments: &[&str]) -> Output {
        self.command_with(arguments, &[]).await
    }

    /// The same with changed settings.
    pub(crate) async fn command_with(&self, arguments: &[&str], changes: &[(&str, &str)]) -> Output {
        let mut program = self.program();
        program.envs(changes.iter().copied());
        let mut command = tokio::process::Command::from(program);
        let ended = tokio::time::timeout(PATIENCE, command.args(arguments).kill_on_drop(true).output()).await;
        ended.unwrap_or_else(|_| panic!("{arguments:?} did not end")).expect("the program runs")
    }

    fn spawn(&self) {
        let mut command = self.program();
        command.args(["serve", "--listen", self.url.trim_start_matches("http://")]);
        let output = || self.log.try_clone().expect("one more handle of the log");
        command.stdout(output()).stderr(output());
        let process = Process::spawn(command).unwrap_or_else(|e| panic!("{}: {e}", self.program.display()));
        *self.process() = Some(process);
    }

    /// Returns when the server is ready.
    pub(crate) async fn ready(&self) {
        self.readiness(200).await;
    }

    /// Returns when `/readyz` answers with this status.
    pub(crate) async fn readiness(&self, wanted: u16) {
        let (client, deadline) = (self.stranger(), Instant::now() + PATIENCE);
        loop {
            if client.get("/readyz").try_send().await.is_ok_and(|answer| answer.status == wanted) {
                return;
            }
            let ended = self.process().as_mut().and_then(Process::ended);
            assert!(ended.is_none(), "the server ended: {ended:?}");
            assert!(Instant::now() < deadline, "/readyz did not answer {wanted} within {PATIENCE:?}");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// SIGKILL.
    pub(crate) fn kill(&self) {
        self.process().take();
    }

    /// SIGTERM: it must leave by itself, and content.
    pub(crate) async fn stop(&self) {
        let mut process = self.process().take().expect("a running server");
        let status = process.terminate(PATIENCE).await;
        assert!(status.is_some_and(|status| status.success()), "after SIGTERM: {status:?}");
    }

    /// Starts it again at the same address, and waits until it is ready.
    pub(crate) async fn start_again(&self) {
        self.spawn();
        self.ready().await;
    }

    /// A kill and a start.
    pub(crate) async fn crash(&self) {
        self.kill();
        self.start_again().await;
    }

    /// Bytes of memory that the running server has in use.
    pub(crate) fn memory(&self) -> u64 {
        self.process().as_ref().expect("a running server").memory()
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn operator_key(&self) -> &str {
        &self.operator_key
    }

    /// A client with the operator's key.
    pub(crate) fn operator(&self) -> Client {
        self.client(Some(&self.operator_key))
    }

    /// A client without a key.
    pub(crate) fn stranger(&self) -> Client {
        self.client(None)
    }

    fn client(&self, key: Option<&str>) -> Client {
        let client = Client::new(&self.url, key);
        if self.program == binary() { client } else { client.of_another_version() }
    }

    /// Where the log ends now.
    pub(crate) fn log_end(&self) -> u64 {
        self.log.metadata().map_or(0, |meta| meta.len())
    }

    /// What was logged from a place on.
    pub(crate) fn log_from(&self, place: u64) -> String {
        let length = usize::try_from(self.log_end().saturating_sub(place)).unwrap_or(0);
        let mut bytes = vec![0; length];
        // The file is only appended to: what was there can be read.
        let _ = self.log.read_exact_at(&mut bytes, place);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Prints the end of the log, for a test that failed.
    pub(crate) fn show_log(&self, from: u64) {
        let from = from.max(self.log_end().saturating_sub(SHOWN));
        eprintln!("---- log of the server at {}\n{}---- end of the log", self.url, self.log_from(from));
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show_log(0);
        }
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// A server's settings, and the operator's key among them.
fn settings(database_url: &str, more: &[(&str, &str)]) -> (Vec<(String, String)>, String) {
    let id = || Uuid::new_v4().simple().to_string();
    let operator_key = format!("operator-{}", id());
    let lease = LEASE.as_millis().to_string();
    let mut settings: Vec<(String, String)> = [
        ("DATABASE_URL", database_url),
        ("ANSWERABLE_OPERATOR_KEY", &operator_key),
        ("ANSWERABLE_SECRET_KEY", &(id() + &id())),
        ("ANSWERABLE_EGRESS_ALLOW", "127.0.0.0/8"),
        ("ANSWERABLE_LEASE_MS", &lease),
        ("ANSWERABLE_BLOBS", concat!("file://", env!("CARGO_TARGET_TMPDIR"), "/blobs")),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    settings.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    (settings, operator_key)
}
