//! The database is away at the start, goes away later, and comes back.

use std::sync::Arc;
use std::time::Duration;

use answerable_devdb::{Options, PrivatePostgres};
use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tempfile::TempDir;
use tokio::task::spawn_blocking;
use uuid::Uuid;

use crate::harness::{Fits, Server, With, World};
use crate::logs::line;

/// A PostgreSQL that can be stopped and started again at the same place.
struct Postgres {
    folder: TempDir,
    running: Option<PrivatePostgres>,
}

impl Postgres {
    async fn start() -> Self {
        let folder =
            tempfile::Builder::new().prefix("answerable-away-").tempdir_in("/tmp").expect("a folder");
        let mut postgres = Self { folder, running: None };
        postgres.start_again().await;
        postgres.running().create_database("away").expect("a database");
        postgres
    }

    fn running(&self) -> &PrivatePostgres {
        self.running.as_ref().expect("it runs")
    }

    async fn start_again(&mut self) {
        let data_dir = self.folder.path().to_owned();
        let options = Options { data_dir, bin_dir: None, fsync: false, max_connections: 60 };
        let started = spawn_blocking(move || PrivatePostgres::start(options)).await.expect("no panic");
        self.running = Some(started.expect("PostgreSQL"));
    }

    async fn stop(&mut self) {
        let running = self.running.take().expect("it runs");
        spawn_blocking(move || running.stop()).await.expect("no panic").expect("a clean end");
    }
}

#[tokio::test]
async fn a_server_waits_for_its_database() {
    let mut postgres = Postgres::start().await;
    let url = postgres.running().url("away");
    postgres.stop().await;
    let server = Server::launch(&url, &[]);
    server.readiness(503).await;
    server.stranger().get("/healthz").await.ok();
    let answer = server.operator().get("/v1/tenants").await;
    answer.refused(503, "unavailable");
    postgres.start_again().await;
    server.ready().await;
    server.operator().get("/v1/tenants").await.fits(&json!({"data": []}));
    server.stop().await;
}

#[tokio::test]
async fn a_database_that_goes_away_costs_nothing_but_time() {
    let mut postgres = Postgres::start().await;
    let server =
        Server::start_with(&postgres.running().url("away"), &[("ANSWERABLE_LOG_FORMAT", "json")]).await;
    let world = World::on(Arc::new(server), None).await;
    world.tools.script("look", [ToolAnswer::text("seen").held(), ToolAnswer::text("seen")]);
    world.model.script("m", [ModelReply::calls([("look", json!({}))]), ModelReply::text("Seen.")]);
    world.model.script("m", [ModelReply::text("Another.")]);
    let agent = world.agent(&[world.read("look")]);
    let run = world.start(&agent).await;
    world.tools.reached("look", 1).await;
    postgres.stop().await;
    world.tools.release("look");
    world.server.readiness(503).await;
    world.server.stranger().get("/healthz").await.ok();
    let body = json!({"agent": agent, "input": "go"});
    for answer in [world.client.get(&run.path("")).await, world.client.post("/v1/runs", &body).await] {
        assert!(answer.header("retry-after").is_some(), "{answer}");
        let problem = answer.refused(503, "unavailable").to_string();
        for word in ["SELECT", "sqlx", "socket", "postgres"] {
            assert!(!problem.contains(word), "{problem}");
        }
    }
    // Whoever reads the log knows which run it was.
    let lost = line(&world, "the lease is lost").await;
    lost.fits(&json!({"level": "INFO", "run_id": run.id, "trace_id": "*"}));
    // A scrape asks the database nothing.
    let metrics = world.server.stranger().get("/metrics").await.text;
    for name in
        ["answerable_queue_depth 0", "answerable_gauges_age_seconds ", "answerable_commit_failures_total "]
    {
        assert!(metrics.lines().any(|line| line.starts_with(name)), "{name} is not in\n{metrics}");
    }
    // Longer than a lease, so that whoever comes back first finds it run out.
    tokio::time::sleep(Duration::from_millis(1700)).await;
    postgres.start_again().await;
    world.server.ready().await;
    run.ended().await.fits(&json!({"status": "finished", "final_answer": "Seen."}));
    run.list("ledger").await.fits(&json!([{"status": "succeeded", "side_effect": "none"}]));
    world.start(&agent).await.ended().await.fits(&json!({"final_answer": "Another."}));
    world.client.get("/v1/runs").await.fits(&json!({"data": {"$len": 2}}));
    world.server.stop().await;
}

#[tokio::test]
async fn of_many_decisions_none_is_kept_when_the_database_fails_at_one() {
    let world = World::alone().await;
    let agent = world.agent(&[world.write("pay").with(json!({"risk": "high"}))]);
    let mut asked = Vec::new();
    for _ in 0..2 {
        world.model.script("m", [ModelReply::calls([("pay", json!({}))])]);
        asked.push(world.start(&agent).await.pending().await);
    }
    let second: Uuid = asked[1].rsplit('_').next().and_then(|id| id.parse().ok()).expect("an id");
    let fail = format!(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'too long' USING ERRCODE = '57014'; END $$;
         CREATE TRIGGER fail BEFORE UPDATE ON approvals FOR EACH ROW WHEN (OLD.approval_id = '{second}')
             EXECUTE FUNCTION fail()"
    );
    let mut owner = PgConnection::connect(world.database_url()).await.expect("a connection");
    sqlx::raw_sql(AssertSqlSafe(fail)).execute(&mut owner).await.expect("a trigger");
    let decide = |id: &String| json!({"approval_id": id, "decision": "deny"});
    let body = json!({"decisions": asked.iter().map(decide).collect::<Vec<_>>()});
    world.client.post("/v1/approvals/decisions", &body).await.refused(503, "unavailable");
    for approval in &asked {
        let now = world.client.get(&format!("/v1/approvals/{approval}")).await.ok();
        now.fits(&json!({"status": "pending", "votes": []}));
    }
}
