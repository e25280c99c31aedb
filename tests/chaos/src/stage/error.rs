//! What can go wrong with the stage itself. None of it says anything about the service.

/// The stage could not be set, or broke where no fault was meant.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file, a socket or a process.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
    /// The database, asked past all proxies.
    #[error("the database of the stage: {0}")]
    Database(#[from] sqlx::Error),
    /// Anything that a sentence says better.
    #[error("{0}")]
    Stage(String),
}

impl Error {
    /// For `map_err`: what was to be done.
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |error| Self::Io(what, error)
    }

    /// A sentence.
    pub fn says(what: impl Into<String>) -> Self {
        Self::Stage(what.into())
    }
}

/// What the stage gives back.
pub type Result<T> = std::result::Result<T, Error>;
