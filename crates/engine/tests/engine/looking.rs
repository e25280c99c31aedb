//! Looks for work.

use std::time::{Duration, Instant};

use crate::desk::{Desk, Heard};

fn found_nothing(all: &[Heard]) -> Vec<(Instant, Instant)> {
    let times = |heard: &Heard| match heard {
        Heard::FoundNothing { asked, answered } => Some((*asked, *answered)),
        _ => None,
    };
    all.iter().filter_map(times).collect()
}

#[tokio::test]
async fn who_finds_nothing_lets_others_look_for_as_long_whatever_is_signalled() {
    let desk = Desk::new();
    desk.claims.lock().expect("no panic").clear();
    let took = Duration::from_millis(20);
    desk.now(|ways| ways.vain_claims_take = Some(took));
    let engine = desk.start(Duration::from_secs(5));
    let looks = async {
        loop {
            desk.signal_work();
            let looks = found_nothing(&desk.all());
            if looks.len() > 5 {
                break looks;
            }
            tokio::task::yield_now().await;
        }
    };
    let looks = tokio::time::timeout(Duration::from_secs(20), looks).await.expect("it looks on");
    for pair in looks.windows(2) {
        let rested = pair[1].0 - pair[0].1;
        assert!(rested >= took, "{rested:?}");
    }
    engine.drain().await;
}
