//! One run, from the claim to the next wait or the end: load → step → commit → perform.

use std::sync::Arc;
use std::time::Duration;

use answerable_core::Millis;
use answerable_core::id::LedgerId;
use answerable_core::ledger::Outcome;
use answerable_core::run::{Event, RunState, Stage, next_due};
use answerable_core::tool::Attempt;
use answerable_ports::{Claimed, StoreError, Wake};
use tokio_util::sync::CancellationToken;

use crate::commit::Settled;
use crate::draft::Late;
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
        return hand_back(&session, Wake::At(now() + NOT_YET)).await;
    }
    let mut flight = Flight::default();
    loop {
        match session.settle(flight.writes_out()).await {
            Settled::GoesOn => {}
            Settled::Released | Settled::Gone => return Ok(()),
            Settled::EndedWithLateCalls { before, late } => {
                return finish_late(&session, flight, &before, late).await;
            }
        }
        if is_parked(&session) {
            // Nothing happened that a commit could tell of, and nothing is outstanding.
            let wake = next_due(&session.state).map_or(Wake::OnInbox, Wake::At);
            return hand_back(&session, wake).await;
        }
        let draining = env.drain.is_cancelled();
        flight.launch(&session, draining);
        if draining && flight.is_empty() {
            return hand_back(&session, Wake::Now).await;
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
async fn wait(
    env: &Env,
    session: &mut Session,
    flight: &mut Flight,
    inbox: &answerable_ports::OwnedInbox,
) -> bool {
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
    env.store.hand_back(session.lease(), Wake::Now, session.known_inbox).await
}

async fn hand_back(session: &Session, wake: Wake) -> Result<(), StoreError> {
    patiently(|| session.env.store.hand_back(session.lease(), wake, session.known_inbox)).await
}

/// The run has ended; what its writes come to is still written down. `before`: the state in which they went out.
async fn finish_late(
    session: &Session,
    mut flight: Flight,
    before: &RunState,
    late: Vec<Late>,
) -> Result<(), StoreError> {
    flight.only_writes();
    for late in late {
        write_late(session, before, late).await?;
    }
    while let Some(cause) = flight.next().await {
        write_late(session, before, Late { event: cause.event, artifact: cause.artifact }).await?;
    }
    patiently(|| session.env.store.settle_ended(session.lease())).await
}

async fn write_late(session: &Session, before: &RunState, late: Late) -> Result<(), StoreError> {
    let Event::ToolAttempted { call, outcome, .. } = &late.event else { return Ok(()) };
    let Some(known) = before.call(*call) else { return Ok(()) };
    let Stage::Out { attempt, tainted } = known.stage else { return Ok(()) };
    let closed = late_outcome(known.writes, tainted, outcome);
    let store = &session.env.store;
    patiently(|| {
        store.late_outcome(session.lease(), LedgerId(call.0), attempt, closed, late.artifact.clone())
    })
    .await
}

/// What the last attempt says of a call. `tainted`: an earlier one may have happened, so only a success makes it clear.
fn late_outcome(writes: bool, tainted: bool, outcome: &Attempt) -> Outcome {
    match outcome {
        Attempt::Succeeded(_) => Outcome::succeeded(writes),
        Attempt::Refused(..) | Attempt::NotDone(..) if tainted => Outcome::uncertain(),
        Attempt::Unclear(..) if writes => Outcome::uncertain(),
        Attempt::Refused(code, _) | Attempt::NotDone(code, ..) | Attempt::Unclear(code, _) => {
            Outcome::failed(*code)
        }
    }
}

#[cfg(test)]
mod tests {
    use answerable_core::tool::{ErrorCode, Output};

    use super::*;

    #[test]
    fn an_earlier_attempt_that_may_have_happened_is_not_forgotten() {
        let refused = Attempt::Refused(ErrorCode::Conflict, "no".into());
        let busy = Attempt::NotDone(ErrorCode::RateLimited, "busy".into(), None);
        let cut = Attempt::Unclear(ErrorCode::Timeout, "late".into());
        for known in [&refused, &busy] {
            assert_eq!(late_outcome(true, true, known), Outcome::uncertain());
            assert_eq!(late_outcome(true, false, known).effect, answerable_core::ledger::Effect::None);
        }
        assert_eq!(late_outcome(true, false, &cut), Outcome::uncertain());
        assert_eq!(late_outcome(false, false, &cut), Outcome::failed(ErrorCode::Timeout));
        assert_eq!(
            late_outcome(true, true, &Attempt::Succeeded(Output::plain(""))),
            Outcome::succeeded(true)
        );
    }
}
