use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::DateTime;
use futures::future::join_all;
use uuid::Uuid;

use super::*;

fn tenant(nth: usize) -> TenantId {
    TenantId(Uuid::from_u128(nth as u128 + 1))
}

/// A database that is away, which takes its time to be found out.
#[derive(Clone, Default)]
struct Away(Arc<AtomicUsize>);

impl Source for Away {
    async fn take(
        &self,
        _: u64,
        _: u64,
        _: Option<RequestsUnused>,
    ) -> Result<Option<RequestsTaken>, Problem> {
        self.0.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(PATIENCE / 2).await;
        Err(Problem::unavailable(1))
    }
}

/// One that answers late.
struct Slow(Duration);

impl Source for Slow {
    async fn take(
        &self,
        _: u64,
        granted: u64,
        _: Option<RequestsUnused>,
    ) -> Result<Option<RequestsTaken>, Problem> {
        tokio::time::sleep(self.0).await;
        let (began, ends_in) = (DateTime::UNIX_EPOCH, Duration::from_secs(60));
        Ok(Some(RequestsTaken { granted, remaining: 9, began, ends_in }))
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_database_is_away_nobody_waits_for_others_to_find_out() {
    let (limits, away, began) = (RequestLimits::default(), Away::default(), Instant::now());
    let all = join_all((0..50).map(|_| limits.count_from(away.clone(), tenant(1), 60))).await;
    assert!(all.iter().all(|counted| counted.as_ref().is_err_and(Problem::is_ours)));
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    assert_eq!(away.0.load(Ordering::SeqCst), 1);
    // Nor for a second afterwards; then it is asked again.
    let again = Instant::now();
    assert!(limits.count_from(away.clone(), tenant(1), 60).await.is_err());
    assert_eq!((away.0.load(Ordering::SeqCst), again.elapsed()), (1, Duration::ZERO));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(limits.count_from(Slow(Duration::ZERO), tenant(1), 60).await.is_ok());
    assert!(limits.count_from(Slow(Duration::ZERO), tenant(1), 60).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn who_waits_too_long_behind_others_is_told_so() {
    let (limits, began) = (RequestLimits::default(), Instant::now());
    let slow = limits.count_from(Slow(PATIENCE * 3), tenant(1), 60);
    let behind = async {
        let counted = limits.count_from(Slow(PATIENCE * 3), tenant(1), 60).await;
        (counted, began.elapsed())
    };
    let (slow, (behind, waited), other) =
        tokio::join!(slow, behind, limits.count_from(Slow(Duration::ZERO), tenant(2), 60));
    assert!(slow.is_ok() && other.is_ok());
    assert!(behind.is_err_and(|problem| problem.is_ours()));
    assert!((PATIENCE..PATIENCE * 2).contains(&waited), "{waited:?}");
}

#[test]
fn minutes_that_are_over_are_looked_for_now_and_then() {
    let (mut minutes, now) = (Minutes::default(), Instant::now());
    let mut fill = |to: usize, now: Instant| {
        (minutes.known.len()..to).for_each(|nth| drop(minutes.of(tenant(nth), now)));
        let held = minutes.of(tenant(9_999_999), now);
        // Who is being counted is not forgotten.
        assert_eq!(Arc::strong_count(&held), 2);
        minutes.known.len()
    };
    assert_eq!(fill(REMEMBERED, now), 1);
    assert_eq!(fill(REMEMBERED + 9, now), REMEMBERED + 9, "they were just looked through");
    assert_eq!(fill(2 * REMEMBERED - 1, now), 2 * REMEMBERED - 1);
    assert_eq!(fill(2 * REMEMBERED, now), 1, "they have become twice as many");
    assert_eq!(fill(REMEMBERED, now), REMEMBERED);
    assert_eq!(fill(REMEMBERED, now + LOOKED_THROUGH), 1);
}
