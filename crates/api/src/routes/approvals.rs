//! Approvals, and deciding them with a key.

use answerable_core::id::ApprovalId;
use answerable_store::{DecisionRefused, TenantTx, Voter};
use axum::extract::State;

use crate::auth::{Decide, ReadOrDecide, Tenant};
use crate::idempotency::{Once, Turn};
use crate::path::Id;
use crate::problem::{Answer, Problem};
use crate::request_id::RequestId;
use crate::router::{Route, get, post};
use crate::shapes::approvals::{
    Approval, BulkDecisionRequest, BulkDecisionResult, DecisionRequest, DecisionResult,
};
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![post("/v1/approvals/decisions", decide_many), get("/v1/approvals/{approval_id}", fetch)]
}

async fn fetch(
    State(state): State<AppState>,
    tenant: Tenant<ReadOrDecide>,
    Id(approval_id): Id<ApprovalId>,
) -> Result<Answer, Problem> {
    let row = state.store.tenant(tenant.id).await?.approval_fetch(approval_id).await?;
    Answer::ok(&row.map(Approval::from).ok_or_else(Problem::not_found)?)
}

async fn decide_many(
    State(state): State<AppState>,
    tenant: Tenant<Decide>,
    request_id: RequestId,
    once: Once<BulkDecisionRequest>,
) -> Result<Answer, Problem> {
    let mut first = match once.key.begin(&state, tenant.id).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return Ok(replay.answer()),
    };
    let decisions = once.body.decisions;
    let known: Vec<ApprovalId> = decisions.iter().filter_map(|decision| approval_of(decision).ok()).collect();
    first.tx.approvals_lock(&known).await?;
    let mut results = Vec::with_capacity(decisions.len());
    for decision in decisions {
        let approval_id = decision.approval_id.clone().unwrap_or_default();
        let result = match approval_of(&decision) {
            Ok(approval) => decide_apart(&mut first.tx, approval, decision, &tenant.voter()).await?,
            Err(problem) => Err(problem),
        };
        if let Err(problem) = &result {
            problem.log(&request_id.0, || state.complains());
        }
        results.push(DecisionResult::of(approval_id, result, &request_id.0));
    }
    let is_whole = !results.iter().any(DecisionResult::is_ours);
    let answer = Answer::ok(&BulkDecisionResult { results })?;
    // Whoever sends it again is to get the rest done, too: what was decided is then the same decision.
    if is_whole { first.answer(answer).await } else { first.answer_for_now(answer).await }
}

fn approval_of(decision: &DecisionRequest) -> Result<ApprovalId, Problem> {
    decision.approval_id.as_deref().and_then(|id| id.parse().ok()).ok_or_else(Problem::not_found)
}

/// Decides one of many. Where it is broken (a policy that can't be read, say) that is its own result, and spoils no other.
async fn decide_apart(
    tx: &mut TenantTx,
    approval_id: ApprovalId,
    request: DecisionRequest,
    voter: &Voter,
) -> Result<Result<Approval, Problem>, Problem> {
    let place = tx.savepoint().await?;
    match decide(tx, approval_id, request, voter).await {
        Err(problem) if problem.is_internal() => {
            tx.go_back(place).await?;
            Ok(Err(problem))
        }
        // Nothing can be done in this transaction any more, or by this server.
        Err(problem) => Err(problem),
        Ok(result) => {
            tx.keep(place).await?;
            Ok(result)
        }
    }
}

/// Decides one. The outer error is the server's: then nothing of the request is done.
pub(super) async fn decide(
    tx: &mut TenantTx,
    approval_id: ApprovalId,
    request: DecisionRequest,
    voter: &Voter,
) -> Result<Result<Approval, Problem>, Problem> {
    let decision = match request.read() {
        Ok(decision) => decision,
        Err(problem) => return Ok(Err(problem)),
    };
    let decided = tx.approval_decide(approval_id, &decision, voter).await?;
    Ok(decided.map(Approval::from).map_err(refusal))
}

fn refusal(refused: DecisionRefused) -> Problem {
    match refused {
        DecisionRefused::NotFound => Problem::not_found(),
        DecisionRefused::OtherInput => {
            Problem::conflict("The approval is of another input than input_hash says.")
        }
        DecisionRefused::OtherVote => Problem::conflict("You have voted for something else already."),
        DecisionRefused::KeyGone => Problem::unauthorized(),
        DecisionRefused::OwnRun => {
            Problem::forbidden("Whoever started the run may not approve or answer this; somebody else must.")
        }
        DecisionRefused::NobodyInParticular => Problem::forbidden(
            "A link doesn't say who decides, and this needs named deciders: approve or answer it with a key.",
        ),
        DecisionRefused::AlreadyDecided => Problem::already_decided("This approval was decided otherwise."),
        DecisionRefused::Expired => Problem::expired("This approval has expired or was cancelled."),
        DecisionRefused::Invalid(faults) => Problem::invalid(faults),
    }
}
