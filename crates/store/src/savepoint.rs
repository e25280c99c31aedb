//! Places within a transaction that it can go back to, so that one of many things fails alone.

use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

/// A place to go back to.
#[derive(Debug)]
pub struct Savepoint {
    signals: usize,
    acts: usize,
}

impl TenantTx {
    /// Marks a place. It is given up by [`keep`](TenantTx::keep) or [`go_back`](TenantTx::go_back) before the next is marked.
    ///
    /// # Errors
    /// The database is away.
    pub async fn savepoint(&mut self) -> Result<Savepoint> {
        sqlx::query("SAVEPOINT place").execute(self.conn()).await.map_err(store_error)?;
        Ok(Savepoint { signals: self.signals.len(), acts: self.acts.len() })
    }

    /// What was done since stays.
    ///
    /// # Errors
    /// The database is away.
    pub async fn keep(&mut self, _: Savepoint) -> Result<()> {
        sqlx::query("RELEASE SAVEPOINT place").execute(self.conn()).await.map_err(store_error)?;
        Ok(())
    }

    /// What was done since was not done.
    ///
    /// # Errors
    /// The database is away.
    pub async fn go_back(&mut self, place: Savepoint) -> Result<()> {
        sqlx::query("ROLLBACK TO SAVEPOINT place").execute(self.conn()).await.map_err(store_error)?;
        self.signals.truncate(place.signals);
        self.acts.truncate(place.acts);
        self.keep(place).await
    }
}
