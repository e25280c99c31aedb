//! One run, from the claim to the next wait or the end: load → step → commit → perform.

use std::sync::Arc;
use std::time::Duration;

use answerable_core::Millis;
use answerable_core::run::{Event, next_due};
use answerable_ports::{Claimed, StoreError, Wake};
use tokio::sync::watch;

use crate::commit::Settled;
use crate::env::Env;
use crate::late;
use crate::lease::Hold;
use crate::perform::Flight;
use crate::place;
use crate::session::{Session, answered, patiently};
use crate::starting::Start;

/// A queued run that was claimed and can't start is looked at again after this.
pub(crate) const NOT_YET: Millis = 1_000;
/// And one that makes no sense to this server after this.
const AFTER_BROKEN: Millis = 30_000;

/// What each line about a run says of it, as soon as it is known. It is there at every level that lets lines through.
pub(crate) fn run_span(claimed: &Claimed) -> tracing::Span {
    tracing::error_span!("run", run_id = %claimed.lease.run_id, trace_id = tracing::field::Empty)
}

/// Drives a claimed run until it waits, ends, or is another's. `start` is over when the run is taken up.
pub(crate) async fn drive(env: &Arc<Env>, claimed: Claimed, hold: &Arc<Hold>, start: Start) {
    let mut flight = Flight::default();
    let driven = tokio::select! {
        () = hold.lost.cancelled() => Ok(Driven::Lost),
        driven = take_up(env, claimed, hold, &mut flight, start) => driven,
    };
    match driven {
        Ok(Driven::Done) => {}
        Ok(Driven::Lost) => {
            // Also if it may still be this server's: nobody works on the run, so nobody may keep it.
            env.leases.lose(&claimed.lease);
            env.observer.lease_lost();
            tracing::info!("the lease is lost");
            late::after_fencing(env, claimed.lease, flight).await;
        }
        Err(error) => {
            drop(flight);
            give_back(env, claimed, &error).await;
        }
    }
}

/// How this server's work on a run came to an end.
enum Driven {
    /// The run waits, has ended, or was handed back.
    Done,
    /// It is another server's, or will be. Nothing more is begun or changed here.
    Lost,
}

/// Gives back a run that was claimed and not looked at.
pub(crate) async fn return_unused(env: &Env, claimed: Claimed) {
    if let Err(error) = answered(env.store.hand_back(claimed.lease, Wake::Now, 0)).await {
        tracing::warn!(run_id = %claimed.lease.run_id, %error, "a run can't be given back; left to its lease");
    }
}

/// This server can't make sense of the run: it is left for another one, or for this one when it was mended. Nothing is lost
/// by that, and it counts no death.
async fn give_back(env: &Env, claimed: Claimed, error: &StoreError) {
    tracing::error!(%error, "the run can't be worked on; it is looked at again later");
    let wake = Wake::At(env.now() + AFTER_BROKEN);
    if let Err(error) = patiently(|| env.store.hand_back(claimed.lease, wake, i64::MAX)).await {
        tracing::error!(%error, "the run can't be given back; left to its lease");
    }
}

async fn take_up(
    env: &Arc<Env>,
    claimed: Claimed,
    hold: &Arc<Hold>,
    flight: &mut Flight,
    start: Start,
) -> Result<Driven, StoreError> {
    let mut start = Some(start);
    // Before the load, so that nothing comes in unheard between the two.
    let inbox = env.signals.own_inbox(claimed.lease.run_id);
    let Some(loaded) = patiently(|| env.store.load(claimed.lease)).await? else { return Ok(Driven::Lost) };
    tracing::Span::current().record("trace_id", tracing::field::display(&loaded.trace_id));
    if loaded.state.is_ended() {
        // Its server died while calls were still out; nobody will learn of them.
        return patiently(|| env.store.settle_ended(claimed.lease)).await.map(|()| Driven::Done);
    }
    let mut session = Session::take_up(env, hold, claimed, loaded).await?;
    let mut rests = hold.rests.subscribe();
    let nothing_came = session.causes.is_empty();
    if session.state.status == answerable_core::run::Status::Queued && (nothing_came || *rests.borrow()) {
        if !nothing_came {
            // It stays as urgent as it is.
            session.known_inbox = 0;
        }
        return hand_back(&session, Wake::At(env.now() + NOT_YET)).await;
    }
    loop {
        let suspended = *rests.borrow_and_update();
        session.suspended(suspended);
        match session.settle(flight.writes_out()).await {
            Settled::GoesOn => flight.written(),
            Settled::Released => return Ok(Driven::Done),
            Settled::Gone => return Ok(Driven::Lost),
            Settled::EndedWithLateCalls { before, late } => {
                return late::finish(&session, flight, &before, late).await.map(|()| Driven::Done);
            }
        }
        if is_parked(&session) {
            // Nothing happened that a commit could tell of, and nothing is outstanding.
            let wake = next_due(&session.state).map_or(Wake::OnInbox, Wake::At);
            return hand_back(&session, wake).await;
        }
        let resting = env.drain.is_cancelled() || suspended;
        flight.launch(&session, resting);
        if resting && flight.is_empty() {
            return hand_back(&session, Wake::Now).await;
        }
        drop(start.take());
        if !wait(env, &mut session, flight, &inbox, &mut rests).await {
            return stop_hard(env, &session, flight).await;
        }
    }
}

fn is_parked(session: &Session) -> bool {
    session.state.status.is_waiting() && answerable_core::run::outstanding(&session.state).is_empty()
}

/// Waits until something happens; false: the time to finish is over.
async fn wait(
    env: &Env,
    session: &mut Session,
    flight: &mut Flight,
    inbox: &answerable_ports::OwnedInbox,
    rests: &mut watch::Receiver<bool>,
) -> bool {
    // Nothing fires in a run of a suspended tenant.
    let due = if session.state.suspended { None } else { next_due(&session.state) };
    tokio::select! {
        Some(cause) = flight.next(), if !flight.is_empty() => {
            session.causes.push(cause);
            // Outcomes that are there at the same moment ride in the same commit.
            while let Some(cause) = flight.ready() {
                session.causes.push(cause);
            }
        }
        () = inbox.came() => session.pull_inbox().await,
        () = sleep_until(env, due) => {
            let at = session.now();
            session.causes.push(Event::TimerFired { at }.into());
        }
        () = env.drain.cancelled(), if !env.drain.is_cancelled() => {}
        Ok(()) = rests.changed() => {}
        () = env.drained.cancelled() => return false,
    }
    true
}

async fn sleep_until(env: &Env, due: Option<Millis>) {
    match due {
        Some(due) => {
            tokio::time::sleep(Duration::from_millis(u64::try_from(due - env.now()).unwrap_or(0))).await
        }
        None => std::future::pending().await,
    }
}

/// The process must go. With a write out the lease is left to run out, and the next owner finds the write unclear;
/// otherwise the run is handed back and counts no death.
async fn stop_hard(env: &Env, session: &Session, flight: &Flight) -> Result<Driven, StoreError> {
    if flight.writes_out() {
        return Ok(Driven::Done);
    }
    env.store.hand_back(session.lease(), Wake::Now, session.known_inbox).await.map(|()| Driven::Done)
}

async fn hand_back(session: &Session, wake: Wake) -> Result<Driven, StoreError> {
    place::given_back(&session.places).await;
    let given = patiently(|| session.env.store.hand_back(session.lease(), wake, session.known_inbox));
    given.await.map(|()| Driven::Done)
}
