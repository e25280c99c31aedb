//! Whatever goes wrong around an approval, the call doesn't run: time that is over, deciders who are gone, clocks that jump,
//! servers that die, and versions that change.

use std::time::Duration;

use answerable_testkit::{ModelReply, TestDatabase, WebhookReceiver};
use serde_json::{Map, Value, json};
use sqlx::{Connection, PgConnection};
use tokio::time::sleep;

use crate::harness::{Client, Fits, Run, Server, With, World, rules, until};

/// A state of version 4 with everything in it that there was.
const VERSION_4: &str = include_str!("../../crates/core/src/run/samples/state_v4.json");
/// Time that people have, in milliseconds: more than any machine needs, so that it is over when a test says so.
const HOUR_MS: u64 = 3_600_000;
/// Time that people have by a clock that stands still, in milliseconds: it is soon over by any other.
const SOON_MS: u64 = 500;

/// A run that asks before it pays 5, and at once before it pays 6; the second payment waits for the first in any case.
async fn asks_twice<'w>(world: &'w World, policy: Value) -> Run<'w> {
    let calls = [5, 6].map(|n| ("pay", json!({"amount": n})));
    world.model.script("m", [ModelReply::calls(calls), ModelReply::text("So be it.")]);
    let pay = world.write("pay").with(json!({"risk": "high"}));
    let run = world.start(&world.agent(&[pay]).with(policy)).await;
    run.when("both approvals", |run| run["pending_approvals"].as_array().is_some_and(|open| open.len() == 2))
        .await;
    run
}

/// Rules by which people have so long to decide on a payment.
fn expiring(expires_ms: u64) -> Value {
    rules(&[json!({"tool": "pay", "effect": "ask", "expires_ms": expires_ms})])
}

/// The path of the decision on a run's approval.
async fn decision(run: &Run<'_>, n: usize) -> String {
    let approvals = run.list("approvals").await;
    format!("/v1/approvals/{}/decision", approvals[n]["id"].as_str().expect("an id"))
}

async fn approve(client: &Client, path: &str) {
    client.post(path, &json!({"decision": "approve"})).await.fits(&json!({"status": "approved"}));
}

/// What reached the tool.
fn paid(world: &World) -> Vec<Value> {
    world.tools.requests("pay").iter().map(|request| request.json()["amount"].clone()).collect()
}

/// A new key of the world's tenant, and its path.
async fn decider(world: &World) -> (Client, String) {
    let path = format!("/v1/tenants/{}/keys", world.tenant);
    let body = json!({"name": "k", "scopes": ["approvals:decide"]});
    let key = world.server.operator().post(&path, &body).await.is(201);
    let text = |name: &str| key[name].as_str().expect("a text").to_owned();
    (world.client.with_key(&text("secret")), format!("{path}/{}", text("id")))
}

#[tokio::test]
async fn time_that_was_over_while_no_server_was_there() {
    let (world, mut owner) = clock_world().await;
    let receiver = WebhookReceiver::start().await.expect("a receiver");
    let hook = json!({"url": receiver.url(), "events": ["approval.requested"]});
    world.client.post("/v1/webhooks", &hook).await.is(201);
    let run = asks_twice(&world, expiring(HOUR_MS)).await;
    let told = receiver.first_of("approval.requested").await.json();
    let url = told["data"]["decision_url"].as_str().expect("a link").to_owned();
    let link = url.strip_prefix(world.server.url()).expect("a link of this server").to_owned();
    let path = decision(&run, 0).await;
    world.server.kill();
    set_clock(&mut owner, 2).await;
    world.server.start_again().await;
    // Whether anybody has seen to the expiry by now or not.
    let yes = json!({"decision": "approve"});
    world.client.post(&path, &yes).await.refused(410, "expired");
    world.server.stranger().post(&link, &yes).await.refused(410, "expired");
    run.ended().await.fits(&json!({"status": "finished", "denied": {"$len": 2}}));
    run.list("approvals").await.fits(&json!([{"status": "expired"}, {"status": "expired"}]));
    world.server.stranger().post(&link, &yes).await.refused(410, "expired");
    assert_eq!(paid(&world), [0; 0]);
}

#[tokio::test]
async fn votes_of_deciders_who_are_gone() {
    let world = World::shared().await;
    let run = asks_twice(&world, rules(&[json!({"tool": "pay", "effect": "ask", "approvals": 2})])).await;
    let (gone, key) = decider(&world).await;
    let path = decision(&run, 0).await;
    let yes = json!({"decision": "approve"});
    gone.post(&path, &yes).await.fits(&json!({"status": "pending", "votes": {"$len": 1}}));
    world.server.operator().delete(&key).await.is(204);
    world
        .client
        .post(&path, &yes)
        .await
        .fits(&json!({"status": "pending", "required": 2, "votes": {"$len": 2}}));
    assert_eq!(paid(&world), [0; 0]);
    let (other, _) = decider(&world).await;
    approve(&other, &path).await;
    world.tools.reached("pay", 1).await;
    run.deny("one is enough").await;
    run.ended().await.fits(&json!({"status": "finished", "denied": {"$len": 1}}));
    assert_eq!(paid(&world), [5]);
}

