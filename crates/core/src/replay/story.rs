//! What a run did, free of ids and times: what a replay is compared by.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::budget::Used;
use crate::id::CallId;
use crate::json::sha256_hex;
use crate::permission::Effect;
use crate::registry::Validation;
use crate::run::{ApprovalKind, Record, RunState, StepModel};
use crate::tool::{ErrorCode, ResultStatus, ToolResult};

/// What a run did by itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Story {
    /// Its steps by number.
    pub steps: BTreeMap<u32, StepStory>,
    /// How it ended.
    pub end: EndStory,
}

/// A step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepStory {
    /// The context, as it was built last.
    pub context: ContextStory,
    /// Attempts on the model that came to nothing: why.
    pub failures: Vec<Option<String>>,
    /// Why the model stopped, in its own word.
    pub finish_reason: Option<String>,
    /// Its calls.
    pub calls: Vec<CallStory>,
}

/// A context, by its size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContextStory {
    /// Tokens, estimated.
    pub tokens: u64,
    /// Messages that the model was shown.
    pub included: usize,
    /// Messages that it wasn't.
    pub omitted: usize,
}

/// A call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallStory {
    /// Tool.
    pub tool_name: String,
    /// Hash of the model's own input.
    pub input_hash: String,
    /// Hash of the input that a person put in its place.
    pub edited_hash: Option<String>,
    /// Validation's verdict.
    pub validation: Validation,
    /// People were asked whether it may run.
    pub asked: bool,
    /// The decision, and the rule behind it.
    pub decision: Option<(Effect, Option<usize>)>,
    /// What came of it.
    pub result: Option<ResultStory>,
}

/// A result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultStory {
    /// How it ended.
    pub status: ResultStatus,
    /// Why it didn't succeed.
    pub error_code: Option<ErrorCode>,
    /// Hash of its content.
    pub content_hash: String,
}

impl From<&ToolResult> for ResultStory {
    fn from(result: &ToolResult) -> Self {
        let content_hash = sha256_hex(result.content.as_bytes());
        Self { status: result.status, error_code: result.error_code, content_hash }
    }
}

/// The end of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndStory {
    /// Status.
    pub status: String,
    /// Why it ended.
    pub stop_reason: Option<String>,
    /// The finer word for that, of one that failed.
    pub error_code: Option<String>,
    /// The answer for its user.
    pub final_answer: Option<String>,
    /// What it used, with what it brought along.
    pub used: Used,
}

/// A story while it is written: rows name calls by their ids.
#[derive(Debug, Default)]
pub(super) struct Teller {
    story: Story,
    calls: BTreeMap<CallId, (u32, usize)>,
}

impl Teller {
    /// Adds what a row tells.
    pub(super) fn note(&mut self, record: &Record) {
        match record {
            Record::StepOpened { number, manifest } => {
                self.story.steps.entry(*number).or_default().context = ContextStory {
                    tokens: manifest.tokens,
                    included: manifest.included.len(),
                    omitted: manifest.omitted.len(),
                };
            }
            Record::StepModel { number, model } => self.model(*number, model),
            Record::CallOpened(row) => {
                let calls = &mut self.story.steps.entry(row.step).or_default().calls;
                self.calls.insert(row.id, (row.step, calls.len()));
                calls.push(CallStory {
                    tool_name: row.tool_name.clone(),
                    input_hash: row.input_hash.clone(),
                    edited_hash: None,
                    validation: row.validation,
                    asked: false,
                    decision: None,
                    result: None,
                });
            }
            Record::CallDecided { call, decision } => {
                self.call(*call, |known| known.decision = Some((decision.effect, decision.rule)));
            }
            Record::CallEdited { call, input_hash, .. } => {
                self.call(*call, |known| known.edited_hash = Some(input_hash.clone()));
            }
            Record::ApprovalOpened(row) => {
                if let (ApprovalKind::ToolCall, Some(call)) = (row.kind, row.call) {
                    self.call(call, |known| known.asked = true);
                }
            }
            Record::CallResult { call, result, .. } => {
                self.call(*call, |known| known.result = Some(ResultStory::from(result)));
            }
            Record::Ended { final_answer, error } => {
                self.story.end.final_answer.clone_from(final_answer);
                self.story.end.error_code = error.as_ref().and_then(code);
            }
            _ => {}
        }
    }

    fn model(&mut self, number: u32, model: &StepModel) {
        let step = self.story.steps.entry(number).or_default();
        step.finish_reason.clone_from(&model.finish_reason);
        step.failures.extend(model.failure.as_ref().map(failure));
    }

    fn call(&mut self, id: CallId, change: impl FnOnce(&mut CallStory)) {
        let place = self.calls.get(&id).copied();
        if let Some(known) =
            place.and_then(|(step, index)| self.story.steps.get_mut(&step)?.calls.get_mut(index))
        {
            change(known);
        }
    }

    /// The story of a run that is in this state now.
    pub(super) fn told(mut self, state: &RunState) -> Story {
        self.story.end.status = state.status.as_str().to_owned();
        self.story.end.stop_reason = state.end.as_ref().map(|end| end.reason.as_str().to_owned());
        self.story.end.used = state.used.clone();
        self.story
    }
}

/// Why an attempt on a model came to nothing, of the row that tells of it.
pub(super) fn failure(row: &Value) -> Option<String> {
    row.get("error").and_then(Value::as_str).map(str::to_owned)
}

/// `error.code`.
pub(super) fn code(error: &Value) -> Option<String> {
    error.get("code").and_then(Value::as_str).map(str::to_owned)
}
