//! Logs: one line where a thing is handled, for people or for machines, on standard error.

mod json;
mod one_line;
#[cfg(test)]
mod tests;

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::format::JsonFields;

use json::FlatJson;
use one_line::one_line;

/// Form of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Pretty,
    /// For machines.
    Json,
}

/// The logs can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    /// The filter makes no sense.
    #[error("the log filter makes no sense: {0}")]
    Filter(String),
    /// There is a logger already.
    #[error("logs are set up already")]
    Twice,
}

/// What PostgreSQL remarks of statements that did what they should, and the pool of connections that it replaces.
const NOISE: &str = "sqlx::postgres::notice=off,sqlx_core::pool=warn";

/// Sets up logs for the process, with a filter such as `info` or `answerable_engine=debug,info`.
///
/// # Errors
/// See [`LogsError`].
pub fn init_logs(filter: &str, format: LogFormat) -> Result<(), LogsError> {
    let filter = EnvFilter::try_new(format!("{filter},{NOISE}"))
        .map_err(|error| LogsError::Filter(error.to_string()))?;
    let lines = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let done = match format {
        LogFormat::Json => lines.fmt_fields(JsonFields::new()).event_format(FlatJson).try_init(),
        LogFormat::Pretty => {
            let is_terminal = std::io::stderr().is_terminal();
            lines.fmt_fields(one_line()).with_ansi(is_terminal).with_target(false).try_init()
        }
    };
    done.map_err(|_| LogsError::Twice)
}