#[tokio::test]
async fn an_approval_whose_giver_is_gone_before_it_is_used() {
    let world = World::shared().await;
    let run = asks_twice(&world, json!({})).await;
    let (gone, key) = decider(&world).await;
    approve(&gone, &decision(&run, 1).await).await;
    world.server.operator().delete(&key).await.is(204);
    approve(&world.client, &decision(&run, 0).await).await;
    // People are asked anew.
    run.when("a third approval", |run| run["pending_approvals"][0]["input"] == json!({"amount": 6})).await;
    run.list("approvals").await.fits(&json!([
        {"used_at": "*", "voided_at": null},
        {"status": "approved", "used_at": null, "voided_at": "*", "void_reason": "*"},
        {"status": "pending", "input": {"amount": 6}},
    ]));
    run.deny("no").await;
    run.ended().await.fits(&json!({"status": "finished", "denied": {"$len": 1}}));
    assert_eq!(paid(&world), [5]);
}

#[tokio::test]
async fn an_approval_that_was_given_before_a_crash() {
    for (closed, expected) in [(false, vec![5, 6]), (true, vec![5])] {
        let world = World::alone().await;
        let run = asks_twice(&world, json!({})).await;
        approve(&world.client, &decision(&run, 1).await).await;
        world.server.crash().await;
        if closed {
            let over = json!({"required": ["amount"], "properties": {"amount": {"minimum": 6}}});
            let deny = json!({"tool": "pay", "effect": "deny", "reason": "closed", "input": over});
            world.client.put("/v1/policy", &json!({"rules": [deny]})).await.ok();
            world.server.crash().await;
        }
        approve(&world.client, &decision(&run, 0).await).await;
        run.ended().await.fits(&json!({"status": "finished", "denied": {"$len": 2 - expected.len()}}));
        let second =
            if closed { json!({"used_at": null, "voided_at": "*"}) } else { json!({"used_at": "*"}) };
        run.list("approvals").await.fits(&json!([{"used_at": "*"}, second]));
        assert_eq!(paid(&world), expected);
    }
}

/// Functions of the time that stand before PostgreSQL's own, and can be set and stopped.
const CLOCK: &str = "
    CREATE SCHEMA clock;
    CREATE TABLE clock.set (ahead interval NOT NULL, stopped timestamptz);
    INSERT INTO clock.set VALUES ('0', NULL);
    CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
        AS 'SELECT coalesce(stopped, pg_catalog.clock_timestamp()) + ahead FROM clock.set';
    CREATE FUNCTION clock.now() RETURNS timestamptz LANGUAGE sql STABLE
        AS 'SELECT coalesce(stopped, pg_catalog.now()) + ahead FROM clock.set';
    GRANT USAGE ON SCHEMA clock TO PUBLIC;
    GRANT SELECT ON clock.set TO PUBLIC;
    DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, clock, pg_catalog', current_database()); END $$;";

/// A world whose database's clock can be set, and the connection that does it.
async fn clock_world() -> (World, PgConnection) {
    let database = TestDatabase::create().await.expect("a database");
    let mut owner = PgConnection::connect(&database.url).await.expect("a connection");
    sqlx::raw_sql(CLOCK).execute(&mut owner).await.expect("a clock");
    let server = Server::start(&database).await;
    (World::on(server.into(), Some(database)).await, owner)
}

async fn set_clock(owner: &mut PgConnection, hours: i32) {
    sqlx::query("UPDATE clock.set SET ahead = make_interval(hours => $1)")
        .bind(hours)
        .execute(owner)
        .await
        .expect("it is set");
}

#[tokio::test]
async fn a_clock_that_jumps() {
    let (world, mut owner) = clock_world().await;
    let run = asks_twice(&world, expiring(HOUR_MS)).await;
    let first = decision(&run, 0).await;
    let yes = json!({"decision": "approve"});
    // Given in time, and then its time is over before it is used.
    approve(&world.client, &decision(&run, 1).await).await;
    set_clock(&mut owner, 3).await;
    world.client.post(&first, &yes).await.refused(410, "expired");
    run.ended().await.fits(&json!({"status": "finished", "denied": {"$len": 2}}));
    // Set back, it opens nothing that was shut.
    set_clock(&mut owner, 0).await;
    world.client.post(&first, &yes).await.refused(410, "expired");
    run.list("approvals").await.fits(&json!([
        {"status": "expired", "used_at": null}, {"status": "approved", "used_at": null, "voided_at": "*"},
    ]));
    assert_eq!(paid(&world), [0; 0]);
}

