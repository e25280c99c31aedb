//! Schedules at work: whatever is due is looked for and fired. Each server does it; the database sees to it that each due
//! time is dealt with once.

pub(crate) mod fire;
pub(crate) mod wanted;

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;

use crate::state::AppState;

/// Schedules that are looked up at once.
const BATCH: i64 = 256;
/// Of them so many are fired at a time, so that the database has connections for requests left.
const AT_ONCE: usize = 4;
/// Longest time between two looks: a schedule that is made or resumed is seen so soon.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Shortest time between two looks that find nothing to do.
const PAUSE: Duration = Duration::from_millis(20);
/// The same where all that is due is in the hands of others.
const OTHERS: Duration = Duration::from_millis(100);

/// Fires schedules until the server goes down. What is under way then is given up as if it had not begun: another server
/// does it, or this one after its next start.
pub async fn fire_schedules(state: AppState) {
    let mut draining = state.config.draining.clone();
    let firing = async {
        loop {
            round(&state).await;
        }
    };
    tokio::select! {
        // Nobody left to tell of it is the same.
        _ = draining.wait_for(|is| *is) => {}
        () = firing => {}
    }
}

/// One look, and whatever it finds.
async fn round(state: &AppState) {
    let due = state.store.schedules_due(BATCH).await.unwrap_or_else(|error| {
        tracing::debug!(%error, "schedules could not be looked for");
        Vec::new()
    });
    let found = !due.is_empty();
    let fired = stream::iter(due).map(|due| fire::fire(state, due)).buffer_unordered(AT_ONCE);
    if fired.filter(|fired| std::future::ready(*fired)).count().await > 0 {
        return;
    }
    tokio::time::sleep(if found { OTHERS } else { until_next(state).await }).await;
}

/// Time until the next one is due, within bounds.
async fn until_next(state: &AppState) -> Duration {
    let next = state.store.schedules_next().await.ok().flatten();
    let wait = next.and_then(|at| (at - state.store.clock().utc()).to_std().ok());
    wait.unwrap_or(LOOK_EVERY).clamp(PAUSE, LOOK_EVERY)
}
