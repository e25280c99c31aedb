//! Approvals, and deciding them with a key.

use answerable_core::id::{ApprovalId, RunId};
use answerable_store::{ApprovalFilter, DecisionRefused, TenantTx};
use axum::extract::State;

use crate::auth::{Decide, ReadOrDecide, Tenant};
use crate::idempotency::{Once, Turn};
use crate::page::{self, Page};
use crate::path::Id;
use crate::problem::{Answer, Problem};
use crate::query::Params;
use crate::request_id::RequestId;
use crate::router::{Route, get, post};
use crate::shapes::approvals::{
    Approval, BulkDecisionRequest, BulkDecisionResult, DecisionRequest, DecisionResult,
};
use crate::state::AppState;

const STATUSES: [&str; 5] = ["pending", "approved", "denied", "expired", "cancelled"];

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/v1/approvals", list),
        post("/v1/approvals/decisions", decide_many),
        get("/v1/approvals/{approval_id}", fetch),
    ]
}

async fn list(
    State(state): State<AppState>,
    tenant: Tenant<ReadOrDecide>,
    params: Params,
    page: Page,
) -> Result<Answer, Problem> {
    let before = page.after_parsed("approvals")?;
    let status = params.word("status", &STATUSES)?.map(str::to_owned);
    // What can't be an id matches nothing.
    let Ok(run_id) = params.get("run_id").map(str::parse::<RunId>).transpose() else {
        return page::whole(Vec::<Approval>::new());
    };
    let filter = ApprovalFilter { status, run_id };
    let rows = state.store.tenant(tenant.id).await?.approval_list(&filter, before, page.fetch()).await?;
    page.answer("approvals", rows, |row| row.ord.to_string(), Approval::from)
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
            Ok(approval) => decide(&mut first.tx, approval, decision, &tenant.who()).await?,
            Err(problem) => Err(problem),
        };
        results.push(match result {
            Ok(approval) => {
                DecisionResult { approval_id, status: 200, approval: Some(approval), problem: None }
            }
            Err(problem) => {
                let document = Some(problem.document(&request_id.0));
                DecisionResult { approval_id, status: problem.status(), approval: None, problem: document }
            }
        });
    }
    first.answer(Answer::ok(&BulkDecisionResult { results })?).await
}

fn approval_of(decision: &DecisionRequest) -> Result<ApprovalId, Problem> {
    decision.approval_id.as_deref().and_then(|id| id.parse().ok()).ok_or_else(Problem::not_found)
}

/// Decides one. The outer error is the server's: then nothing of the request is done.
pub(super) async fn decide(
    tx: &mut TenantTx,
    approval_id: ApprovalId,
    request: DecisionRequest,
    by: &str,
) -> Result<Result<Approval, Problem>, Problem> {
    let decision = match request.read() {
        Ok(decision) => decision,
        Err(problem) => return Ok(Err(problem)),
    };
    let decided = tx.approval_decide(approval_id, &decision, by).await?;
    Ok(decided.map(Approval::from).map_err(refusal))
}

fn refusal(refused: DecisionRefused) -> Problem {
    match refused {
        DecisionRefused::NotFound => Problem::not_found(),
        DecisionRefused::OtherInput => {
            Problem::conflict("The approval is of another input than input_hash says.")
        }
        DecisionRefused::OtherVote => Problem::conflict("You have voted for something else already."),
        DecisionRefused::AlreadyDecided => Problem::already_decided("This approval was decided otherwise."),
        DecisionRefused::Expired => Problem::expired("This approval has expired or was cancelled."),
        DecisionRefused::Invalid(faults) => Problem::invalid(faults),
    }
}
