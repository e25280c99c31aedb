//! A database whose owner is no superuser, as most services are given.

use std::sync::Arc;

use answerable_devdb::{Options, PrivatePostgres};
use answerable_testkit::ModelReply;
use serde_json::json;
use sqlx::{Connection, PgConnection};
use tokio::task::spawn_blocking;

use crate::harness::{Fits, Server, World};

#[tokio::test]
async fn an_owner_who_may_make_roles_is_enough() {
    let folder = tempfile::Builder::new().prefix("answerable-owner-").tempdir_in("/tmp").expect("a folder");
    let data_dir = folder.path().to_owned();
    let options = Options { data_dir, bin_dir: None, fsync: false, max_connections: 60 };
    let postgres = spawn_blocking(move || PrivatePostgres::start(options)).await.expect("no panic");
    let postgres = postgres.expect("PostgreSQL");
    let mut superuser = PgConnection::connect(&postgres.url("postgres")).await.expect("a connection");
    for statement in [
        "CREATE ROLE shop LOGIN CREATEROLE NOSUPERUSER",
        "CREATE DATABASE shop OWNER shop TEMPLATE template0",
    ] {
        sqlx::raw_sql(statement).execute(&mut superuser).await.expect(statement);
    }
    superuser.close().await.expect("the end");
    let url = postgres.url("shop").replacen("postgres@", "shop@", 1);
    let server = Server::start_with(&url, &[]).await;
    let world = World::on(Arc::new(server), None).await;
    world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("Paid.")]);
    let run = world.start(&world.agent(&[world.write("pay")])).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    // Nothing but the deletion of its tenant takes a record of who did what away, whoever owns the tables.
    let (brief, client) = world.neighbour(&json!({})).await;
    client.get("/v1/audit").await.fits(&json!({"data": [{"action": "provider.put"}, {}, {}]}));
    world.server.operator().delete(&format!("/v1/tenants/{brief}")).await.is(204);
    let own = world.server.operator().get("/v1/tenants/audit?limit=1").await;
    own.fits(
        &json!({"data": [{"action": "tenant.delete", "target": {"id": brief}, "detail": {"audit_seq": 3}}]}),
    );
    world.server.crash().await;
    run.now().await.fits(&json!({"status": "finished"}));
    // The owner takes away what is old as well, although no table of a tenant shows it a row. Alone: a server that has just
    // started might do it first.
    world.server.stop().await;
    let mut owner = PgConnection::connect(&url).await.expect("a connection");
    for statement in [
        "CREATE TABLE journal_2020w01 PARTITION OF journal
         FOR VALUES FROM ('016f5e60-0000-0000-0000-000000000000') TO ('016f8268-0000-0000-0000-000000000000')",
        "SET ROLE answerable_system",
        "INSERT INTO idempotency_keys (tenant_id, route, key, request_hash, created_at)
         VALUES (gen_random_uuid(), 'r', 'k', '', now() - interval '2 days')",
    ] {
        sqlx::raw_sql(statement).execute(&mut owner).await.expect(statement);
    }
    let output = world.server.command(&["prune", "--keep-runs-days", "1"]).await;
    let words =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    for line in ["  runs: 0\n", "  journal partitions: 1\n", "  idempotency keys: 1\n"] {
        assert!(output.status.success() && words.contains(line), "{words}");
    }
    world.server.start_again().await;
    run.now().await.fits(&json!({"status": "finished"}));
    world.server.stop().await;
}
