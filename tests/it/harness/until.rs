//! What tests wait for, and what they need of the machine before they begin.

use std::sync::Once;
use std::time::{Duration, Instant};

use chrono::{NaiveTime, Timelike, Utc};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::time::sleep;

/// How long anything may take that nothing holds up, on a machine that is busy with other tests.
pub(crate) const SOON: Duration = Duration::from_secs(40);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);
/// No test that counts by the day takes longer.
const END_OF_DAY: Duration = Duration::from_secs(60);

/// Returns as soon as it holds.
///
/// # Panics
/// When it doesn't within [`SOON`].
pub(crate) async fn until(what: &str, holds: impl AsyncFnMut() -> bool) {
    until_within(SOON, what, holds).await;
}

/// The same for what may take longer.
async fn until_within(time: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + time;
    while !holds().await {
        assert!(Instant::now() < deadline, "it did not come within {time:?}: {what}");
        sleep(PAUSE).await;
    }
}

/// From here on this process, and whatever it starts, may have as many files open as it may at all: thousands of
/// connections are more than the usual 1024.
pub(super) fn many_files() {
    static RAISED: Once = Once::new();
    RAISED.call_once(|| {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("it may be raised");
    });
}

/// Waits out the last minute of a day in UTC, for what must not see two days.
pub(crate) async fn away_from_midnight() {
    let time = Utc::now().time();
    if let Some(left) = left_of_day(time) {
        sleep(left).await;
    }
}

/// What is left of a day that is about to end, and a moment more.
fn left_of_day(time: NaiveTime) -> Option<Duration> {
    let left = 24 * 3600 - u64::from(time.num_seconds_from_midnight());
    (left <= END_OF_DAY.as_secs()).then(|| Duration::from_secs(left + 1))
}

#[test]
fn only_the_last_minute_of_a_day_is_waited_out() {
    let left = |text: &str| left_of_day(text.parse().expect("a time")).map(|left| left.as_secs());
    assert_eq!((left("00:00:00"), left("23:58:59"), left("12:00:00")), (None, None, None));
    assert_eq!((left("23:59:00"), left("23:59:59.9")), (Some(61), Some(2)));
}

#[tokio::test]
#[should_panic = "it did not come within 20ms: a thing"]
async fn what_does_not_come_is_named() {
    until_within(Duration::from_millis(20), "a thing", async || false).await;
}
