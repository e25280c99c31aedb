//! What a claim costs: it reads what it takes, however many runs of another tenant are due.

use std::time::Duration;

use sqlx::{Connection as _, PgConnection};
use tokio::time::{Instant, sleep};

use super::model::Owner;
use super::queue::{Queue, claims, of, owner};

/// Runs that one claim takes.
const PLACES: usize = 4;
/// How many rows more a claim may read where a hundred times as many are due.
const MORE: i64 = 40;

/// Counts what is read of tables and indexes. Backends tell that at their end.
struct Meter(PgConnection);

impl Meter {
    async fn of(queue: &Queue) -> Self {
        Self(PgConnection::connect(queue.world.url()).await.expect("a connection"))
    }

    /// Rows and entries of indexes that were read so far, by whomever. Ends all connections but its own.
    async fn read(&mut self) -> i64 {
        let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
        let deadline = Instant::now() + Duration::from_secs(30);
        while sqlx::query_scalar::<_, i64>(end).fetch_one(&mut self.0).await.expect("ended") > 0 {
            assert!(Instant::now() < deadline, "connections stay");
            sleep(Duration::from_millis(5)).await;
        }
        let version = "SELECT current_setting('server_version_num')::integer";
        let version: i32 = sqlx::query_scalar(version).fetch_one(&mut self.0).await.expect("a version");
        if version < 150_000 {
            // There counts go by a process of their own, and nothing says when they have come.
            sleep(Duration::from_secs(2)).await;
        }
        let read = "SELECT ((SELECT sum(seq_tup_read) FROM pg_stat_user_tables)
                        + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes))::bigint";
        sqlx::query_scalar(read).fetch_one(&mut self.0).await.expect("a count")
    }
}

/// Lets so many runs of a tenant be due, and measures the tables.
async fn crowd(queue: &Queue, owner: &Owner, runs: i32) {
    let mut su = PgConnection::connect(queue.world.url()).await.expect("a connection");
    for row in [
        "INSERT INTO runs (tenant_id, run_id, ord, spec_hash, workspace_id, context, metadata, budgets, trace_id, created_by)
         SELECT $1, md5(n::text)::uuid, n, 's', $1, '{}', '{}', '{}', repeat('0', 32), 'x' FROM generate_series(1, $2) n",
        "INSERT INTO run_states (tenant_id, run_id, state) SELECT $1, md5(n::text)::uuid, '{}' FROM generate_series(1, $2) n",
        "INSERT INTO run_queue (tenant_id, run_id, ord, priority, wake_at)
         SELECT $1, md5(n::text)::uuid, n, 0, now() - interval '1 hour' FROM generate_series(1, $2) n",
    ] {
        sqlx::query(row).bind(owner.id).bind(runs).execute(&mut su).await.expect("runs");
    }
    sqlx::query("ANALYZE").execute(&mut su).await.expect("measured");
}

/// The queue with so many due runs of one tenant and one of another, and what a claim of some of them reads.
async fn claimed_beside(runs: i32) -> (Queue, Meter, i64) {
    let mut queue = Queue::new().await;
    let (busy, late) = (owner(1), owner(1));
    queue.tenant(&busy).await;
    queue.tenant(&late).await;
    crowd(&queue, &busy, runs).await;
    queue.fill(&late, 1).await;
    let mut meter = Meter::of(&queue).await;
    let (read, claimed) = read_by_a_claim(&queue, &mut meter, |claimed| of(claimed, &late)).await;
    assert_eq!(claimed, 1, "it is the late one's turn beside {runs}");
    (queue, meter, read)
}

async fn read_by_a_claim<T>(
    queue: &Queue,
    meter: &mut Meter,
    look: impl Fn(&[answerable_ports::Claimed]) -> T,
) -> (i64, T) {
    let before = meter.read().await;
    let claimed = claims(&queue.server(), PLACES).await;
    assert_eq!(claimed.len(), PLACES);
    (meter.read().await - before, look(&claimed))
}

#[tokio::test]
async fn a_claim_beside_twenty_thousand_reads_what_it_reads_beside_two_hundred() {
    let (_, _, few) = claimed_beside(200).await;
    let (queue, mut meter, many) = claimed_beside(20_000).await;
    assert!(few > 0, "nothing is counted");
    assert!(many <= few + MORE, "{many} rows were read, and {few} beside two hundred");
    // A claim that looks at all that waits would be seen.
    let mut su = PgConnection::connect(queue.world.url()).await.expect("a connection");
    sqlx::query("DROP INDEX run_queue_ready").execute(&mut su).await.expect("dropped");
    let (scanning, ()) = read_by_a_claim(&queue, &mut meter, |_| ()).await;
    assert!(scanning > 10_000, "{scanning} rows were read without the index");
}
