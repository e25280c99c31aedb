//! Whose turn it is at endpoints that fail, and what claims have to look at.

use std::time::Duration;

use answerable_store::{AfterTry, DeliveryFilter, Health, PlacesLeft};
use chrono::Utc;

use super::{PLACES, claim, endpoint, ids, is, of, of_run, settle};
use crate::world::World;

#[tokio::test]
async fn one_that_failed_once_has_its_turn_among_dead_ones_with_backlogs() {
    let world = World::new().await;
    let mut dead = Vec::new();
    for _ in 0..16 {
        dead.push(endpoint(&world, world.tenant, 20).await);
    }
    is(&world, Health::Fails, &dead).await;
    let live = endpoint(&world, world.tenant, 2).await;
    let blip = claim(&world, PlacesLeft { failing: 0, ..PLACES }).await.remove(0);
    assert_eq!(blip.webhook_id, live);
    settle(&world, &blip, AfterTry::Again(Utc::now())).await;
    // Four places; what fails is due again at once, and older than anything of the live one's.
    let places = PlacesLeft { failing: 4, of_tenant: 16, ..PLACES };
    for round in 0..=4 {
        let claimed = claim(&world, places).await;
        if of(&claimed, live) == 1 {
            assert_eq!(round, 4, "those that failed before it come first");
            return;
        }
        assert_eq!(claimed.len(), 4);
        for outgoing in &claimed {
            settle(&world, outgoing, AfterTry::Again(outgoing.queued_at)).await;
        }
    }
    panic!("sixteen dead endpoints had more than one turn before it");
}

#[tokio::test]
async fn a_tenant_that_is_busy_has_turns_at_its_failing_endpoints_like_others() {
    let world = World::new().await;
    let (well, failing) = (endpoint(&world, world.tenant, 4).await, endpoint(&world, world.tenant, 1).await);
    is(&world, Health::Answers, &[well]).await;
    is(&world, Health::Fails, &[failing]).await;
    let other = world.another_tenant().await;
    let dead = [endpoint(&world, other, 9).await, endpoint(&world, other, 9).await];
    is(&world, Health::Fails, &dead).await;
    let places = PlacesLeft { failing: 1, of_tenant: 16, ..PLACES };
    let claimed = claim(&world, places).await;
    assert_eq!((of(&claimed, well), of(&claimed, failing), claimed.len()), (4, 1, 5));
}

#[tokio::test]
async fn what_waits_for_an_earlier_one_is_not_even_looked_at() {
    let world = World::new().await;
    let hook = endpoint(&world, world.tenant, 0).await;
    let run = of_run(&world, hook, 3).await;
    let due = "SELECT count(*) FROM deliveries WHERE status = 'pending' AND next_attempt_at <= now()";
    for _ in 0..2 {
        let claimed = claim(&world, PLACES).await;
        assert_eq!(ids(&claimed), run[..1]);
        settle(&world, &claimed[0], AfterTry::Again(Utc::now() + Duration::from_secs(30))).await;
        let count: i64 =
            sqlx::query_scalar(due).fetch_one(&mut world.superuser().await).await.expect("a count");
        assert_eq!(count, 0);
        assert!(claim(&world, PLACES).await.is_empty());
        // Half a minute later.
        sqlx::query("UPDATE deliveries SET next_attempt_at = next_attempt_at - interval '30 seconds'")
            .execute(&mut world.superuser().await)
            .await
            .expect("time passes");
    }
    // The third failure lets the others go ahead.
    let third = claim(&world, PLACES).await.remove(0);
    settle(&world, &third, AfterTry::Again(Utc::now() + Duration::from_secs(30))).await;
    assert_eq!(ids(&claim(&world, PLACES).await), [run[1]]);
}

#[tokio::test]
async fn the_few_that_failed_are_found_among_many_by_an_index() {
    let world = World::new().await;
    let hook = endpoint(&world, world.tenant, 0).await;
    let mut superuser = world.superuser().await;
    sqlx::query(
        "INSERT INTO deliveries (tenant_id, delivery_id, webhook_id, type, body, status, created_at)
         SELECT $1, gen_random_uuid(), $2, 'run.started', '{}', CASE n WHEN 1 THEN 'failed' ELSE 'delivered' END, now()
         FROM generate_series(1, 5000) n",
    )
    .bind(world.tenant.0)
    .bind(hook.0)
    .execute(&mut superuser)
    .await
    .expect("deliveries");
    sqlx::query("ANALYZE deliveries").execute(&mut superuser).await.expect("analyzed");
    // Often enough that a plan for any values could be made.
    let failed = DeliveryFilter { status: Some("failed".into()), kind: Some("run.*".into()) };
    for _ in 0..8 {
        let found = world.tx().await.delivery_list(hook, &failed, None, 50).await.expect("deliveries");
        assert_eq!(found.len(), 1);
    }
    let scans = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'deliveries_failed'";
    for _ in 0..200 {
        let scans: i64 = sqlx::query_scalar(scans).fetch_one(&mut superuser).await.expect("a count");
        if scans >= 8 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("all that arrived is read");
}
