//! Claims runs and gives each a task.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use answerable_ports::{Claimed, Claims, Room, StoreError};
use futures::FutureExt as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::children;
use crate::drive;
use crate::env::Env;
use crate::lease::{self, hold};
use crate::place;
use crate::round::Round;

/// Runs of dead servers that are taken over at once.
const BATCH: usize = 64;
/// Places beyond the limit, for runs that were cancelled or are over: they take no time.
const RESERVE: usize = 16;
/// Longest time between two looks for work; a signal shortens it.
const LOOK_EVERY: Duration = Duration::from_millis(400);
/// Shortest time that a claim is given to be answered.
const CLAIM_PATIENCE: Duration = Duration::from_secs(10);
/// Longest time between two looks for dead servers' runs.
const RECLAIM_EVERY: Duration = Duration::from_millis(500);

/// Claims and drives runs until the engine is drained.
pub(crate) async fn run(env: Arc<Env>) {
    let stop = CancellationToken::new();
    let heartbeat = tokio::spawn(lease::heartbeat(Arc::clone(&env), stop.clone()));
    let telling = tokio::spawn(children::tell(Arc::clone(&env), stop.clone()));
    let mut tasks = JoinSet::new();
    let mut reclaimed_at: Option<Instant> = None;
    let mut round = Round::default();
    while !env.drain.is_cancelled() {
        let mut more = false;
        // Before what is new, which would leave them no room on a busy server.
        if reclaimed_at.is_none_or(|at| at.elapsed() >= RECLAIM_EVERY) {
            more |= reclaim(&env, &mut tasks).await;
            reclaimed_at = Some(Instant::now());
        }
        let looked = claim(&env, &mut round, &mut tasks).await;
        while tasks.try_join_next().is_some() {}
        if !more && !looked.more {
            rest(&env, looked.rest).await;
            wait_for_work(&env, &mut tasks).await;
        }
    }
    finish(&env, tasks).await;
    stop.cancel();
    // They only wait for the token.
    let _ = tokio::join!(heartbeat, telling);
}

/// Waits whatever is signalled: what came meanwhile is heard of after it.
async fn rest(env: &Env, rest: Duration) {
    tokio::select! {
        () = env.drain.cancelled() => {}
        () = tokio::time::sleep(rest) => {}
    }
}

/// Waits for a signal, for room, or for the next look.
async fn wait_for_work(env: &Env, tasks: &mut JoinSet<()>) {
    let full = env.running.load(Ordering::Relaxed) >= env.config.max_running;
    let pause = LOOK_EVERY.mul_f64(rand::random_range(0.75..1.25));
    tokio::select! {
        () = env.drain.cancelled() => {}
        () = env.signals.work(), if !full => {}
        Some(_) = tasks.join_next(), if full => {}
        () = env.starting.freed(), if !full => {}
        () = tokio::time::sleep(pause) => {}
    }
}

/// What a claim leaves to do.
#[derive(Default)]
struct Looked {
    /// There may be more that is due.
    more: bool,
    /// So long this server lets others look.
    rest: Duration,
}

/// Claims what is due. A full server still takes what was cancelled and what is over, at once. None
/// claims other runs faster than it takes up what it has claimed: what waits in the queue can still be put in order.
async fn claim(env: &Arc<Env>, round: &mut Round, tasks: &mut JoinSet<()>) -> Looked {
    let (running, most) = (env.running.load(Ordering::Relaxed), env.config.max_running);
    let pressing = running >= most;
    let places = (if pressing { most + RESERVE } else { most }).saturating_sub(running);
    let (limit, except) = env.starting.room(places, pressing);
    let room = Room { limit, pressing, except: &except };
    if room.limit == 0 {
        return Looked::default();
    }
    let asked = Instant::now();
    match in_time(env, env.store.claim(env.config.server, &room, env.config.lease_for)).await {
        Ok(Claims { runs, more }) => {
            let rest = round.looked(asked.elapsed(), !runs.is_empty(), more);
            runs.into_iter().for_each(|claimed| spawn(env, tasks, claimed, asked));
            Looked { more, rest }
        }
        Err(error) => {
            env.unsure.store(true, Ordering::Relaxed);
            tracing::warn!(%error, "no runs could be claimed");
            tokio::time::sleep(LOOK_EVERY).await;
            Looked::default()
        }
    }
}

