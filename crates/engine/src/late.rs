//! Calls that come in when their run no longer waits for them: it has ended, or another server has it. What they came to
//! is a fact and goes to the ledger; the run itself is not touched.

use std::sync::Arc;
use std::time::Duration;

use answerable_core::id::{CallId, LedgerId};
use answerable_core::ledger::Outcome;
use answerable_core::run::{Event, RunState, Stage};
use answerable_core::tool::{Attempt, ErrorCode};
use answerable_ports::commit::StoredArtifact;
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
    // The commit tells of the rest.
    flight.written();
    flight.owed.extend(late.into_iter().filter_map(|late| came_before(before, late)));
    flight.only_writes();
    flight.call_off(&*session.env.tools);
    loop {
        // Each is kept until it is written: if the lease is lost meanwhile, `after_fencing` goes on from here.
        while let Some(owed) = flight.owed.last() {
            tell(&session.env, session.lease(), owed).await;
            flight.owed.pop();
        }
        if flight.next().await.is_none() {
            break;
        }
    }
    patiently(|| session.env.store.settle_ended(session.lease())).await
}

/// The run is another server's, or will be. Reads and calls that it sends again are given up, and nothing leaves any more; a
/// write that nobody sends again is let finish within its own time, for nobody else will learn what became of it.
pub(crate) async fn after_fencing(env: &Arc<Env>, lease: Lease, mut flight: Flight) {
    flight.only_unrepeatable();
    loop {
        while let Some(owed) = flight.owed.pop() {
            for _ in 0..MAX_LOOKS {
                if tell(env, lease, &owed).await {
                    break;
                }
                tokio::time::sleep(OWNER_LOOK).await;
            }
        }
        if !flight.next_owed().await {
            return;
        }
    }
}

/// Writes an outcome down; false: it is for the new owner to speak first.
async fn tell(env: &Env, lease: Lease, owed: &LateOutcome) -> bool {
    patiently(|| env.store.late_outcome(lease, owed)).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a late outcome can't be written");
        true
    })
}

/// A call whose outcome came in with the very end of its run.
fn came_before(before: &RunState, late: Late) -> Option<LateOutcome> {
    let Event::ToolAttempted { call, outcome, .. } = &late.event else { return None };
    let known = before.call(*call)?;
    let Stage::Out { attempt, tainted } = known.stage else { return None };
    let closed = late_outcome(known.writes, tainted, outcome);
    Some(LateOutcome { outcome: closed, ..came(*call, attempt, tainted, outcome, late.artifacts) })
}

/// What a write came to.
pub(crate) fn came(
    call: CallId,
    attempts: u32,
    tainted: bool,
    outcome: &Attempt,
    artifacts: Vec<StoredArtifact>,
) -> LateOutcome {
    let content = match outcome {
        Attempt::Succeeded(output) => Some(output.content.clone()),
        _ => None,
    };
    let outcome = late_outcome(true, tainted, outcome);
    LateOutcome { ledger_id: LedgerId(call.0), attempts, outcome, content, artifacts }
}

/// A write that was written down as out, and was called back before it left.
pub(crate) fn unsent(call: CallId, attempts: u32, tainted: bool, code: ErrorCode) -> LateOutcome {
    let outcome = if tainted { Outcome::uncertain() } else { Outcome::failed(code) };
    LateOutcome { ledger_id: LedgerId(call.0), attempts, outcome, content: None, artifacts: Vec::new() }
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