#[tokio::test]
async fn a_clock_that_is_set_back() {
    let (world, mut owner) = clock_world().await;
    // It stands still, so that no machine is too slow for the little time that people have.
    let stop = "UPDATE clock.set SET stopped = pg_catalog.clock_timestamp()";
    sqlx::query(stop).execute(&mut owner).await.expect("it stops");
    let run = asks_twice(&world, expiring(SOON_MS)).await;
    // Their time begins anew by the clock, and no other one ends it.
    set_clock(&mut owner, -1).await;
    sleep(Duration::from_millis(2 * SOON_MS)).await;
    run.list("approvals").await.fits(&json!([{"status": "pending"}, {"status": "pending"}]));
    assert_eq!(paid(&world), [0; 0]);
    run.cancel().await;
    // Spans of such a run end before they begin, so not all that holds of traces is asked for.
    run.when("the end", |run| run["status"] == "cancelled").await;
    let late = world.client.post(&decision(&run, 0).await, &json!({"decision": "approve"}));
    late.await.refused(410, "expired");
    assert_eq!(paid(&world), [0; 0]);
}

/// Takes all from a waiting run that version 4 did not know of it, as if a server of then had left it so.
async fn make_old(world: &World, run: &Run<'_>) {
    let id: uuid::Uuid = run.id.trim_start_matches("run_").parse().expect("an id");
    let mut database = PgConnection::connect(world.database_url()).await.expect("a connection");
    let state: String = sqlx::query_scalar("SELECT state::text FROM run_states WHERE run_id = $1")
        .bind(id)
        .fetch_one(&mut database)
        .await
        .expect("a state");
    let old: Value = serde_json::from_str(VERSION_4).expect("JSON");
    let mut state: Value = serde_json::from_str(&state).expect("JSON");
    assert_eq!(state["version"], 5, "what waits for people has the newest version");
    let known_of_calls: Vec<&Map<String, Value>> = of_calls(&old);
    for call in state["calls"].as_array_mut().into_iter().flatten() {
        let call = call.as_object_mut().expect("an object");
        call.retain(|name, _| known_of_calls.iter().any(|known| known.contains_key(name)));
    }
    let fields = state.as_object_mut().expect("an object");
    fields.retain(|name, _| old.get(name).is_some());
    fields.insert("version".to_owned(), json!(4));
    for statement in [
        "UPDATE run_states SET state = $2::text::json WHERE run_id = $1",
        "UPDATE run_queue SET needs = 4 WHERE run_id = $1 AND $2 <> ''",
        "UPDATE runs SET creators = '{}' WHERE run_id = $1 AND $2 <> ''",
        "UPDATE approvals SET approved_hash = NULL, tool_version = NULL WHERE run_id = $1 AND $2 <> ''",
    ] {
        let asked = sqlx::query(statement).bind(id).bind(state.to_string());
        asked.execute(&mut database).await.expect("it is written");
    }
}

fn of_calls(state: &Value) -> Vec<&Map<String, Value>> {
    state["calls"].as_array().into_iter().flatten().filter_map(Value::as_object).collect()
}

#[tokio::test]
async fn an_upgrade_while_people_are_asked() {
    for (word, expected) in [("approve", vec![5, 6]), ("deny", vec![6])] {
        let world = World::alone().await;
        let run = asks_twice(&world, json!({})).await;
        approve(&world.client, &decision(&run, 1).await).await;
        // The decision is taken in before the server of then ends.
        let taken = "SELECT count(*) = 0 FROM inbox WHERE run_id = $1";
        until("it is taken in", async || world.sql::<bool>(taken, &run.id).await == Some(true)).await;
        world.server.stop().await;
        make_old(&world, &run).await;
        world.server.start_again().await;
        world.client.post(&decision(&run, 0).await, &json!({"decision": word})).await.ok();
        run.ended().await.fits(&json!({"status": "finished", "denied": {"$len": 2 - expected.len()}}));
        assert_eq!(paid(&world), expected);
    }
}

#[tokio::test]
async fn an_upgrade_and_rules_that_deny_what_was_approved_before() {
    let world = World::alone().await;
    let run = asks_twice(&world, json!({})).await;
    approve(&world.client, &decision(&run, 1).await).await;
    world.server.stop().await;
    make_old(&world, &run).await;
    world.server.start_again().await;
    let deny = json!({"rules": [{"tool": "pay", "effect": "deny", "reason": "closed"}]});
    world.client.put("/v1/policy", &deny).await.ok();
    let answer = run.decide(&json!({"decision": "approve"})).await;
    assert!(matches!(answer.status, 200 | 422), "{answer}");
    run.ended().await.fits(&json!({"status": "finished", "denied": {"$len": 2}}));
    assert_eq!(paid(&world), [0; 0]);
}
