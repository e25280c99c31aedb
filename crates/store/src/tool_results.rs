//! Answers to client calls. The first one counts; the same again is the same.

use answerable_core::id::{CallId, RunId};
use answerable_core::run::SubmittedStatus;
use answerable_core::tool::ErrorCode;
use answerable_ports::Signal;
use answerable_ports::commit::InboundBody;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::error::{as_json, store_error};
use crate::load::decode;
use crate::run_view::is_parked;
use crate::tx::TenantTx;

/// A client's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResultSubmission {
    /// Whether the call did what it should.
    pub status: SubmittedStatus,
    /// What the model is shown.
    pub content: String,
    /// Why it didn't succeed.
    pub error_code: Option<ErrorCode>,
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmitOutcome {
    /// It is taken, or was before.
    Taken,
    /// It came after the run's end. If it was the first, the ledger knows of it now: the transaction must be committed.
    RunEnded,
    /// There is no such run.
    NoRun,
    /// The run has no such call.
    NoCall,
    /// The call is none that a client answers.
    NotClient,
    /// It is not open: not yet, or not any more.
    NotOpen,
    /// Another answer was given before.
    AlreadyDecided,
}

struct AnsweredCall {
    client: bool,
    submitted: Option<ToolResultSubmission>,
}

impl TenantTx {
    /// Takes a client's answer.
    ///
    /// # Errors
    /// The database is away.
    pub async fn tool_result_submit(
        &mut self,
        run_id: RunId,
        call_id: CallId,
        answer: &ToolResultSubmission,
    ) -> Result<SubmitOutcome> {
        let Some(locked) = self.run_lock(run_id).await? else { return Ok(SubmitOutcome::NoRun) };
        let Some(call) = self.call_lock(run_id, call_id).await? else { return Ok(SubmitOutcome::NoCall) };
        if !call.client {
            return Ok(SubmitOutcome::NotClient);
        }
        match call.submitted {
            Some(before) if before == *answer => return Ok(SubmitOutcome::Taken),
            Some(_) => return Ok(SubmitOutcome::AlreadyDecided),
            None => {}
        }
        if locked.state.is_ended() {
            self.late_effect(call_id, answer).await?;
            return Ok(SubmitOutcome::RunEnded);
        }
        if !is_parked(&locked.state, call_id.0) {
            return Ok(SubmitOutcome::NotOpen);
        }
        self.call_answered(call_id, answer).await?;
        let body = InboundBody::ToolResult {
            call_id,
            status: answer.status,
            content: answer.content.clone(),
            error_code: answer.error_code,
        };
        self.inbox_add(run_id, &body, false).await?;
        self.announce(Signal::Progress(run_id.0));
        Ok(SubmitOutcome::Taken)
    }

    async fn call_lock(&mut self, run_id: RunId, call_id: CallId) -> Result<Option<AnsweredCall>> {
        let tenant = self.tenant();
        let row = sqlx::query!(
            "SELECT client, submitted FROM calls WHERE tenant_id = $1 AND run_id = $2 AND call_id = $3 FOR UPDATE",
            tenant,
            run_id.0,
            call_id.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let Some(row) = row else { return Ok(None) };
        let submitted = row.submitted.map(|answer| decode(answer, "answer")).transpose()?;
        Ok(Some(AnsweredCall { client: row.client, submitted }))
    }

    async fn call_answered(&mut self, call_id: CallId, answer: &ToolResultSubmission) -> Result<()> {
        let tenant = self.tenant();
        let answer = as_json(answer)?;
        // A call that was never parked has no entry, and nobody was ever asked to answer it.
        sqlx::query!(
            "UPDATE calls SET submitted = $3::text::json WHERE tenant_id = $1 AND call_id = $2
                 AND EXISTS (SELECT FROM ledger l WHERE l.tenant_id = $1 AND l.call_id = $2)",
            tenant,
            call_id.0,
            answer,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// The run is over, but what happened outside happened: an entry that nobody could tell of is told of now. What a
    /// person said of it stays.
    async fn late_effect(&mut self, call_id: CallId, answer: &ToolResultSubmission) -> Result<()> {
        let tenant = self.tenant();
        let done = answer.status == SubmittedStatus::Succeeded;
        let code = (!done).then(|| answer.error_code.unwrap_or(ErrorCode::Internal).as_str());
        let known = sqlx::query!(
            r#"UPDATE ledger SET status = CASE WHEN $3 THEN 'succeeded' ELSE 'failed' END,
                   side_effect = CASE WHEN $3 AND writes THEN 'committed' ELSE 'none' END,
                   error_code = $4, finished_at = coalesce(finished_at, now())
               WHERE tenant_id = $1 AND call_id = $2 AND resolution IS NULL AND status IN ('started', 'uncertain')
               RETURNING run_id AS "run_id!""#,
            tenant,
            call_id.0,
            done,
            code,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        self.call_answered(call_id, answer).await?;
        if let Some(entry) = known {
            self.announce(Signal::Progress(entry.run_id));
        }
        Ok(())
    }
}
