//! Answers to client calls.

use answerable_core::id::{CallId, RunId, TenantId};
use answerable_core::run::SubmittedStatus;
use answerable_store::{SubmitOutcome, ToolResultSubmission as Submission};
use axum::extract::State;

use crate::auth::{RunsWrite, Tenant};
use crate::idempotency::{Once, Turn};
use crate::path::Id;
use crate::problem::{Answer, Problem};
use crate::router::{Route, post};
use crate::shapes::calls::{ToolCall, ToolResultSubmission};
use crate::shapes::text;
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![post("/v1/runs/{run_id}/tool_results", submit)]
}

async fn submit(
    State(state): State<AppState>,
    tenant: Tenant<RunsWrite>,
    Id(run_id): Id<RunId>,
    once: Once<ToolResultSubmission>,
) -> Result<Answer, Problem> {
    let mut first = match once.key.begin(&state, tenant.id).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return Ok(replay.answer()),
    };
    let (call_id, answer) = read(once.body)?;
    match first.tx.tool_result_submit(run_id, call_id, &answer).await? {
        SubmitOutcome::Taken => {
            let call = first.tx.call_fetch(run_id, call_id).await?.ok_or_else(Problem::not_found)?;
            first.answer_with_run(Answer::ok(&ToolCall::from(call))?, run_id.0).await
        }
        SubmitOutcome::RunEnded => {
            // Of a refused request no key is kept, but what it tells of an effect is: in a transaction of its own.
            drop(first);
            keep_late(&state, tenant.id, run_id, call_id, &answer).await?;
            Err(Problem::expired("The run has ended; the answer is kept as a late effect."))
        }
        refused => Err(refusal(refused)),
    }
}

async fn keep_late(
    state: &AppState,
    tenant: TenantId,
    run_id: RunId,
    call_id: CallId,
    answer: &Submission,
) -> Result<(), Problem> {
    let mut tx = state.store.tenant(tenant).await?;
    tx.tool_result_submit(run_id, call_id, answer).await?;
    Ok(tx.commit().await?)
}

fn read(body: ToolResultSubmission) -> Result<(CallId, Submission), Problem> {
    let call_id = body.tool_call_id.parse().map_err(|_| unknown_call())?;
    let content = body.content.map(text::of).transpose()?.unwrap_or_default();
    if body.status == SubmittedStatus::Succeeded && body.error_code.is_some() {
        return Err(Problem::invalid_at("/error_code", "goes with a failed call only"));
    }
    Ok((call_id, Submission { status: body.status, content, error_code: body.error_code }))
}

fn unknown_call() -> Problem {
    Problem::invalid_at("/tool_call_id", "the run has no such call")
}

fn refusal(outcome: SubmitOutcome) -> Problem {
    match outcome {
        SubmitOutcome::NoRun => Problem::not_found(),
        SubmitOutcome::NoCall => unknown_call(),
        SubmitOutcome::NotClient => Problem::conflict("This call is none that a client answers."),
        SubmitOutcome::NotOpen => Problem::conflict("This call is not open for an answer."),
        SubmitOutcome::AlreadyDecided => Problem::already_decided("Another answer was given to this call."),
        SubmitOutcome::RunEnded | SubmitOutcome::Taken => Problem::expired("The run has ended."),
    }
}
