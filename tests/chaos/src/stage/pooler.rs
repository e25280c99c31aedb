//! PgBouncer in transaction mode, for rounds in which it stands in the path.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::account::{Account, command};
use super::process::Process;
use super::{Error, Postgres, Result};

const PROGRAMS: [&str; 2] = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"];

/// A running PgBouncer. Dropping it ends it.
#[derive(Debug)]
pub struct Pooler {
    _process: Process,
    socket: PathBuf,
}

impl Pooler {
    /// Starts it in front of `postgres`; `None` where it isn't installed.
    ///
    /// # Errors
    /// It doesn't start.
    pub async fn start(dir: &Path, postgres: &Postgres) -> Result<Option<Self>> {
        let Some(program) = PROGRAMS.iter().map(Path::new).find(|path| path.is_file()) else {
            return Ok(None);
        };
        let account = Account::to_step_down_to();
        let sockets = dir.join("pooler");
        fs::create_dir_all(&sockets).map_err(Error::io("the pooler's folder"))?;
        account.map_or(Ok(()), |account| account.give(&sockets))?;
        let settings = dir.join("pgbouncer.ini");
        fs::write(&settings, ini(postgres.sockets(), &sockets)).map_err(Error::io("pgbouncer.ini"))?;
        let log = fs::File::create(dir.join("pgbouncer.log")).map_err(Error::io("pgbouncer.log"))?;
        let mut pgbouncer = command(program, account);
        pgbouncer.arg(&settings).stdout(log.try_clone().map_err(Error::io("pgbouncer.log"))?).stderr(log);
        let process = Process::spawn(pgbouncer, Signal::SIGKILL).map_err(Error::io("pgbouncer"))?;
        let socket = sockets.join(".s.PGSQL.6432");
        let deadline = Instant::now() + Duration::from_secs(10);
        while !socket.exists() {
            if process.ended().is_some() || Instant::now() > deadline {
                return Err(Error::says("PgBouncer doesn't start; see pgbouncer.log"));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(Some(Self { _process: process, socket }))
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.socket.clone()
    }
}

fn ini(postgres: &Path, sockets: &Path) -> String {
    format!(
        "[databases]\n* = host={} port=5432 user=postgres\n\n[pgbouncer]\nlisten_port = 6432\nlisten_addr =\n\
         unix_socket_dir = {}\nauth_type = any\npool_mode = transaction\nmax_client_conn = 300\n\
         default_pool_size = 20\nserver_login_retry = 1\n",
        postgres.display(),
        sockets.display()
    )
}
