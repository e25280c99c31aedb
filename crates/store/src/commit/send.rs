//! How a commit gets to the database: as one statement, or in a transaction with what is beside it.

use answerable_ports::{Lease, StoreError};
use uuid::Uuid;

use super::beside::Beside;
use crate::error::{store_error, violated};
use crate::{Result, Store};

/// A commit as `commit_run` takes it.
pub(super) struct Call<'a> {
    pub(super) lease: Lease,
    /// Commits before it.
    pub(super) seq: i64,
    pub(super) known_inbox: i64,
    /// Its id: sent twice, it is one.
    pub(super) id: Uuid,
    pub(super) payload: &'a str,
}

/// Why it isn't known to be stored.
enum Unsent {
    /// Another run took a business key between the look and the write; a second look finds it.
    KeyTaken(sqlx::Error),
    Failed(StoreError),
}

impl From<sqlx::Error> for Unsent {
    fn from(error: sqlx::Error) -> Self {
        if violated(&error) == Some("ledger_business_keys") {
            Self::KeyTaken(error)
        } else {
            Self::Failed(store_error(error))
        }
    }
}

impl From<StoreError> for Unsent {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl From<Unsent> for StoreError {
    fn from(unsent: Unsent) -> Self {
        match unsent {
            Unsent::KeyTaken(error) => store_error(error),
            Unsent::Failed(error) => error,
        }
    }
}

/// Whether an answer of `commit_run` says that it is stored.
pub(super) fn is_stored(answer: &str) -> bool {
    matches!(answer, "stored" | "told")
}

impl Store {
    /// Sends a commit; the answer is `commit_run`'s word.
    pub(super) async fn send(&self, call: &Call<'_>, beside: &Beside) -> Result<String> {
        match self.send_once(call, beside).await {
            Err(Unsent::KeyTaken(_)) => Ok(self.send_once(call, beside).await?),
            answer => Ok(answer?),
        }
    }

    async fn send_once(&self, call: &Call<'_>, beside: &Beside) -> std::result::Result<String, Unsent> {
        if beside.is_empty() {
            return Ok(self.send_alone(call).await?);
        }
        let mut tx = self.working(call.lease.tenant_id).await?;
        if beside.begins_runs() {
            // A new run refers to its tenant, and whoever deletes that locks it before its runs.
            tx.tenant_hold().await?;
        }
        let answer = sqlx::query_scalar!(
            r#"SELECT commit_run($1, $2, $3, $4, $5, $6, $7::text::json) AS "answer!""#,
            call.lease.tenant_id.0,
            call.lease.run_id.0,
            call.lease.epoch,
            call.seq,
            call.known_inbox,
            call.id,
            call.payload,
        )
        .fetch_one(tx.conn())
        .await?;
        if is_stored(&answer) {
            beside.write(&mut tx, call.lease.run_id.0).await?;
            tx.commit().await?;
        }
        Ok(answer)
    }

    async fn send_alone(&self, call: &Call<'_>) -> sqlx::Result<String> {
        #[cfg(feature = "faults")]
        if answerable_faults::without(answerable_faults::Guard::Fence) {
            return self.send_unfenced(call).await;
        }
        let asked = self.alone(sqlx::query!(
            r#"SELECT commit_run($1, $2, $3, $4, $5, $6, $7::text::json) AS "answer!""#,
            call.lease.tenant_id.0,
            call.lease.run_id.0,
            call.lease.epoch,
            call.seq,
            call.known_inbox,
            call.id,
            call.payload,
        ));
        Ok(asked.await?.answer)
    }

    /// The write without its fence: whoever comes has the newest epoch and place, in the moment in which it comes.
    #[cfg(feature = "faults")]
    async fn send_unfenced(&self, call: &Call<'_>) -> sqlx::Result<String> {
        let query = sqlx::query(
            "SELECT commit_run($1, $2, s.epoch, s.seq, $3, $4, $5::text::json)
             FROM run_states s WHERE s.tenant_id = $1 AND s.run_id = $2",
        );
        let (tenant, run) = (call.lease.tenant_id.0, call.lease.run_id.0);
        let query = query.bind(tenant).bind(run).bind(call.known_inbox).bind(call.id).bind(call.payload);
        // One statement, as the write is: one that arrives late must come through.
        self.alone(query.try_map(|row: sqlx::postgres::PgRow| sqlx::Row::try_get(&row, 0))).await
    }
}
