//! People's word on effects of which nobody knows.

use answerable_core::id::{LedgerId, RunId};
use answerable_store::{Resolve, ResolveRefused};
use axum::extract::State;

use crate::auth::{Decide, Tenant};
use crate::idempotency::{Once, Turn};
use crate::path::Ids;
use crate::problem::{Answer, Problem};
use crate::router::{Route, post};
use crate::shapes::evidence::{LedgerEntry, ResolveRequest, ResolvedState};
use crate::shapes::text;
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![post("/v1/runs/{run_id}/ledger/{ledger_id}/resolve", resolve)]
}

async fn resolve(
    State(state): State<AppState>,
    tenant: Tenant<Decide>,
    Ids(run_id, ledger_id): Ids<RunId, LedgerId>,
    once: Once<ResolveRequest>,
) -> Result<Answer, Problem> {
    let mut first = match once.key.begin(&state, tenant.id).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return Ok(replay.answer()),
    };
    let resolve = Resolve {
        applied: once.body.state == ResolvedState::Applied,
        content: once.body.content.map(text::of).transpose()?,
        note: once.body.note,
        by: tenant.who(),
    };
    let entry = first.tx.ledger_resolve(run_id, ledger_id, &resolve).await?.map_err(refusal)?;
    first.answer_with_run(Answer::ok(&LedgerEntry::from(entry))?, run_id.0).await
}

fn refusal(refused: ResolveRefused) -> Problem {
    match refused {
        ResolveRefused::NotFound => Problem::not_found(),
        ResolveRefused::NotUncertain => Problem::conflict("This entry is not uncertain."),
        ResolveRefused::AlreadyDecided => Problem::already_decided("This effect was settled the other way."),
    }
}
