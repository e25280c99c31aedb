//! A rolling upgrade: servers of an older version and of this one share a database.
//!
//! Three of the tests need the program of an older version, which `make rolling` builds and names in `ANSWERABLE_OLD_BINARY`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use answerable_testkit::{ModelReply, TestDatabase, ToolAnswer};
use futures::future::join_all;
use serde_json::json;
use sqlx::{Connection, PgConnection};

use crate::harness::{Client, Fits, Run, Server, With, World, client_tool, until};

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

/// Run number `n` of a tenant with two places. Every other one has a line of its tenant's own, and is accepted at the newer
/// server: over both, a line is not sure to be kept while it is being joined.
async fn crowd<'w>(world: &'w World, of: &str, client: &Client, newer: &Server, n: usize) -> Run<'w> {
    let (model, look, alone) = (format!("{of}{n}"), format!("look_{of}"), format!("alone_{of}"));
    let is_in_line = n.is_multiple_of(2);
    let mut calls = vec![(look.as_str(), json!({}))];
    if is_in_line {
        calls.push((&alone, json!({})));
    }
    world.model.script(&model, [ModelReply::calls(calls), ModelReply::text("Done.")]);
    let tools = [&look, &alone].map(|tool| world.read(tool).with(json!({"parallel_safe": true})));
    let agent = world.agent(&tools).with(json!({"model": {"model": model}}));
    let body = json!({"agent": agent, "input": "go"});
    let run = if is_in_line {
        client.at(newer.url()).post("/v1/runs", &body.with(json!({"concurrency_key": "line"}))).await
    } else {
        client.post("/v1/runs", &body).await
    };
    world.run(&run.is(201)).through(&client.at(newer.url()))
}

#[tokio::test]
#[ignore = "make rolling: it needs an older program"]
async fn servers_of_both_versions_keep_to_the_places_and_lines_of_each_tenant() {
    let world = old_world().await;
    let newer = world.server.beside_of(&this_program()).await;
    let places = json!({"max_concurrent_runs": 2});
    let tenant = format!("/v1/tenants/{}", world.tenant);
    world.server.operator().patch(&tenant, &json!({"quotas": places})).await.ok();
    let (_, neighbour) = world.neighbour(&places).await;
    let tenants = [("a", &world.client), ("b", &neighbour)];
    for (of, _) in tenants {
        for tool in ["look", "alone"] {
            let late = ToolAnswer::text("seen").delayed(Duration::from_millis(150));
            world.tools.script(&format!("{tool}_{of}"), [late]);
        }
    }
    let made = (0..40).map(|n| {
        let (of, client) = tenants[n % 2];
        crowd(&world, of, client, &newer, n / 2)
    });
    let runs = join_all(made).await;
    let mut seen = BTreeSet::new();
    let owners = "SELECT coalesce(string_agg(DISTINCT lease_owner::text, ' '), '') FROM run_queue WHERE $1::uuid IS NOT NULL";
    until("both servers work", async || {
        let owners = world.sql::<String>(owners, &runs[0].id).await;
        seen.extend(owners.unwrap_or_default().split(' ').filter(|id| !id.is_empty()).map(str::to_owned));
        seen.len() == 2
    })
    .await;
    for ended in join_all(runs.iter().map(Run::ended)).await {
        ended.fits(&json!({"status": "finished", "attempt": 1}));
    }
    for (of, _) in tenants {
        let (look, alone) = (format!("look_{of}"), format!("alone_{of}"));
        assert_eq!((world.tools.requests(&look).len(), world.tools.requests(&alone).len()), (20, 10));
        assert_eq!((world.tools.at_once(&look), world.tools.at_once(&alone)), (2, 1), "of {of}");
    }
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
