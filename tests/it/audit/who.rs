//! Who is named, and who may read it.

use answerable_testkit::{ModelReply, WebhookReceiver};
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use super::{entries, entries_after};
use crate::harness::{Fits, With, World, until};

#[tokio::test]
async fn an_entry_names_key_user_and_place() {
    let world = World::shared().await;
    let put = world.client.put("/v1/secrets/shop", &json!({"value": "x"}));
    let put = put.header("x-acting-user", "ann").header("x-forwarded-for", "192.0.2.1, 192.0.2.2");
    put.header("user-agent", "desk/1").header("x-request-id", "order-77").await.ok();
    // A key that may not speak for others is itself, whatever it says.
    let writer = world.key(&["agents:write"]).await;
    writer.post("/v1/agents", &world.agent(&[])).header("x-acting-user", "ann").await.is(201);
    let all = entries(&world.client).await;
    let [.., put, _, agent] = &all[..] else { panic!("{all:?}") };
    put.fits(&json!({
        "id": "~aud_", "tenant_id": world.tenant, "action": "secret.put",
        "actor": {"kind": "key", "key_id": "~key_", "user": "ann"},
        "target": {"type": "secret", "id": "shop"},
        "from": {"address": "127.0.0.1", "forwarded_for": "192.0.2.1, 192.0.2.2", "user_agent": "desk/1",
            "request_id": "order-77"},
    }));
    agent.fits(&json!({"action": "agent.create", "actor": {"kind": "key", "user": null}}));
    assert_ne!(agent["actor"]["key_id"], put["actor"]["key_id"]);
}

#[tokio::test]
async fn whoever_has_a_link_is_known_by_that_and_by_their_place() {
    let world = World::shared().await;
    let receiver = WebhookReceiver::start().await.expect("a receiver");
    let hook = json!({"url": receiver.url(), "events": ["approval.requested"]});
    world.client.post("/v1/webhooks", &hook).await.is(201);
    for form in [false, true] {
        world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("Done.")]);
        let run = world.start(&world.agent(&[world.write("pay").with(json!({"risk": "high"}))])).await;
        let approval = run.pending().await;
        let of_run = |told: &Value| told["data"]["approval"]["run_id"] == *run.id;
        receiver.received(if form { 2 } else { 1 }).await;
        let told: Vec<Value> = receiver.deliveries().iter().map(|delivery| delivery.json()).collect();
        let told = told.iter().find(|told| of_run(told)).expect("it was told");
        let link = told["data"]["decision_url"].as_str().expect("a link").strip_prefix(world.server.url());
        let (link, stranger) = (link.expect("the server's").to_owned(), world.server.stranger());
        stranger.get(&link).await.ok();
        if form {
            let post = stranger.ask(reqwest::Method::POST, &link);
            post.raw("application/x-www-form-urlencoded", "decision=approve").await.ok();
        } else {
            stranger.post(&link, &json!({"decision": "approve"})).await.ok();
        }
        run.ended().await;
        let entry = entries(&world.client).await.pop().expect("an entry");
        entry.fits(&json!({
            "action": "approval.decide", "target": {"type": "approval", "id": approval},
            "actor": {"kind": "link", "key_id": null, "user": null}, "from": {"address": "127.0.0.1"},
            "detail": {"run_id": run.id, "decision": "approve", "tool_name": "pay", "input_hash": "~sha256:"},
        }));
    }
}

#[tokio::test]
async fn a_record_is_its_tenants_admins_and_the_operators() {
    let world = World::shared().await;
    world.client.put("/v1/secrets/shop", &json!({"value": "x"})).await.ok();
    let reader = world.key(&["runs:read", "runs:write", "approvals:decide", "agents:write"]).await;
    reader.get("/v1/audit").await.refused(403, "forbidden");
    world.server.stranger().get("/v1/audit").await.refused(401, "unauthorized");
    let path = format!("/v1/tenants/{}/audit", world.tenant);
    world.client.get(&path).await.refused(403, "forbidden");
    world.client.get("/v1/tenants/audit").await.refused(403, "forbidden");
    world.server.operator().get("/v1/audit").await.refused(401, "unauthorized");
    let (own, operators) =
        (entries(&world.client).await, entries_after(&world.server.operator(), &path, 0).await);
    assert_eq!(own, operators);
    assert_eq!(own[0]["action"], "tenant.create");
    let (neighbour, stranger) = world.neighbour(&json!({})).await;
    let theirs = entries(&stranger).await;
    assert!(theirs.iter().all(|entry| entry["tenant_id"] == *neighbour));
    let nobody = "/v1/tenants/ten_00000000-0000-7000-8000-000000000000/audit";
    world.server.operator().get(nobody).await.refused(404, "not_found");
}

