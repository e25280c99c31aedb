//! What a database error means to those who can do something about it.

use answerable_ports::StoreError;

/// Sorts database errors: away (may pass) or broken (won't).
pub(crate) fn store_error(error: sqlx::Error) -> StoreError {
    use sqlx::Error;
    let away = match &error {
        Error::Io(_)
        | Error::Tls(_)
        | Error::PoolTimedOut
        | Error::PoolClosed
        | Error::WorkerCrashed
        | Error::Protocol(_) => true,
        Error::Database(database) => database.code().is_some_and(|code| is_passing(&code)),
        _ => false,
    };
    if away { StoreError::Away(error.to_string()) } else { StoreError::Broken(error.to_string()) }
}

/// Connection exceptions, shutdowns, too many connections, out of resources, serialization and deadlocks, read-only
/// (a fail-over), a cancelled statement, a transaction that stood still for too long.
fn is_passing(code: &str) -> bool {
    code.starts_with("08")
        || code.starts_with("53")
        || matches!(
            code,
            "57P01" | "57P02" | "57P03" | "57014" | "40001" | "40P01" | "25006" | "25P03" | "55P03"
        )
}

/// The name of the constraint that was violated, if that is what went wrong.
pub(crate) fn violated(error: &sqlx::Error) -> Option<&str> {
    match error {
        sqlx::Error::Database(database) => database.constraint(),
        _ => None,
    }
}

/// A document as the text that goes to the database (`$1::text::json`). Bound as a value it would go by way of `jsonb`,
/// which rewrites numbers.
pub(crate) fn as_json<T: serde::Serialize + ?Sized>(document: &T) -> Result<String, StoreError> {
    serde_json::to_string(document).map_err(|error| StoreError::Broken(error.to_string()))
}
