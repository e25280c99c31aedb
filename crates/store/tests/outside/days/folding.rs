//! Days that are over are summed up, and say what they said before.

use answerable_store::{Keep, UsageBy};
use serde_json::json;
use sqlx::AssertSqlSafe;

use super::{answers, asking, today, tokens, usage};
use crate::world::World;

const KEEP: Keep = Keep { journal_days: 30, runs_days: None };

async fn rows(world: &World, table: &str) -> i64 {
    let count = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
    sqlx::query_scalar(count).fetch_one(&mut world.superuser().await).await.expect("a count")
}

#[tokio::test]
async fn a_day_that_is_over_is_one_row_for_each_agent_and_model() {
    let world = World::with_quotas(json!({"max_tokens_per_day": 1_000_000})).await;
    for n in 1..=20 {
        answers(&world, asking(&world).await.1, tokens(n, 1), n).await;
    }
    let all = UsageBy { day: true, agent: true, model: true };
    let age = "UPDATE usage_days SET day = day - 3; UPDATE day_use SET day = day - 3";
    sqlx::raw_sql(age).execute(&mut world.superuser().await).await.expect("aged");
    for n in 1..=20 {
        answers(&world, asking(&world).await.1, tokens(n, 1), n).await;
    }
    let (told, parts) = (usage(&world, all).await, rows(&world, "usage_days").await);
    assert!(parts > 8, "runs stand in different parts: {parts}");
    world.store.prune(world.url(), KEEP, 9).await.expect("pruned").expect("alone");
    assert_eq!(usage(&world, all).await, told);
    let old = rows(&world, "usage_days WHERE day < current_date - 1").await;
    // What no model's is, and the model's.
    assert_eq!(old, 2);
    assert_eq!(rows(&world, "day_use WHERE day < current_date - 1").await, 0);
    assert_eq!(today(&world).await.0, 230, "today is as it was");
    world.store.prune(world.url(), KEEP, 9).await.expect("pruned").expect("alone");
    assert_eq!(
        (usage(&world, all).await, rows(&world, "usage_days WHERE day < current_date - 1").await),
        (told, 2)
    );
}
