//! Watching a run: signals say when to look, and now and then a look without one makes up for those that were lost.

use std::time::Duration;

use answerable_core::id::RunId;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::auth::Tenant;
use crate::problem::Problem;
use crate::state::AppState;

/// Time without a look after which one is due. Doubles with each that found nothing was told, for a run that waits for a
/// person may wait for days; up to a third is left out at random, so that watchers don't look all at once.
const LOOK_AFTER: Duration = Duration::from_secs(3);
const LOOK_AT_LEAST: Duration = Duration::from_secs(24);
/// So many a second at most look without a signal, of all that watch: where many do, each looks less often.
const LOOKS_PER_SECOND: usize = 100;

/// A watcher of a run. Holds no connection.
pub(crate) struct Watch {
    state: AppState,
    run_id: RunId,
    progress: watch::Receiver<()>,
    draining: watch::Receiver<bool>,
    patience: Duration,
    look_at: Instant,
}

/// What a watcher is told.
#[derive(Debug)]
pub(crate) enum Seen {
    /// There may be new rows.
    Rows,
    /// The server goes down.
    Draining,
}

impl Watch {
    /// Begins to watch. What is read after this is followed by a signal for whatever comes later.
    pub(crate) fn on(state: &AppState, run_id: RunId) -> Self {
        let progress = state.store.signals().watch(run_id);
        let draining = state.config.draining.clone();
        let look_at = look_after(LOOK_AFTER.max(turn(state)));
        Self { state: state.clone(), run_id, progress, draining, patience: LOOK_AFTER, look_at }
    }

    /// Waits for something to happen. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Seen {
        loop {
            tokio::select! {
                told = self.progress.changed() => match told {
                    Ok(()) => return self.look(LOOK_AFTER),
                    Err(_) => self.progress = self.state.store.signals().watch(self.run_id),
                },
                () = drains(&mut self.draining) => return Seen::Draining,
                () = tokio::time::sleep_until(self.look_at) => {
                    return self.look((self.patience * 2).min(LOOK_AT_LEAST));
                }
            }
        }
    }

    fn look(&mut self, patience: Duration) -> Seen {
        self.patience = patience;
        self.look_at = look_after(patience.max(turn(&self.state)));
        Seen::Rows
    }
}

/// Time in which all that watch can have looked once.
fn turn(state: &AppState) -> Duration {
    Duration::from_secs((state.streams_open() / LOOKS_PER_SECOND) as u64)
}

/// Returns when the server goes down, or nobody is left to tell of it.
async fn drains(draining: &mut watch::Receiver<bool>) {
    let _ = draining.wait_for(|is| *is).await;
}

fn look_after(patience: Duration) -> Instant {
    // The id's random part is as good a die as any.
    let third = patience.as_millis() / 3;
    let less = uuid::Uuid::now_v7().as_u128() % third.max(1);
    Instant::now() + patience - Duration::from_millis(u64::try_from(less).unwrap_or(0))
}

/// Holds on until the run ends or waits for somebody, `time` passes or the server goes down. Whoever waits has a place among the
/// streams, for they hold a connection as these do, and looks when one of these might.
///
/// # Errors
/// There is no place, who waits may be here no longer, or the run isn't there.
pub(crate) async fn until_settled<S>(
    state: &AppState,
    tenant: &Tenant<S>,
    run_id: RunId,
    time: Duration,
) -> Result<(), Problem> {
    let over = Instant::now() + time;
    let place = state.take_stream(tenant.id)?;
    tenant.waits(place);
    let (mut watch, mut stay) = (Watch::on(state, run_id), tenant.standing.watch(state));
    while !is_settled(state, tenant, run_id).await? {
        tokio::select! {
            problem = stay.over() => return Err(problem),
            seen = tokio::time::timeout_at(over, watch.next()) => match seen {
                Err(_) | Ok(Seen::Draining) => return Ok(()),
                Ok(Seen::Rows) => {}
            }
        }
    }
    Ok(())
}

async fn is_settled<S>(state: &AppState, tenant: &Tenant<S>, run_id: RunId) -> Result<bool, Problem> {
    let _turn = state.stream_read(tenant.id).await.map_err(|_| Problem::unavailable(1))?;
    let settled = state.store.tenant(tenant.id).await?.run_is_settled(run_id).await?;
    settled.ok_or_else(Problem::not_found)
}
