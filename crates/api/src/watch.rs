//! Watching a run: signals say when to look, and now and then a look without one makes up for those that were lost.

use std::time::Duration;

use answerable_core::id::{RunId, TenantId};
use answerable_store::TenantTx;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::auth::{Stay, Tenant};
use crate::problem::Problem;
use crate::state::AppState;

/// Time without a look after which one is due. Doubles with each that found nothing was told, for a run that waits for a
/// person may wait for days; up to a third is left out at random, so that watchers don't look all at once.
const LOOK_AFTER: Duration = Duration::from_secs(3);
const LOOK_AT_LEAST: Duration = Duration::from_secs(24);
/// So many a second at most look without a signal, of all that watch: where many do, each looks less often.
const LOOKS_PER_SECOND: usize = 100;
/// How long a request goes on trying to see its run before and after it waits.
pub(crate) const LOOK_PATIENCE: Duration = Duration::from_secs(5);
/// The same while the server goes down: the answer must leave before it does.
const LAST_LOOK: Duration = Duration::from_secs(1);

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
/// streams, for they hold a connection as these do, and looks when one of these might. Where there is none it is looked once.
///
/// # Errors
/// There is something to wait for and no place, who waits may be here no longer, or the run isn't there. That can't be told,
/// unless it `is_known` that it is there.
pub(crate) async fn until_settled<S>(
    state: &AppState,
    tenant: &Tenant<S>,
    (run_id, is_known): (RunId, bool),
    time: Duration,
) -> Result<(), Problem> {
    let (over, soon) = (Instant::now() + time, Instant::now() + LOOK_PATIENCE);
    let place = state.take_stream(tenant.id).map(|place| tenant.waits(place));
    let (watch, stay) = (Watch::on(state, run_id), tenant.standing.watch(state));
    let mut waiting = Waiting { state, tenant: tenant.id, run_id, watch, stay };
    match waiting.look(if is_known { soon.min(over) } else { soon }).await? {
        Some(true) => return Ok(()),
        None if !is_known => return Err(Problem::unavailable(1)),
        _ if over <= Instant::now() => return Ok(()),
        _ => {}
    }
    place.map_err(|why| state.stream_refused(why))?;
    while waiting.goes_on(over).await? && waiting.look(over).await? == Some(false) {}
    Ok(())
}

/// A request that waits for a run.
struct Waiting<'a> {
    state: &'a AppState,
    tenant: TenantId,
    run_id: RunId,
    watch: Watch,
    stay: Stay,
}

impl Waiting<'_> {
    /// Whether it is settled; `None`: that was not seen in time.
    async fn look(&mut self, until: Instant) -> Result<Option<bool>, Problem> {
        let run_id = self.run_id;
        let looking = in_turn(self.state, self.tenant, until, move |mut tx| async move {
            tx.run_is_settled(run_id).await?.ok_or_else(Problem::not_found)
        });
        tokio::select! {
            problem = self.stay.over() => Err(problem),
            settled = looking => settled,
        }
    }

    /// Waits for a reason to look. Whether there is one before that time, and before the server goes down.
    async fn goes_on(&mut self, over: Instant) -> Result<bool, Problem> {
        tokio::select! {
            problem = self.stay.over() => Err(problem),
            seen = tokio::time::timeout_at(over, self.watch.next()) => Ok(matches!(seen, Ok(Seen::Rows))),
        }
    }
}

/// What a request that waits or has waited reads, when it is its turn: many may wait for the same. `None`: not until then, or
/// not soon enough for a server that goes down. What has begun keeps its turn until the database has answered, also where
/// nobody wants it any more.
///
/// # Errors
/// What the reading says, or the database is away.
pub(crate) async fn in_turn<T, F>(
    state: &AppState,
    tenant: TenantId,
    until: Instant,
    read: impl FnOnce(TenantTx) -> F + Send + 'static,
) -> Result<Option<T>, Problem>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Problem>> + Send,
{
    let reading = async {
        let patience = until.saturating_duration_since(Instant::now());
        let Ok(turn) = state.stream_read(tenant, patience).await else { return Ok(None) };
        let store = state.store.clone();
        let reading = tokio::spawn(async move {
            let _turn = turn;
            read(store.tenant(tenant).await?).await
        });
        reading.await.map_err(|error| Problem::internal(error.to_string()))?.map(Some)
    };
    let mut draining = state.config.draining.clone();
    let hurries = async {
        drains(&mut draining).await;
        tokio::time::sleep(LAST_LOOK).await;
    };
    tokio::select! {
        read = tokio::time::timeout_at(until, reading) => read.unwrap_or(Ok(None)),
        () = hurries => Ok(None),
    }
}
