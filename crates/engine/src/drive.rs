//! One run, from the claim to the next wait or the end: load → step → commit → perform.

use std::sync::Arc;
use std::time::Duration;

use answerable_core::Millis;
use answerable_core::id::LedgerId;
use answerable_core::ledger::Outcome;
use answerable_core::run::{Event, next_due};
use answerable_core::tool::Attempt;
use answerable_ports::{Claimed, StoreError, Wake};
use tokio_util::sync::CancellationToken;

use crate::commit::{Late, Settled};
use crate::env::{Env, now};
use crate::perform::Flight;
use crate::session::{Session, patiently};

/// A queued run that was claimed and can't start is looked at again after this.
pub(crate) const NOT_YET: Millis = 1_000;

/// Drives a claimed run until it waits, ends, or is another's.
pub(crate) async fn drive(env: &Arc<Env>, claimed: Claimed, lost: &CancellationToken) {
    tokio::select! {
        // Whatever is under way here is dropped with its future; nothing of it can be written any more.
        () = lost.cancelled() => {
            env.observer.lease_lost();
            tracing::info!(run_id = %claimed.lease.run_id, "the lease is lost");
        }
        driven = take_up(env, claimed) => {
            if let Err(error) = driven {
                tracing::error!(run_id = %claimed.lease.run_id, %error, "the run can't be worked on");
            }
        }
    }
}

async fn take_up(env: &Arc<Env>, claimed: Claimed) -> Result<(), StoreError> {
    // Before the load, so that nothing comes in unheard between the two.
    let inbox = env.signals.own_inbox(claimed.lease.run_id);
    let Some(loaded) = patiently(|| env.store.load(claimed.lease)).await? else { return Ok(()) };
    if loaded.state.is_ended() {
        // Its server died while calls were still out; nobody will learn of them.
        return patiently(|| env.store.settle_ended(claimed.lease)).await;
    }
    let mut session = Session::take_up(env, claimed, loaded).await?;
    if session.causes.is_empty() && session.state.status == answerable_core::run::Status::Queued {
        return patiently(|| env.store.hand_back(claimed.lease, Wake::At(now() + NOT_YET))).await;
    }
    let mut flight = Flight::default();
    loop {
        match session.settle(flight.writes_out()).await {
            Settled::GoesOn => {}
            Settled::Released | Settled::Gone => return Ok(()),
            Settled::EndedWithLateCalls(late) => return finish_late(&session, flight, late).await,
        }
        if is_parked(&session) {
            // Nothing happened that a commit could tell of, and nothing is outstanding.
            let wake = next_due(&session.state).map_or(Wake::OnInbox, Wake::At);
            return patiently(|| env.store.hand_back(session.lease(), wake)).await;
        }
        if env.drain.is_cancelled() {
            if flight.is_empty() {
                return patiently(|| env.store.hand_back(session.lease(), Wake::Now)).await;
            }
        } else {
            flight.launch(&session);
        }
        if !wait(env, &mut session, &mut flight, &inbox).await {
            return stop_hard(env, &session, &flight).await;
        }
    }
}

fn is_parked(session: &Session) -> bool {
    session.state.status.is_waiting() && answerable_core::run::outstanding(&session.state).is_empty()
}

/// Waits until something happens; false: the time to finish is over.
async fn wait(env: &Env, session: &mut Session, flight: &mut Flight, inbox: &answerable_ports::OwnedInbox) -> bool {
    let due = next_due(&session.state);
    tokio::select! {
        Some(cause) = flight.next(), if !flight.is_empty() => {
            session.causes.push(cause);
            // Outcomes that are there at the same moment ride in the same commit.
            while let Some(cause) = flight.ready() {
                session.causes.push(cause);
            }
        }
        () = inbox.came() => session.pull_inbox().await,
        () = sleep_until(due) => {
            let at = session.now();
            session.causes.push(Event::TimerFired { at }.into());
        }
        () = env.drain.cancelled(), if !env.drain.is_cancelled() => {}
        () = env.drained.cancelled() => return false,
    }
    true
}

async fn sleep_until(due: Option<Millis>) {
    match due {
        Some(due) => tokio::time::sleep(Duration::from_millis(u64::try_from(due - now()).unwrap_or(0))).await,
        None => std::future::pending().await,
    }
}

/// The process must go. With a write out the lease is left to run out, and the next owner finds the write unclear;
/// otherwise the run is handed back and counts no death.
async fn stop_hard(env: &Env, session: &Session, flight: &Flight) -> Result<(), StoreError> {
    if flight.writes_out() {
        return Ok(());
    }
    env.store.hand_back(session.lease(), Wake::Now).await
}

/// The run has ended; what its writes come to is still written down.
async fn finish_late(session: &Session, mut flight: Flight, late: Vec<Late>) -> Result<(), StoreError> {
    flight.only_writes();
    for late in late {
        write_late(session, late).await?;
    }
    while let Some(cause) = flight.next().await {
        write_late(session, Late { event: cause.event, artifact: cause.artifact }).await?;
    }
    patiently(|| session.env.store.settle_ended(session.lease())).await
}

async fn write_late(session: &Session, late: Late) -> Result<(), StoreError> {
    let Event::ToolAttempted { call, outcome, .. } = &late.event else { return Ok(()) };
    let writes = session.state.call(*call).is_some_and(|call| call.writes);
    let closed = match outcome {
        Attempt::Succeeded(_) => Outcome::succeeded(writes),
        Attempt::Refused(code, _) | Attempt::NotDone(code, ..) => Outcome::failed(*code),
        Attempt::Unclear(..) if writes => Outcome::uncertain(),
        Attempt::Unclear(code, _) => Outcome::failed(*code),
    };
    let store = &session.env.store;
    patiently(|| store.late_outcome(session.lease(), LedgerId(call.0), 1, closed, late.artifact.clone())).await
}
