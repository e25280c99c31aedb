//! A rolling upgrade: servers of an older version and of this one share a database.
//!
//! Two of the tests need the program of an older version, which `make rolling` builds and names in `ANSWERABLE_OLD_BINARY`.

use std::path::PathBuf;
use std::sync::Arc;

use answerable_testkit::{ModelReply, TestDatabase, ToolAnswer};
use serde_json::json;
use sqlx::{Connection, PgConnection};

use crate::harness::{Fits, Run, Server, With, World, client_tool};

fn old_program() -> PathBuf {
    std::env::var_os("ANSWERABLE_OLD_BINARY").expect("ANSWERABLE_OLD_BINARY names an older program").into()
}

async fn old_world() -> World {
    let database = TestDatabase::empty().await.expect("a database");
    let server = Server::start_of(&old_program(), &database).await;
    World::on(Arc::new(server), Some(database)).await
}

#[tokio::test]
#[ignore = "make rolling: it needs an older program"]
async fn runs_of_an_older_server_go_on_at_a_newer_one() {
    let world = old_world().await;
    let tools = [
        world.write("pay").with(json!({"risk": "high", "idempotent": true})),
        client_tool("ask_user"),
        world.write("ship"),
    ];
    let agent = |model: &str| world.agent(&tools).with(json!({"model": {"model": model}}));
    world
        .model
        .script("asks", [ModelReply::calls([("pay", json!({"amount": 5}))]), ModelReply::text("Paid.")]);
    world.model.script("client", [ModelReply::calls([("ask_user", json!({}))]), ModelReply::text("Told.")]);
    world.model.script("dies", [ModelReply::text("too late").held(), ModelReply::text("Asked again.")]);
    world.tools.script("ship", [ToolAnswer::cut()]);
    world.model.script("unclear", [ModelReply::calls([("ship", json!({"to": "Ann"}))])]);
    let asks = world.start(&agent("asks")).await;
    let client = world.start(&agent("client")).await;
    let unclear = world.start(&agent("unclear")).await;
    asks.waiting().await;
    client.waiting().await;
    unclear.ended().await.fits(&json!({"stop_reason": "side_effect_uncertain"}));
    let dies = world.start(&agent("dies")).await;
    world.model.requests_reached(4).await;

    let newer = world.server.beside_of(&this_program()).await;
    let at_newer = world.client.at(newer.url());
    // Decided at the one, whoever drives it.
    asks.through(&at_newer).approve().await;
    asks.ended().await.fits(&json!({"final_answer": "Paid."}));
    let call = client.open_call().await;
    client.submit(&call, "size M").await.ok();
    client.through(&at_newer).ended().await.fits(&json!({"final_answer": "Told."}));
    // The older one dies in the midst of it.
    world.server.kill();
    dies.through(&at_newer).ended().await.fits(&json!({"final_answer": "Asked again.", "attempt": 2}));
    assert_eq!(world.tools.effects("pay"), 1);

    // What ended at the older one is continued at the newer one: the older knows nothing of that.
    world.model.script("unclear", [ModelReply::calls([("ship", json!({"to": "Ann"}))])]);
    let body = json!({"input": "ship it"});
    let heir = at_newer.post(&unclear.path("/continue"), &body).await.is(201);
    let heir = Run::new(&world, heir["id"].as_str().expect("an id")).through(&at_newer);
    heir.ended().await.fits(&json!({"stop_reason": "side_effect_uncertain"}));
    assert_eq!(world.tools.requests("ship").len(), 1);
}

#[tokio::test]
#[ignore = "make rolling: it needs an older program"]
async fn an_older_server_works_on_a_newer_schema() {
    let world = old_world().await;
    let newer = world.server.beside_of(&this_program()).await;
    // The upgrade is taken back: the older one stayed.
    newer.stop().await;
    world.tools.script("pay", [ToolAnswer::default()]);
    world.model.script("m", [ModelReply::calls([("pay", json!({"amount": 5}))]), ModelReply::text("Paid.")]);
    let run = world.start(&world.agent(&[world.write("pay").with(json!({"risk": "high"}))])).await;
    run.approve().await;
    run.ended().await.fits(&json!({"final_answer": "Paid.", "budgets": {"used": {"tool_calls": 1}}}));
    run.list("ledger").await.fits(&json!([{"status": "succeeded"}]));
    assert_eq!(world.tools.effects("pay"), 1);
}

fn this_program() -> PathBuf {
    crate::harness::binary().to_owned()
}

#[tokio::test]
async fn a_server_starts_on_the_schema_of_a_newer_one() {
    let database = TestDatabase::create().await.expect("a database");
    let mut owner = PgConnection::connect(&database.url).await.expect("a connection");
    let newer =
        "INSERT INTO _sqlx_migrations (version, description, installed_on, success, checksum, execution_time)
        VALUES (9999, 'of a newer version', now(), true, '\\x00', 1)";
    sqlx::raw_sql(newer).execute(&mut owner).await.expect("written");
    let server = Server::start(&database).await;
    let world = World::on(Arc::new(server), Some(database)).await;
    world.model.script("m", [ModelReply::text("Ready.")]);
    world.start(&world.agent(&[])).await.ended().await.fits(&json!({"status": "finished"}));
}
