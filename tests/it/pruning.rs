//! What is older than is to be kept goes, at once by a command or by itself.

use std::process::Output;
use std::sync::Arc;
use std::time::{Duration, Instant};

use answerable_testkit::{ModelReply, TestDatabase};
use serde_json::json;
use sqlx::{Connection as _, PgConnection};

use crate::harness::{Fits, Run, Server, World};

async fn connect(world: &World) -> PgConnection {
    PgConnection::connect(world.database_url()).await.expect("a connection")
}

/// A run that ended so many days ago.
async fn old_run(world: &World, days: i32) -> Run<'_> {
    world.model.script("m", [ModelReply::text("Done.")]);
    let run = world.start(&world.agent(&[])).await;
    run.ended().await;
    let age = "UPDATE runs SET finished_at = now() - make_interval(days => $2) WHERE run_id::text = $1";
    let id = run.id.trim_start_matches("run_");
    sqlx::query(age).bind(id).bind(days).execute(&mut connect(world).await).await.expect("aged");
    run
}

/// The partitions of a week a long time ago, in which nothing is.
async fn old_week(world: &World) {
    for parent in ["events", "journal"] {
        let create = format!(
            "CREATE TABLE {parent}_2020w01 PARTITION OF {parent}
             FOR VALUES FROM ('016f5e60-0000-0000-0000-000000000000') TO ('016f8268-0000-0000-0000-000000000000')"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(create)).execute(&mut connect(world).await).await.expect("a week");
    }
}

fn said(output: &Output) -> String {
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{words}{}", String::from_utf8_lossy(&output.stderr));
    words
}

#[tokio::test]
async fn the_command_counts_and_then_takes_away() {
    let world = World::alone().await;
    let (old, young) = (old_run(&world, 10).await, old_run(&world, 1).await);
    old_week(&world).await;
    let usage = world.client.get("/v1/usage").await.ok();
    let prune = ["prune", "--keep-runs-days", "5"];
    let dry = said(&world.server.command(&[&prune[..], &["--dry-run"]].concat()).await);
    for line in ["Would go:", "  runs: 1\n", "  journal partitions: 1\n", "  event partitions: 1\n"] {
        assert!(dry.contains(line), "{line:?} is not in {dry}");
    }
    old.now().await.fits(&json!({"status": "finished"}));
    assert_eq!(said(&world.server.command(&prune).await), dry.replace("Would go:", "Gone:"));
    world.client.get(&old.path("")).await.refused(404, "not_found");
    young.now().await.fits(&json!({"status": "finished"}));
    assert_eq!(world.client.get("/v1/usage").await.ok(), usage);
    let again = said(&world.server.command(&prune).await);
    assert!(again.lines().skip(1).all(|line| line.ends_with(": 0")), "{again}");
    // Without a limit runs stay until somebody deletes them.
    let kept = said(&world.server.command(&["prune", "--keep-journal-days", "1"]).await);
    assert!(kept.contains("  runs: 0\n"), "{kept}");
    world.model.script("m", [ModelReply::text("Still here.")]);
    world.start(&world.agent(&[])).await.ended().await;
}

#[tokio::test]
async fn one_prunes_at_a_time() {
    let world = World::alone().await;
    let mut other = connect(&world).await;
    let lock = "SELECT pg_advisory_lock(x'616e73777072756e'::bigint)";
    sqlx::query(lock).execute(&mut other).await.expect("locked");
    let output = world.server.command(&["prune"]).await;
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("a server is pruning at the moment"), "{words}");
    other.close().await.expect("closed");
    said(&world.server.command(&["prune"]).await);
}

#[tokio::test]
async fn a_server_does_it_by_itself() {
    let database = TestDatabase::create().await.expect("a database");
    let server = Server::start_with(&database.url, &[("ANSWERABLE_KEEP_RUNS_DAYS", "5")]).await;
    let world = World::on(Arc::new(server), Some(database)).await;
    let (old, young) = (old_run(&world, 10).await, old_run(&world, 1).await);
    old_week(&world).await;
    // At its start and about every hour.
    world.server.crash().await;
    let deadline = Instant::now() + Duration::from_secs(20);
    while world.client.get(&old.path("")).await.status != 404 {
        assert!(Instant::now() < deadline, "it stays");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let left = "SELECT count(*) FROM pg_class WHERE relname IN ('events_2020w01', 'journal_2020w01') AND $1::uuid IS NOT NULL";
    while world.sql::<i64>(left, &old.id).await != Some(0) {
        assert!(Instant::now() < deadline, "the old week stays");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    young.now().await.fits(&json!({"status": "finished"}));
}

#[tokio::test]
async fn a_limit_that_is_none_stops_the_command() {
    let world = World::alone().await;
    for (flag, days) in [("--keep-runs-days", "0"), ("--keep-journal-days", "0"), ("--keep-runs-days", "-1")]
    {
        let output = world.server.command(&["prune", flag, days]).await;
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(words.contains(flag) && words.contains("from 1 to 3650"), "{words}");
    }
}