#[tokio::test]
async fn entries_are_filtered_and_paged() {
    let world = World::shared().await;
    for name in ["a", "b", "c"] {
        world.client.put(&format!("/v1/secrets/{name}"), &json!({"value": "x"})).await.ok();
    }
    world.client.delete("/v1/secrets/b").await.is(204);
    let all = entries(&world.client).await;
    let names = async |query: &str| -> Vec<Value> {
        let page = world.client.get(&format!("/v1/audit?{query}")).await.ok();
        page["data"].as_array().expect("a list").iter().map(|entry| entry["target"]["id"].clone()).collect()
    };
    assert_eq!(names("action=secret.put").await, ["c", "b", "a"]);
    assert_eq!(names("action=secret.*&order=asc").await, ["a", "b", "c", "b"]);
    assert_eq!(names("target=b").await, ["b", "b"]);
    let (key, operator) =
        (all.last().expect("an entry")["actor"]["key_id"].as_str(), "actor=operator&action=key.*");
    assert_eq!(names(&format!("actor={}&action=secret.delete", key.expect("a key"))).await, ["b"]);
    assert_eq!(names(operator).await.len(), 1);
    assert_eq!(names("actor=user:nobody").await, [""; 0]);
    for order in ["asc", "desc"] {
        let (mut paged, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = world.client.get(&format!("/v1/audit?limit=2&order={order}{cursor}")).await.ok();
            paged.extend(page["data"].as_array().cloned().expect("a list"));
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        if order == "desc" {
            paged.reverse();
        }
        assert_eq!(paged, all);
    }
    let next = world.client.get("/v1/audit?limit=2").await.ok()["next_cursor"].clone();
    let other = format!("/v1/audit?limit=2&order=asc&cursor={}", next.as_str().expect("a cursor"));
    world.client.get(&other).await.refused_at("/query/cursor");
    for (query, pointer) in [
        ("action=run.create", "/query/action"),
        ("action=*", "/query/action"),
        ("action=sec*", "/query/action"),
        ("order=up", "/query/order"),
        ("after=-1", "/query/after"),
        ("from=today", "/query/from"),
        ("actor=", "/query/actor"),
        ("target=", "/query/target"),
    ] {
        world.client.get(&format!("/v1/audit?{query}")).await.refused_at(pointer);
    }
    for (name, longest) in [("actor", 160), ("target", 256)] {
        let query = |length: usize| format!("/v1/audit?{name}={}", "x".repeat(length));
        world.client.get(&query(longest)).await.ok();
        world.client.get(&query(longest + 1)).await.refused_at(&format!("/query/{name}"));
    }
}

#[tokio::test]
async fn a_request_whose_tenant_goes_while_it_waits_is_nobodys() {
    let world = World::alone().await;
    let tenant: Uuid = world.tenant.trim_start_matches("ten_").parse().expect("an id");
    world.client.put("/v1/secrets/shop", &json!({"value": "x"})).await.ok();
    let mut owner = PgConnection::connect(world.database_url()).await.expect("a connection");
    let mut look = PgConnection::connect(world.database_url()).await.expect("a connection");
    let mut deleting = owner.begin().await.expect("a transaction");
    let lock = sqlx::query("SELECT FROM tenants WHERE tenant_id = $1 FOR UPDATE").bind(tenant);
    lock.execute(&mut *deleting).await.expect("a lock");
    let agent = world.agent(&[]);
    let deletion = async {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        until("both wait", async || {
            sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut look).await.expect("a count") >= 2
        })
        .await;
        let delete = sqlx::query("DELETE FROM tenants WHERE tenant_id = $1").bind(tenant);
        delete.execute(&mut *deleting).await.expect("deleted");
        deleting.commit().await.expect("committed");
    };
    let (put, post, ()) = tokio::join!(
        world.client.delete("/v1/secrets/shop").into_future(),
        world.client.post("/v1/agents", &agent).once("one").into_future(),
        deletion,
    );
    put.refused(401, "unauthorized");
    post.refused(401, "unauthorized");
}
