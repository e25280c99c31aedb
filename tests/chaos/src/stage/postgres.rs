//! The stage's own PostgreSQL, which is crashed, starved and lied to.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sqlx::{Connection, PgConnection};

use super::account::{Account, command};
use super::disk::Disk;
use super::process::Process;
use super::{Error, Result, binaries, faketime};

/// How long it may take until it answers, recovery included.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a connection of the stage's own may take.
const CONNECT: Duration = Duration::from_secs(5);
/// What a server in production has, too; three answerable servers take most of it.
const MAX_CONNECTIONS: u32 = 100;

/// A cluster in a folder of its own. Dropping it ends the server at once.
#[derive(Debug)]
pub struct Postgres {
    bin: PathBuf,
    account: Option<Account>,
    home: PathBuf,
    sockets: PathBuf,
    log: PathBuf,
    durable: bool,
    clock: Option<(PathBuf, PathBuf)>,
    process: Mutex<Option<Process>>,
    /// Goes last: it can't be unmounted before.
    disk: std::result::Result<Disk, String>,
}

impl Postgres {
    /// Makes the cluster below `dir` and starts it. `durable`: as in production; else without fsync and on the disk as
    /// it is, for short tests.
    ///
    /// # Errors
    /// No PostgreSQL is here, or it doesn't start.
    pub async fn start_new(dir: &Path, durable: bool) -> Result<Self> {
        let account = Account::to_step_down_to();
        let (home, sockets) = (dir.join("pg"), dir.join("sockets"));
        fs::set_permissions(dir, Permissions::from_mode(0o711)).map_err(Error::io("the folder"))?;
        for folder in [&home, &sockets] {
            fs::create_dir_all(folder).map_err(Error::io(folder.display().to_string()))?;
        }
        let disk = if durable {
            Disk::mount(&home)
        } else {
            Err("the short test has no disk of its own".to_owned())
        };
        for folder in [&home, &sockets] {
            account.map_or(Ok(()), |account| account.give(folder))?;
        }
        let postgres = Self {
            bin: binaries::postgres()?,
            account,
            log: dir.join("postgres.log"),
            clock: faketime::library()
                .filter(|_| durable)
                .map(|library| (library, dir.join("postgres.clock"))),
            home,
            sockets,
            durable,
            process: Mutex::new(None),
            disk,
        };
        postgres.initdb()?;
        postgres.set_clock(0)?;
        postgres.start().await?;
        Ok(postgres)
    }

