//! Requests a minute: exactly so many over all servers, told with every answer.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Answer, Client, World, until};

const MINUTE: Duration = Duration::from_secs(60);

/// A number that an answer's header tells.
fn told(answer: &Answer, name: &str) -> Option<u64> {
    answer.header(name)?.parse().ok()
}

/// Requests of the tenant that servers have taken in this minute.
async fn taken(world: &World, tenant: &str) -> i64 {
    let query = "SELECT taken FROM request_windows WHERE tenant_id = $1";
    world.sql(query, tenant.trim_start_matches("ten_")).await.unwrap_or(0)
}

/// What came of so many requests, sent in turn to each.
async fn asked(clients: &[&Client], many: usize) -> Vec<Answer> {
    let ask = |n: usize| async move { clients[n % clients.len()].get("/v1/threads").await };
    futures::future::join_all((0..many).map(ask)).await
}

#[tokio::test]
async fn exactly_so_many_are_answered_over_two_servers() {
    let world = World::alone().await;
    let other = world.server.beside().await;
    for most in [12_u64, 90, 600] {
        // The neighbour's first request stores its provider.
        let (tenant, here) = world.neighbour(&json!({"max_requests_per_minute": most})).await;
        let there = here.at(other.url());
        let (mut answered, mut refused) = (1, 0);
        // What one server took and didn't need comes back within a second or two.
        let deadline = Instant::now() + 2 * MINUTE;
        while refused < 3 {
            assert!(Instant::now() < deadline, "{answered} of {most} were answered");
            for answer in asked(&[&here, &there], 40).await {
                if answer.status == 429 {
                    assert_eq!(told(&answer, "ratelimit-remaining"), Some(0), "{answer}");
                    assert_eq!(told(&answer, "ratelimit-reset"), told(&answer, "retry-after"), "{answer}");
                    answer.refused(429, "rate_limited");
                } else {
                    assert_eq!(told(&answer, "ratelimit-limit"), Some(most), "{answer}");
                    assert!(
                        told(&answer, "ratelimit-reset").is_some_and(|seconds| seconds <= 60),
                        "{answer}"
                    );
                    let policy = format!("{most};w=60");
                    assert_eq!(answer.header("ratelimit-policy"), Some(policy.as_str()), "{answer}");
                    answer.ok();
                    answered += 1;
                }
            }
            assert!(answered <= most, "{answered} of {most} were answered");
            if answered == most {
                refused += 1;
            }
        }
        assert_eq!(taken(&world, &tenant).await, i64::try_from(most).expect("small"));
    }
    world.client.get("/v1/threads").await.ok();
    assert_eq!(world.client.get("/v1/threads").await.header("ratelimit-limit"), None);
    drop(other);
}

#[tokio::test]
async fn large_limits_cost_few_looks_and_lose_nothing() {
    let world = World::shared().await;
    let (tenant, client) = world.neighbour(&json!({"max_requests_per_minute": 60_000})).await;
    for n in 1..=5 {
        let answer = client.get("/v1/threads").await;
        assert!(told(&answer, "ratelimit-remaining").is_some_and(|left| left <= 60_000 - n), "{answer}");
    }
    // A second's worth at a time, of which what wasn't needed is given back.
    until("the rest is given back", async || taken(&world, &tenant).await == 6).await;
}

#[tokio::test]
async fn a_limit_counts_whatever_is_answered_and_changes_at_once() {
    let world = World::shared().await;
    let (tenant, client) = world.neighbour(&json!({"max_requests_per_minute": 10})).await;
    let path = format!("/v1/tenants/{tenant}");
    let operator = world.server.operator();
    let key =
        operator.post(&format!("{path}/keys"), &json!({"name": "k", "scopes": ["runs:read"]})).await.is(201);
    let reader = client.with_key(key["secret"].as_str().expect("a secret"));
    // One was the provider's.
    let answers = [
        client.get("/v1/runs/run_00000000-0000-7000-8000-000000000000").await,
        client.post("/v1/runs", &json!({"colour": "red"})).await,
        reader.post("/v1/threads", &json!({})).await,
        client.get("/v1/threads").await,
    ];
    let statuses = answers.each_ref().map(|answer| answer.status);
    assert_eq!(statuses, [404, 422, 403, 200]);
    let left = answers.each_ref().map(|answer| told(answer, "ratelimit-remaining"));
    assert_eq!(left, [Some(8), Some(7), Some(6), Some(5)], "all keys of a tenant count together");
    assert_eq!(world.server.stranger().get("/v1/threads").await.header("ratelimit-limit"), None);
    operator.patch(&path, &json!({"quotas": {"max_requests_per_minute": 5}})).await.ok();
    let status = async || client.get("/v1/threads").await.status;
    until("the smaller limit holds", async || status().await == 429).await;
    operator.patch(&path, &json!({"quotas": {"max_requests_per_minute": null}})).await.ok();
    until("no limit holds", async || status().await == 200).await;
    assert_eq!(client.get("/v1/threads").await.header("ratelimit-limit"), None);
}
