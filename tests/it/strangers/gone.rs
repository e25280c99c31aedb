//! A tenant that is deleted while it works: nobody finds it any more, in the API or in the database.

use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::operations::For;
use super::owner::Owner;
use crate::harness::World;

/// In which tables a row holds one of these words anywhere.
async fn tables_with(world: &World, words: &[String]) -> Vec<String> {
    let mut database = PgConnection::connect(world.database_url()).await.expect("a connection");
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace
           AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1",
    )
    .fetch_all(&mut database)
    .await
    .expect("tables");
    let mut found = Vec::new();
    for table in tables {
        let holds = format!(
            "SELECT EXISTS (SELECT FROM {table} t, unnest($1::text[]) AS w
             WHERE position(w IN t::text) > 0 OR position(encode(w::bytea, 'hex') IN t::text) > 0)"
        );
        let holds = sqlx::query_scalar(AssertSqlSafe(holds)).bind(words).fetch_one(&mut database).await;
        if holds.expect("an answer") {
            found.push(table);
        }
    }
    found
}

#[tokio::test]
async fn nothing_of_it_is_left_and_others_have_all_of_theirs() {
    let world = World::alone().await;
    let stays = Owner::new(&world).await;
    let (tenant, client) = world.neighbour(&json!({})).await;
    world
        .model
        .script("g", [answerable_testkit::ModelReply::calls([("ask_user", json!({"what": "goes-word"}))])]);
    let agent = json!({"name": "goes-word", "instructions": "x", "model": {"provider": "main", "model": "g"},
        "tools": [crate::harness::client_tool("ask_user")]});
    let agent = client.post("/v1/agents", &agent).await.is(201);
    let thread = client.post("/v1/threads", &json!({"metadata": {"topic": "goes-word"}})).await.is(201);
    let body = json!({"agent_id": agent["id"], "thread_id": thread["id"], "input": "goes-word"});
    let run = client.post("/v1/runs", &body).once("goes-word").await.is(201);
    let live = world.run(&run).through(&client);
    live.open_call().await;
    client.put("/v1/secrets/shop", &json!({"value": "goes-word"})).await.ok();
    let words: Vec<String> = [tenant.as_str(), live.id.as_str(), agent["id"].as_str().expect("an id")]
        .map(|id| id.split_once('_').expect("an id").1.to_owned())
        .into_iter()
        .chain(["goes-word".to_owned()])
        .collect();
    assert!(tables_with(&world, &words).await.len() > 12);
    let before = stays.state().await;

    let operator = world.server.operator();
    operator.delete(&format!("/v1/tenants/{tenant}")).await.is(204);
    for operation in stays.operations() {
        if matches!(operation.whose, For::Scopes(_)) {
            operation.ask(&client).await.refused(401, "unauthorized");
        }
    }
    operator.get(&format!("/v1/tenants/{tenant}")).await.refused(404, "not_found");
    operator.get(&format!("/v1/tenants/{tenant}/keys")).await.refused(404, "not_found");
    operator.delete(&format!("/v1/tenants/{tenant}")).await.refused(404, "not_found");
    // Its id stays in the operator's record of what was done.
    assert_eq!(tables_with(&world, &words).await, ["audit"]);
    assert_eq!(tables_with(&world, &words[1..]).await, [""; 0]);
    let record = operator.get("/v1/tenants/audit?action=tenant.delete").await;
    record.fits(&json!({"data": [{"action": "tenant.delete", "target": {"id": tenant}}]}));
    assert_eq!(stays.state().await, before, "another tenant's things changed");
    stays.run.cancel().await;
}