/// Waits for what was claimed no longer than a lease: an answer after that is of no use, and on a line that has gone dead
/// without a word none would ever come.
async fn in_time<T>(env: &Env, asked: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let answer = tokio::time::timeout(env.config.lease_for.max(CLAIM_PATIENCE), asked).await;
    answer.unwrap_or_else(|_| Err(StoreError::Away("it doesn't answer".into())))
}

/// After a claim whose answer was lost, gives back what this server has by it and doesn't know of: nobody works on that, and
/// it must not count as a death. False: the database doesn't answer.
async fn put_back(env: &Env) -> bool {
    if !env.unsure.load(Ordering::Relaxed) {
        return true;
    }
    match in_time(env, env.store.put_back(env.config.server, &env.leases.runs())).await {
        Ok(given_back) => {
            env.unsure.store(false, Ordering::Relaxed);
            if given_back > 0 {
                tracing::info!(
                    runs = given_back,
                    "runs given back that were claimed without this server's knowledge"
                );
            }
            true
        }
        Err(error) => {
            tracing::debug!(%error, "what was claimed can't be looked up");
            false
        }
    }
}

/// Claims what dead servers left; true if there may be more.
async fn reclaim(env: &Arc<Env>, tasks: &mut JoinSet<()>) -> bool {
    // Also without room: what this server has unknowingly would wait for its lease to run out.
    if !put_back(env).await {
        return false;
    }
    let room = env.config.max_running.saturating_sub(env.running.load(Ordering::Relaxed)).min(BATCH);
    if room == 0 {
        return false;
    }
    let asked = Instant::now();
    let held = env.leases.runs();
    match in_time(env, env.store.reclaim(env.config.server, room, env.config.lease_for, &held)).await {
        Ok(claimed) => {
            let more = claimed.len() == room;
            for claimed in claimed {
                env.observer.taken_over();
                tracing::info!(run_id = %claimed.lease.run_id, deaths = claimed.deaths, "run taken over from a dead server");
                spawn(env, tasks, claimed, asked);
            }
            more
        }
        Err(error) => {
            env.unsure.store(true, Ordering::Relaxed);
            tracing::warn!(%error, "no runs could be taken over");
            false
        }
    }
}

/// Gives a claimed run a task. `asked`: when the claim was asked for, which its lease counts from.
fn spawn(env: &Arc<Env>, tasks: &mut JoinSet<()>, claimed: Claimed, asked: Instant) {
    let env = Arc::clone(env);
    if !env.leases.is_fresh(asked) {
        // The answer took so long that the lease is as good as over: not to be counted as a death.
        tasks.spawn(async move { drive::return_unused(&env, claimed).await });
        return;
    }
    let held = hold(&env, claimed.lease, asked);
    env.running.fetch_add(1, Ordering::Relaxed);
    let (span, start) = (drive::run_span(&claimed), env.starting.begin(claimed.lease.tenant_id));
    let work = async move {
        let driven =
            std::panic::AssertUnwindSafe(drive::drive(&env, claimed, &held.hold, start)).catch_unwind().await;
        if driven.is_err() {
            // The lease runs out and the run is taken up again; a run that always does this ends as a crash loop.
            tracing::error!("the task of a run panicked");
        }
        drop(held);
        env.running.fetch_sub(1, Ordering::Relaxed);
    };
    tasks.spawn(work.instrument(span));
}

/// Lets running tasks finish or hand back, for as long as they may.
async fn finish(env: &Env, mut tasks: JoinSet<()>) {
    let all_done = async {
        put_back(env).await;
        while tasks.join_next().await.is_some() {}
    };
    if tokio::time::timeout(env.config.drain_for, all_done).await.is_err() {
        env.drained.cancel();
        let all_done = async { while tasks.join_next().await.is_some() {} };
        // What is still out after this is left to its lease: another server finds it unclear and says so.
        let _ = tokio::time::timeout(Duration::from_secs(2), all_done).await;
    }
    // What is still out gives its place back when it is dropped.
    drop(tasks);
    place::given_back(&env.places.open).await;
}
