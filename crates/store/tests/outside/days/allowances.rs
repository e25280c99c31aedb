//! One question for an allowance after another.

use std::time::Duration;

use answerable_core::budget::DayLimit;
use answerable_core::model::{FailureKind, ModelFailure};
use answerable_core::run::Event;
use answerable_ports::commit::Release;
use answerable_ports::{Allowance, AllowanceWanted, RunStore, StoreError};
use serde_json::json;

use super::{answers, ask, asking, today, tokens, used_up, wants};
use crate::world::World;

#[tokio::test]
async fn what_others_may_take_is_waited_for_and_what_is_used_is_gone() {
    let world = World::with_quotas(json!({"max_tokens_per_day": 100})).await;
    let (one, other) = (asking(&world).await.1, asking(&world).await.1);
    assert_eq!(ask(&world, one, wants(10, 60)).await, Allowance::Given(Some(60)));
    assert_eq!(ask(&world, one, wants(10, 60)).await, Allowance::Given(Some(60)), "its answer was lost");
    assert_eq!(ask(&world, other, wants(10, 60)).await, Allowance::Wait);
    assert_eq!(ask(&world, other, wants(10, 20)).await, Allowance::Given(Some(20)), "that fits beside it");
    // It took less than it might have.
    answers(&world, one, tokens(10, 5), 0).await;
    assert_eq!(today(&world).await, (15, 0));
    assert_eq!(ask(&world, other, wants(10, 60)).await, Allowance::Given(Some(60)));
    assert_eq!(ask(&world, other, wants(10, 90)).await, Allowance::Given(Some(75)), "cut to what is left");
    assert_eq!(ask(&world, other, wants(84, 90)).await, Allowance::Given(Some(1)));
    assert_eq!(used_up(ask(&world, other, wants(85, 90)).await), Some(DayLimit::Tokens));
}

#[tokio::test]
async fn what_is_out_counts_until_it_is_known_what_came_of_it() {
    let world = World::with_quotas(json!({"max_tokens_per_day": 100})).await;
    let (one, other) = (asking(&world).await.1, asking(&world).await.1);
    assert_eq!(ask(&world, one, wants(10, 80)).await, Allowance::Given(Some(80)));
    // Something else happens to the run meanwhile.
    let at = world.now().await;
    let patch = answerable_core::budget::BudgetPatch { max_steps: Some(9), ..Default::default() };
    world.fold(one, vec![Event::BudgetChanged { at, patch, by: "key_1".into() }], Release::Keep).await;
    assert_eq!(ask(&world, other, wants(10, 80)).await, Allowance::Wait);
    let quotas = world.tx().await.quota_list().await.expect("quotas");
    let tokens = quotas.iter().find(|quota| quota.name == "max_tokens_per_day").expect("it");
    assert_eq!((tokens.limit, tokens.used, tokens.reserved), (Some(100), 0, 90));
    // The attempt fails, and is tried again later: until then nothing is out.
    let failure = ModelFailure {
        kind: FailureKind::Passing,
        status: Some(503),
        message: "busy".into(),
        retry_after_ms: None,
        usage: None,
    };
    let failed = Event::ModelFailed { at, failure, cost_microusd: 0, jitter: 0, duration_ms: 1, wire: None };
    world.fold(one, vec![failed], Release::Keep).await;
    assert_eq!(ask(&world, other, wants(10, 80)).await, Allowance::Given(Some(80)));
}

/// A server that dies takes nothing along for good.
#[tokio::test]
async fn a_lease_that_is_lost_holds_nothing() {
    let world = World::with_quotas(json!({"max_tokens_per_day": 100})).await;
    let ((run, one), (_, other)) = (asking(&world).await, asking(&world).await);
    assert_eq!(ask(&world, one, wants(10, 80)).await, Allowance::Given(Some(80)));
    world.engine.hand_back(one, answerable_ports::Wake::Now, i64::MAX).await.expect("given back");
    assert_eq!(
        ask(&world, other, wants(10, 80)).await,
        Allowance::Given(Some(80)),
        "nobody works on the first"
    );
    let again = world.claim(run).await;
    assert_eq!(ask(&world, one, wants(1, 1)).await, Allowance::Lost);
    assert_eq!(ask(&world, again, wants(10, 80)).await, Allowance::Wait);
    answers(&world, other, tokens(1, 1), 0).await;
    assert_eq!(ask(&world, again, wants(10, 80)).await, Allowance::Given(Some(80)));
}

