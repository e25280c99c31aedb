//! The record of who did what.

mod acts;
mod chain;
mod who;

use serde_json::Value;

use crate::harness::Client;

/// All entries after a number, oldest first.
async fn entries_after(client: &Client, path: &str, after: i64) -> Vec<Value> {
    let page = client.get(&format!("{path}?order=asc&limit=200&after={after}")).await.ok();
    assert_eq!(page["next_cursor"], Value::Null, "one page holds all that a test does");
    page["data"].as_array().cloned().expect("a list")
}

/// All entries of the client's own chain, oldest first.
async fn entries(client: &Client) -> Vec<Value> {
    entries_after(client, "/v1/audit", 0).await
}

/// Names of what was done after a number, oldest first.
async fn done_after(client: &Client, after: i64) -> Vec<String> {
    actions(&entries_after(client, "/v1/audit", after).await)
}

fn actions(entries: &[Value]) -> Vec<String> {
    entries.iter().map(|entry| entry["action"].as_str().expect("an action").to_owned()).collect()
}

/// The number of the last entry.
async fn last(client: &Client) -> i64 {
    let page = client.get("/v1/audit?limit=1").await.ok();
    page["data"][0]["seq"].as_i64().unwrap_or(0)
}
