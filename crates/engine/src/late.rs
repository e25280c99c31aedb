//! Calls that come in when their run no longer waits for them: it has ended, or another server has it. What they came to
//! is a fact and goes to the ledger; the run itself is not touched.

use std::sync::Arc;
use std::time::Duration;

use answerable_core::id::LedgerId;
use answerable_core::ledger::Outcome;
use answerable_core::run::{Event, RunState, Stage};
use answerable_core::tool::{Attempt, ErrorCode};
use answerable_ports::{LateOutcome, Lease, StoreError};

use crate::draft::Late;
use crate::env::Env;
use crate::perform::Flight;
use crate::session::{Session, patiently};

/// Pause between two looks whether the run's new owner has said what it takes a call for.
const OWNER_LOOK: Duration = Duration::from_millis(500);
/// Looks; after that its word stands.
const MAX_LOOKS: u32 = 240;

/// The run has ended; what its writes come to is still written down. `before`: the state in which they went out.
pub(crate) async fn finish(
    session: &Session,
    flight: &mut Flight,
    before: &RunState,
    late: Vec<Late>,
) -> Result<(), StoreError> {
    for unsent in flight.only_writes() {
        let outcome =
            if unsent.tainted { Outcome::uncertain() } else { Outcome::failed(ErrorCode::Cancelled) };
        let (ledger_id, attempts) = (LedgerId(unsent.call.0), unsent.attempt);
        let late = LateOutcome { ledger_id, attempts, outcome, content: None, artifact: None };
        patiently(|| session.env.store.late_outcome(session.lease(), &late)).await?;
    }
    for late in late {
        write(session, before, late).await?;
    }
    while let Some(cause) = flight.next().await {
        write(session, before, Late { event: cause.event, artifact: cause.artifact }).await?;
    }
    patiently(|| session.env.store.settle_ended(session.lease())).await
}

async fn write(session: &Session, before: &RunState, late: Late) -> Result<(), StoreError> {
    let Event::ToolAttempted { call, outcome, .. } = &late.event else { return Ok(()) };
    let Some(known) = before.call(*call) else { return Ok(()) };
    let Stage::Out { attempt, tainted } = known.stage else { return Ok(()) };
    let late = LateOutcome {
        ledger_id: LedgerId(call.0),
        attempts: attempt,
        outcome: late_outcome(known.writes, tainted, outcome),
        content: content(outcome),
        artifact: late.artifact,
    };
    patiently(|| session.env.store.late_outcome(session.lease(), &late)).await?;
    Ok(())
}

/// The run is another server's. Reads and calls that it sends again are given up; a write that nobody sends again is let
/// finish within its own time, for nobody else will learn what became of it.
pub(crate) async fn after_fencing(env: &Arc<Env>, lease: Lease, mut flight: Flight) {
    flight.only_unrepeatable();
    while let Some((cause, attempt, tainted)) = flight.next_write().await {
        let Event::ToolAttempted { call, outcome, .. } = &cause.event else { continue };
        let late = LateOutcome {
            ledger_id: LedgerId(call.0),
            attempts: attempt,
            outcome: late_outcome(true, tainted, outcome),
            content: content(outcome),
            artifact: cause.artifact,
        };
        for _ in 0..MAX_LOOKS {
            match patiently(|| env.store.late_outcome(lease, &late)).await {
                Ok(false) => tokio::time::sleep(OWNER_LOOK).await,
                Ok(true) => break,
                Err(error) => {
                    tracing::error!(run_id = %lease.run_id, %error, "a late outcome can't be written");
                    break;
                }
            }
        }
    }
}

fn content(outcome: &Attempt) -> Option<String> {
    match outcome {
        Attempt::Succeeded(output) => Some(output.content.clone()),
        _ => None,
    }
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
    use answerable_core::tool::Output;

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
