//! Requests a minute, counted over all servers.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

/// What a server got of a tenant's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestsTaken {
    /// So many it may answer.
    pub granted: u64,
    /// So many are left for all servers.
    pub remaining: u64,
    /// When the minute began; it names it.
    pub began: DateTime<Utc>,
    /// It ends in so long.
    pub ends_in: Duration,
}

/// Requests of a minute that a server took and didn't need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestsUnused {
    /// So many.
    pub count: u64,
    /// The minute, by its beginning.
    pub began: DateTime<Utc>,
}

impl TenantTx {
    /// Takes up to `wanted` of the `most` requests that the tenant has in a minute, and gives back what was not needed; the
    /// rules are `take_requests` of the schema. `None`: the tenant is gone.
    ///
    /// # Errors
    /// The database is away.
    pub async fn requests_take(
        &mut self,
        most: u64,
        wanted: u64,
        unused: Option<RequestsUnused>,
    ) -> Result<Option<RequestsTaken>> {
        let long = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let row = sqlx::query!(
            r#"SELECT granted AS "granted!", remaining AS "remaining!", began AS "began!", ends_in_ms AS "ends_in_ms!"
               FROM take_requests($1, $2, $3, $4, $5)"#,
            self.tenant(),
            long(most),
            long(wanted),
            unused.map(|unused| unused.began),
            long(unused.map_or(0, |unused| unused.count)),
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let short = |n: i64| u64::try_from(n).unwrap_or(0);
        Ok(row.map(|row| RequestsTaken {
            granted: short(row.granted),
            remaining: short(row.remaining),
            began: row.began,
            ends_in: Duration::from_millis(short(row.ends_in_ms)),
        }))
    }
}
