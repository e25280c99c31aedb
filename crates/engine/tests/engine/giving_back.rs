//! Runs that a server has and doesn't work on: they go back, and count no death.

use std::time::{Duration, Instant};

use crate::desk::{Desk, Heard};

#[tokio::test]
async fn a_run_whose_claim_was_answered_late_is_returned_unused() {
    let lease = Duration::from_millis(300);
    let desk = Desk::new();
    desk.now(|ways| ways.claims_take = lease * 3 / 4);
    let engine = desk.start(lease);
    let own = desk.lease(1);
    desk.until_heard(1, |heard| matches!(heard, Heard::HandedBack(lease) if *lease == own)).await;
    engine.drain().await;
    assert!(!desk.all().iter().any(|heard| matches!(heard, Heard::Loaded(_) | Heard::Commit(_))));
}

#[tokio::test]
async fn a_lease_that_is_old_when_it_is_heard_of_is_renewed_at_once() {
    let lease = Duration::from_secs(4);
    let desk = Desk::new();
    // Past a beat of the heart; two thirds of the lease are not over.
    desk.now(|ways| ways.claims_take = lease * 3 / 10);
    let engine = desk.start(lease);
    let own = desk.lease(1);
    let asked = |all: &[Heard]| {
        let loaded = all.iter().position(|heard| matches!(heard, Heard::Loaded(lease) if *lease == own))?;
        let renewed =
            all.iter().position(|heard| matches!(heard, Heard::Renewed(leases) if leases.contains(&own)))?;
        Some((loaded, renewed))
    };
    let began = Instant::now();
    desk.until(asked).await;
    assert!(began.elapsed() < lease / 2, "the next beat would come at half of it");
    engine.drain().await;
}

#[tokio::test]
async fn after_a_claim_that_failed_what_is_not_known_is_put_back() {
    let desk = Desk::new();
    let engine = desk.start(Duration::from_secs(5));
    desk.sent().await;
    desk.now(|ways| ways.claims_fail = true);
    let run = desk.lease(1).run_id.0;
    let held = desk
        .until(|all| {
            all.iter().find_map(|heard| match heard {
                Heard::PutBack(held) => Some(held.clone()),
                _ => None,
            })
        })
        .await;
    assert_eq!(held, [run], "all but what it works on");
    engine.drain().await;
}

#[tokio::test]
async fn a_server_that_leaves_puts_back_what_it_may_have_unknowingly() {
    let desk = Desk::new();
    desk.claims.lock().expect("no panic").clear();
    desk.now(|ways| ways.claims_fail = true);
    let engine = desk.start(Duration::from_secs(5));
    desk.until_heard(1, |heard| matches!(heard, Heard::ClaimFailed)).await;
    let before = desk.all().len();
    engine.drain().await;
    assert!(desk.all()[before..].iter().any(|heard| matches!(heard, Heard::PutBack(_))), "{:?}", desk.all());
}

/// What is urgent does not wait for the lease of a server that is silent, so nobody who lives may be.
#[tokio::test]
async fn a_server_says_that_it_lives_whatever_it_has() {
    let desk = Desk::new();
    let engine = desk.start(Duration::from_secs(60));
    desk.sent().await;
    let began = Instant::now();
    desk.next_renewals(3).await;
    assert!(began.elapsed() < Duration::from_secs(5), "its leases need no renewal for a quarter of a minute");
    engine.drain().await;
}