#[tokio::test]
async fn money_is_counted_as_tokens_are() {
    let world = World::with_quotas(json!({"max_cost_microusd_per_day": 1_000})).await;
    let (one, other) = (asking(&world).await.1, asking(&world).await.1);
    // A token of output costs 10; input and the first one 110.
    let priced = |output| AllowanceWanted {
        input_tokens: 100,
        output_tokens: output,
        cost_microusd: 110,
        output_microusd_per_mtok: Some(10_000_000),
    };
    assert_eq!(ask(&world, one, priced(Some(40))).await, Allowance::Given(Some(40)));
    assert_eq!(ask(&world, other, priced(Some(41))).await, Allowance::Wait);
    assert_eq!(ask(&world, other, priced(Some(40))).await, Allowance::Given(Some(40)), "exactly all of it");
    answers(&world, one, tokens(100, 40), 500).await;
    assert_eq!(
        ask(&world, other, priced(None)).await,
        Allowance::Given(Some(40)),
        "what is left pays for that"
    );
    let unpriced = AllowanceWanted { cost_microusd: 0, output_microusd_per_mtok: None, ..priced(None) };
    assert_eq!(ask(&world, other, unpriced).await, Allowance::Given(None), "nobody knows what it costs");
    answers(&world, other, tokens(100, 30), 450).await;
    let third = asking(&world).await.1;
    assert_eq!(used_up(ask(&world, third, priced(Some(1))).await), Some(DayLimit::Money));
    let free = AllowanceWanted { cost_microusd: 0, output_microusd_per_mtok: Some(0), ..priced(Some(9)) };
    assert_eq!(ask(&world, third, free).await, Allowance::Given(Some(9)), "that costs nothing");
}

#[tokio::test]
async fn a_reply_without_a_bound_gets_one_where_little_is_left() {
    let world = World::with_quotas(json!({"max_tokens_per_day": 200_000})).await;
    let (one, other) = (asking(&world).await.1, asking(&world).await.1);
    let unbounded = AllowanceWanted { output_tokens: None, ..wants(1_000, 0) };
    assert_eq!(ask(&world, one, unbounded).await, Allowance::Given(None));
    assert_eq!(ask(&world, other, unbounded).await, Allowance::Given(Some(8_192)), "others may take much");
    answers(&world, one, tokens(1_000, 100_000), 0).await;
    assert_eq!(ask(&world, other, wants(1_000, 500_000)).await, Allowance::Given(Some(98_000)));
    answers(&world, other, tokens(1_000, 95_000), 0).await;
    let third = asking(&world).await.1;
    assert_eq!(ask(&world, third, unbounded).await, Allowance::Given(Some(2_000)));
}

#[tokio::test]
async fn a_quota_that_is_lifted_or_lowered_holds_at_once() {
    let world = World::with_quotas(json!({"max_tokens_per_day": 10})).await;
    let lease = asking(&world).await.1;
    assert_eq!(used_up(ask(&world, lease, wants(10, 1)).await), Some(DayLimit::Tokens));
    for (quotas, answer) in [
        (json!({"max_tokens_per_day": 11}), Allowance::Given(Some(1))),
        (json!({"max_tokens_per_day": null}), Allowance::Given(Some(9))),
    ] {
        let mut tx = world.store.system().await.expect("a transaction");
        let quotas = quotas.as_object().expect("quotas");
        tx.tenant_update(world.tenant, None, quotas, None).await.expect("changed");
        tx.commit().await.expect("committed");
        assert_eq!(ask(&world, lease, wants(10, 9)).await, answer);
    }
}

/// Whoever asks holds one of few connections.
#[tokio::test]
async fn who_asks_does_not_wait_long_for_others_who_ask() {
    let world = World::with_quotas(json!({"max_tokens_per_day": 100})).await;
    let lease = asking(&world).await.1;
    let mut other = world.superuser().await;
    let lock =
        "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('day:' || tenant_id::text, 0)) FROM tenants";
    sqlx::raw_sql(lock).execute(&mut other).await.expect("locked");
    let began = std::time::Instant::now();
    let asked = world.engine.take_allowance(lease, wants(1, 1)).await;
    assert!(matches!(asked, Err(StoreError::Away(_))), "to be asked again: {asked:?}");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    sqlx::raw_sql("COMMIT").execute(&mut other).await.expect("let go");
    assert_eq!(ask(&world, lease, wants(1, 1)).await, Allowance::Given(Some(1)));
}