    fn initdb(&self) -> Result<()> {
        let mut initdb = command(&self.bin.join("initdb"), self.account);
        initdb.arg("-D").arg(self.data());
        initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]);
        let output = initdb.output().map_err(Error::io("initdb"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error::says(format!("initdb: {}", String::from_utf8_lossy(&output.stderr).trim())))
    }

    /// Starts it, if it doesn't run, and waits until it answers.
    ///
    /// # Errors
    /// It doesn't within a minute.
    pub async fn start(&self) -> Result<()> {
        self.start_up()?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.connect("postgres").await {
                Ok(connection) => {
                    let _ = connection.close().await;
                    return Ok(());
                }
                Err(error) if Instant::now() >= deadline => return Err(error),
                // It ends by itself where the disk is full during recovery, so it is started again.
                Err(_) if !self.is_running() => self.start_up()?,
                Err(_) => {}
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Starts it, if it doesn't run, and doesn't wait.
    ///
    /// # Errors
    /// The program can't be started.
    pub fn start_up(&self) -> Result<()> {
        if self.is_running() {
            return Ok(());
        }
        let log = File::options().create(true).append(true).open(&self.log);
        let log = log.map_err(Error::io("postgres.log"))?;
        let mut postgres = self.command();
        postgres.stdout(log.try_clone().map_err(Error::io("postgres.log"))?).stderr(log);
        // SIGQUIT is the immediate shutdown: all its processes go at once.
        let process = Process::spawn(postgres, Signal::SIGQUIT).map_err(Error::io("postgres"))?;
        *self.process() = Some(process);
        Ok(())
    }

    fn command(&self) -> Command {
        let on = if self.durable { "on" } else { "off" };
        let mut command = command(&self.bin.join("postgres"), self.account);
        command.arg("-D").arg(self.data());
        let settings = [
            "listen_addresses=".to_owned(),
            format!("unix_socket_directories={}", self.sockets.display()),
            format!("max_connections={MAX_CONNECTIONS}"),
            format!("fsync={on}"),
            format!("full_page_writes={on}"),
            "synchronous_commit=on".to_owned(),
            "shared_buffers=64MB".to_owned(),
            "max_wal_size=160MB".to_owned(),
            "min_wal_size=32MB".to_owned(),
            "timezone=UTC".to_owned(),
            "log_timezone=UTC".to_owned(),
            "log_line_prefix=%m [%p] ".to_owned(),
        ];
        for setting in settings {
            command.arg("-c").arg(setting);
        }
        if let Some((library, file)) = &self.clock {
            faketime::preload(
                &mut command,
                library,
                ("FAKETIME_TIMESTAMP_FILE", &file.display().to_string()),
            );
        }
        command
    }

    /// The immediate shutdown, as `pg_ctl -m immediate stop` does it: no checkpoint, no goodbye.
    pub async fn crash(&self) {
        let process = self.process().take();
        if let Some(process) = process {
            process.signal(Signal::SIGQUIT);
            // Dropped, it is killed where it is still there.
            let _ = process.end(Duration::from_secs(10)).await;
        }
    }

    /// Whether the postmaster lives.
    pub fn is_running(&self) -> bool {
        self.process().as_ref().is_some_and(|process| process.ended().is_none())
    }

    /// Sets its clock to so many seconds off. Nothing happens where its clock can't be set.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn set_clock(&self, seconds: i64) -> Result<()> {
        let Some((_, file)) = &self.clock else { return Ok(()) };
        // Whole or not at all: the library reads it at any moment.
        let fresh = file.with_extension("new");
        fs::write(&fresh, format!("{seconds:+}\n")).map_err(Error::io("postgres.clock"))?;
        fs::rename(&fresh, file).map_err(Error::io("postgres.clock"))
    }

    /// Whether its clock can be set.
    pub fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// Fills its disk to the last byte; says why where it has none of its own.
    ///
    /// # Errors
    /// The disk can't be written at all.
    pub fn fill_disk(&self) -> Result<std::result::Result<(), String>> {
        match &self.disk {
            Ok(disk) => disk.fill().map(Ok),
            Err(why) => Ok(Err(why.clone())),
        }
    }

    /// Gives the space back.
    pub fn free_disk(&self) {
        if let Ok(disk) = &self.disk {
            disk.free();
        }
    }

    /// A connection past all proxies, as superuser.
    ///
    /// # Errors
    /// It is away.
    pub async fn connect(&self, database: &str) -> Result<PgConnection> {
        let url = self.url(database);
        let connecting = tokio::time::timeout(CONNECT, PgConnection::connect(&url)).await;
        Ok(connecting.map_err(|_| Error::says("PostgreSQL doesn't answer"))??)
    }

    /// Runs statements of the stage's own.
    ///
    /// # Errors
    /// It is away, or refuses.
    pub async fn execute(&self, database: &str, statements: impl Into<String>) -> Result<()> {
        let mut connection = self.connect(database).await?;
        sqlx::raw_sql(sqlx::AssertSqlSafe(statements.into())).execute(&mut connection).await?;
        Ok(connection.close().await?)
    }

    /// The URL of a database over the socket.
    pub fn url(&self, database: &str) -> String {
        let sockets = self.sockets.display().to_string().replace('/', "%2F");
        format!("postgres://postgres@localhost:5432/{database}?host={sockets}&sslmode=disable")
    }

    /// The folder of its socket.
    pub fn sockets(&self) -> &Path {
        &self.sockets
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.sockets.join(".s.PGSQL.5432")
    }

    fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(process) = self.process().take() {
            process.signal(Signal::SIGQUIT);
            let deadline = Instant::now() + Duration::from_secs(5);
            while process.ended().is_none() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}
