//! The scripted tools.

use axum::response::Response;
use serde_json::Value;

use super::Stage;
use super::listen::{Asked, Cut, plain};
use answerable_evals::case::Answer;
use answerable_evals::{ToolRequest, unknown_call};

pub(super) async fn answer(stage: &Stage, name: &str, asked: &Asked) -> Result<Response, Cut> {
    let input: Value = serde_json::from_slice(&asked.body).unwrap_or(Value::Null);
    let answer = stage.take(ToolRequest { tool: name, input: &input, key: asked.header("idempotency-key") });
    tokio::time::sleep(answer.delay).await;
    if answer.drop {
        return Err(Cut);
    }
    let (content_type, body) = answer.body.render();
    Ok(plain(answer.status, &answer.headers, content_type, body, None))
}

impl Stage {
    /// Takes a call, over the wire or not, and picks its answer; one that the case doesn't know is a trouble.
    pub(in super::super) fn take(&self, request: ToolRequest<'_>) -> Answer {
        let answer = {
            let mut seen = self.seen();
            let answer = seen.answers.take(request);
            answer.unwrap_or_else(|trouble| {
                let answer = unknown_call(&trouble);
                seen.troubles.push(trouble);
                answer
            })
        };
        self.changed();
        answer
    }
}
