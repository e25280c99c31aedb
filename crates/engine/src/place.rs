//! The limits of tools: a call of one that has any waits here for its turn, before it leaves.

use std::sync::Arc;
use std::time::Duration;

use answerable_core::agent::ToolSpec;
use answerable_core::id::CallId;
use answerable_core::run::{RunState, Stage};
use answerable_core::tool::{Attempt, ErrorCode};
use answerable_ports::{Lease, PlaceTaken, PlaceWanted, Placed, StoreError};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::env::Env;
use crate::gate::Gate;
use crate::line::Lines;
use crate::session::patiently;

/// How long past its attempt's own time a place is kept for a call whose server says nothing more.
const HOLD_GRACE: Duration = Duration::from_secs(60);
/// How long it is tried to give a place back. After that it is free with the call's outcome.
const FREE_FOR: Duration = Duration::from_secs(30);
/// How long it is waited for by who lets go of a run.
const FREE_SOON: Duration = Duration::from_secs(2);

/// Places of this process's calls.
#[derive(Debug, Default)]
pub(crate) struct Places {
    lines: Lines,
    /// Those that are not given back yet.
    pub(crate) open: TaskTracker,
}

/// Waits until places are given back: as long as one isn't, whoever has the run next must think that its call has left.
pub(crate) async fn given_back(open: &TaskTracker) {
    open.close();
    if timeout(FREE_SOON, open.wait()).await.is_err() {
        tracing::warn!(places = open.len(), "places among tools' calls are not given back");
    }
}

/// Whether calls of a tool may have to wait for their turn.
pub(crate) fn is_limited(tool: &ToolSpec) -> bool {
    tool.max_concurrent.is_some() || tool.rate.is_some()
}

/// A place among a tool's calls, or in the line for one. Dropped, it is given back.
pub(crate) struct Place {
    env: Arc<Env>,
    lease: Lease,
    place: PlaceTaken,
    gate: Arc<Gate>,
    /// Told when it is given back: its run, and its process.
    open: [TaskTrackerToken; 2],
}

impl Place {
    pub(crate) fn new(
        env: &Arc<Env>,
        lease: Lease,
        place: PlaceTaken,
        gate: &Arc<Gate>,
        of_run: &TaskTracker,
    ) -> Self {
        let open = [of_run.token(), env.places.open.token()];
        let (env, gate) = (Arc::clone(env), Arc::clone(gate));
        Self { env, lease, place, gate, open }
    }

    /// Waits for its turn, as long as an attempt may take. `Ok(Some)`: it didn't come.
    pub(crate) async fn wait(&self, tool: &ToolSpec) -> Result<Option<Attempt>, StoreError> {
        let patience = Duration::from_millis(tool.timeout_ms());
        let deadline = Instant::now() + patience;
        let wanted = PlaceWanted {
            tool_name: self.place.tool_name.clone(),
            call_id: self.place.call_id,
            attempt: self.place.attempt,
            max_concurrent: tool.max_concurrent,
            rate: tool.rate,
            hold: patience + HOLD_GRACE,
        };
        loop {
            match patiently(|| self.ask(&wanted)).await? {
                Placed::Taken => return Ok(None),
                // Whoever awaits this is dropped as soon as that is known here too.
                Placed::Lost => std::future::pending().await,
                Placed::Wait(pause) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(Some(too_long(patience)));
                    }
                    sleep(pause.min(left)).await;
                }
            }
        }
    }

    async fn ask(&self, wanted: &PlaceWanted) -> Result<Placed, StoreError> {
        let _turn = self.env.places.lines.turn(self.lease.tenant_id, &self.place.tool_name).await;
        self.env.store.take_place(self.lease, wanted).await
    }
}

fn too_long(patience: Duration) -> Attempt {
    let message = format!(
        "other calls of this tool are in the way: its limits let none more out within {} ms; nothing was sent",
        patience.as_millis()
    );
    Attempt::NotDone(ErrorCode::RateLimited, message, None)
}

impl Drop for Place {
    fn drop(&mut self) {
        // Without a runtime the process ends, and the place is free with the call's outcome.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (env, lease, left) = (Arc::clone(&self.env), self.lease, self.gate.has_left());
        let (place, open) = (self.place.clone(), self.open.clone());
        runtime.spawn(async move {
            let _open = open;
            let free = || async {
                let _turn = env.places.lines.turn(lease.tenant_id, &place.tool_name).await;
                env.store.free_place(lease, &place, left).await
            };
            if !matches!(timeout(FREE_FOR, patiently(free)).await, Ok(Ok(()))) {
                tracing::warn!(tool = place.tool_name, "a place among a tool's calls was not given back");
            }
        });
    }
}

/// Calls that are written down as out and have never had their turn: nothing of this attempt has left.
pub(crate) fn unsent<'t>(
    state: &RunState,
    tool: impl Fn(&str) -> Option<&'t ToolSpec>,
    taken: &[PlaceTaken],
) -> Vec<CallId> {
    let waits = |call: &&answerable_core::run::Call| {
        let Stage::Out { attempt, .. } = call.stage else { return false };
        let place = PlaceTaken { tool_name: call.tool_name.clone(), call_id: call.id, attempt };
        tool(&call.tool_name).is_some_and(is_limited) && !taken.contains(&place)
    };
    state.calls.iter().filter(waits).map(|call| call.id).collect()
}
