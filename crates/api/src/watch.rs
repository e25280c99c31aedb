//! Watching a run: signals say when to look, and now and then a look without one makes up for those that were lost.

use std::sync::Arc;
use std::time::Duration;

use answerable_core::id::{RunId, TenantId};
use answerable_store::Progress;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::Instant;

use crate::problem::Problem;
use crate::state::AppState;

/// Longest time without a look; up to a third of it is left out at random, so that watchers don't look all at once.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// How soon a watcher notices that the server goes down.
const NOTICE: Duration = Duration::from_millis(250);

/// A watcher of a run. Holds no connection.
pub(crate) struct Watch {
    state: AppState,
    run_id: RunId,
    progress: broadcast::Receiver<Progress>,
    look_at: Instant,
}

/// What a watcher is told.
#[derive(Debug)]
pub(crate) enum Seen {
    /// There may be new rows.
    Rows,
    /// Some words of a reply that is coming in.
    Delta(Arc<str>),
    /// The server goes down.
    Draining,
}

impl Watch {
    /// Begins to watch. What is read after this is followed by a signal for whatever comes later.
    pub(crate) fn on(state: &AppState, run_id: RunId) -> Self {
        let progress = state.store.signals().watch(run_id);
        Self { state: state.clone(), run_id, progress, look_at: next_look() }
    }

    /// Waits for something to happen. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Seen {
        loop {
            let notice = Instant::now() + NOTICE;
            tokio::select! {
                told = self.progress.recv() => match told {
                    Ok(Progress::Delta(text)) => return Seen::Delta(text),
                    Ok(Progress::Committed) | Err(RecvError::Lagged(_)) => return self.rows(),
                    Err(RecvError::Closed) => self.progress = self.state.store.signals().watch(self.run_id),
                },
                () = tokio::time::sleep_until(notice.min(self.look_at)) => {
                    if self.state.is_draining() {
                        return Seen::Draining;
                    }
                    if Instant::now() >= self.look_at {
                        return self.rows();
                    }
                }
            }
        }
    }

    fn rows(&mut self) -> Seen {
        self.look_at = next_look();
        Seen::Rows
    }
}

fn next_look() -> Instant {
    // The id's random part is as good a die as any.
    let third = LOOK_EVERY.as_millis() / 3;
    let less = uuid::Uuid::now_v7().as_u128() % third.max(1);
    Instant::now() + LOOK_EVERY - Duration::from_millis(u64::try_from(less).unwrap_or(0))
}

/// Holds on until the run ends or waits for somebody, `time` passes or the server goes down.
pub(crate) async fn until_settled(
    state: &AppState,
    tenant: TenantId,
    run_id: RunId,
    time: Duration,
) -> Result<(), Problem> {
    let over = Instant::now() + time;
    let mut watch = Watch::on(state, run_id);
    loop {
        let settled = state.store.tenant(tenant).await?.run_is_settled(run_id).await?;
        if settled.ok_or_else(Problem::not_found)? {
            return Ok(());
        }
        loop {
            match tokio::time::timeout_at(over, watch.next()).await {
                Err(_) | Ok(Seen::Draining) => return Ok(()),
                Ok(Seen::Rows) => break,
                Ok(Seen::Delta(_)) => {}
            }
        }
    }
}
