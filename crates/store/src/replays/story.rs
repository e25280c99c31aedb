//! What a run did, as its rows tell it: the truth that a replay is compared with.

use answerable_core::id::RunId;
use answerable_core::json::input_hash;
use answerable_core::permission::Effect;
use answerable_core::registry::Validation;
use answerable_core::replay::{CallStory, ContextStory, EndStory, ResultStory, StepStory, Story};
use answerable_core::run::RunState;
use answerable_core::tool::ToolResult;
use serde_json::Value;

use crate::Result;
use crate::error::store_error;
use crate::load::decode;
use crate::tx::TenantTx;

/// A call's row.
struct CallRow {
    step: i32,
    tool_name: String,
    input_hash: String,
    original_input: Option<Value>,
    validation: String,
    asked: bool,
    decision: Option<Value>,
    result: Option<Value>,
}

impl TenantTx {
    /// What a run did by itself.
    pub(super) async fn story_fetch(&mut self, run_id: RunId, state: &RunState) -> Result<Story> {
        let mut story = Story { end: self.end_story(run_id, state).await?, ..Story::default() };
        self.step_stories(run_id, &mut story).await?;
        for row in self.call_rows(run_id).await? {
            let step = u32::try_from(row.step).unwrap_or(0);
            story.steps.entry(step).or_default().calls.push(call_story(row)?);
        }
        Ok(story)
    }

    async fn end_story(&mut self, run_id: RunId, state: &RunState) -> Result<EndStory> {
        let tenant = self.tenant();
        let row = sqlx::query!(
            r#"SELECT status, stop_reason, final_answer, error ->> 'code' AS error_code
               FROM runs WHERE tenant_id = $1 AND run_id = $2"#,
            tenant,
            run_id.0,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        Ok(EndStory {
            status: row.status,
            stop_reason: row.stop_reason,
            error_code: row.error_code,
            final_answer: row.final_answer,
            used: state.used.clone(),
        })
    }

    async fn step_stories(&mut self, run_id: RunId, story: &mut Story) -> Result<()> {
        let tenant = self.tenant();
        let rows = sqlx::query!(
            r#"SELECT number, coalesce((context ->> 'tokens')::bigint, 0) AS "tokens!",
                   coalesce(json_array_length(context -> 'included'), 0) AS "included!",
                   coalesce(json_array_length(context -> 'omitted'), 0) AS "omitted!",
                   model ->> 'finish_reason' AS finish_reason, failures
               FROM steps WHERE tenant_id = $1 AND run_id = $2 ORDER BY number"#,
            tenant,
            run_id.0,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        for row in rows {
            let words = |failure: &Value| failure.get("error").and_then(Value::as_str).map(str::to_owned);
            let context = ContextStory {
                tokens: row.tokens.unsigned_abs(),
                included: usize::try_from(row.included).unwrap_or(0),
                omitted: usize::try_from(row.omitted).unwrap_or(0),
            };
            let failures = row.failures.as_array().into_iter().flatten().map(words).collect();
            let step = StepStory { context, failures, finish_reason: row.finish_reason, calls: Vec::new() };
            story.steps.insert(u32::try_from(row.number).unwrap_or(0), step);
        }
        Ok(())
    }

    async fn call_rows(&mut self, run_id: RunId) -> Result<Vec<CallRow>> {
        let tenant = self.tenant();
        sqlx::query_as!(
            CallRow,
            r#"SELECT c.step, c.tool_name, c.input_hash, c.original_input, c.validation, c.decision, c.result,
                   EXISTS (SELECT FROM approvals a WHERE a.tenant_id = c.tenant_id AND a.run_id = c.run_id
                       AND a.call_id = c.call_id AND a.kind = 'tool_call') AS "asked!"
               FROM calls c WHERE c.tenant_id = $1 AND c.run_id = $2 ORDER BY c.step, c.index"#,
            tenant,
            run_id.0,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }
}

fn call_story(row: CallRow) -> Result<CallStory> {
    let decision = row.decision.map(|decision| {
        let rule = decision.get("rule").and_then(Value::as_u64).and_then(|rule| usize::try_from(rule).ok());
        let effect = decode::<Effect>(decision.get("effect").cloned().unwrap_or_default(), "decision");
        effect.map(|effect| (effect, rule))
    });
    let result = row.result.map(|result| decode::<ToolResult>(result, "result")).transpose()?;
    let edited = row.original_input.as_ref();
    Ok(CallStory {
        tool_name: row.tool_name,
        edited_hash: edited.map(|_| row.input_hash.clone()),
        input_hash: edited.map_or(row.input_hash, input_hash),
        validation: decode::<Validation>(row.validation.into(), "validation")?,
        asked: row.asked,
        decision: decision.transpose()?,
        result: result.as_ref().map(ResultStory::from),
    })
}
