//! The one who prunes: holds a lock of the session on a connection past any pooler, and drops partitions there as the role
//! that owns them.

use sqlx::{ConnectOptions as _, Connection as _, PgConnection};

use crate::Result;
use crate::connect::pg_options;
use crate::error::store_error;

/// Whoever prunes holds it, for as long as its connection lives.
const PRUNE_LOCK: i64 = 0x616e_7377_7072_756e;
/// Commits that come in meanwhile wait behind a partition that is waited for: so long at most, for each of its tables.
const PATIENCE: &str = "SET LOCAL lock_timeout = '100ms'";

/// Nobody else prunes while this lives.
pub(super) struct Alone {
    connection: PgConnection,
}

/// What became of a partition.
pub(super) enum Dropped {
    /// It is gone.
    Done,
    /// Somebody reads or writes it, or its parent, for longer than we wait.
    InUse,
}

impl Alone {
    /// `None`: somebody else is at it.
    pub(super) async fn begin(direct_url: &str) -> Result<Option<Self>> {
        let mut connection = pg_options(direct_url)?.connect().await.map_err(store_error)?;
        let alone = sqlx::query_scalar!(r#"SELECT pg_try_advisory_lock($1) AS "alone!""#, PRUNE_LOCK)
            .fetch_one(&mut connection)
            .await
            .map_err(store_error)?;
        Ok(alone.then_some(Self { connection }))
    }

    /// Drops a partition, or lets it be where others are at it.
    pub(super) async fn drop_partition(&mut self, part: &str) -> Result<Dropped> {
        let mut tx = self.connection.begin().await.map_err(store_error)?;
        sqlx::query(PATIENCE).execute(&mut *tx).await.map_err(store_error)?;
        let done = sqlx::query!("SELECT drop_partition($1) IS NULL AS done", part).fetch_one(&mut *tx).await;
        match done {
            Ok(_) => tx.commit().await.map(|()| Dropped::Done).map_err(store_error),
            Err(sqlx::Error::Database(error)) if waited_in_vain(error.code().as_deref()) => {
                tx.rollback().await.map(|()| Dropped::InUse).map_err(store_error)
            }
            Err(error) => Err(store_error(error)),
        }
    }

    /// Gives the lock back.
    pub(super) async fn end(mut self) -> Result<()> {
        // Now, and not when the server sees that the connection is gone.
        sqlx::query_scalar!("SELECT pg_advisory_unlock($1)", PRUNE_LOCK)
            .fetch_one(&mut self.connection)
            .await
            .map_err(store_error)?;
        self.connection.close().await.map_err(store_error)
    }
}

/// A lock's time-out, or a deadlock.
fn waited_in_vain(code: Option<&str>) -> bool {
    matches!(code, Some("55P03" | "40P01"))
}
