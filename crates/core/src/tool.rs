//! What comes of a tool call.

use serde::{Deserialize, Serialize};

use crate::agent::{OnOverflow, OutputSpec};
use crate::id::ArtifactId;
use crate::text;

/// Taxonomy of failures (contract, "`error_code`").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(missing_docs, reason = "the contract's names")]
pub enum ErrorCode {
    InvalidArguments,
    NotFound,
    BudgetExhausted,
    PermissionDenied,
    Timeout,
    OutputTooLarge,
    SideEffectUncertain,
    Conflict,
    RateLimited,
    Unavailable,
    Cancelled,
    Internal,
}

impl ErrorCode {
    /// As in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArguments => "INVALID_ARGUMENTS",
            Self::NotFound => "NOT_FOUND",
            Self::BudgetExhausted => "BUDGET_EXHAUSTED",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::Timeout => "TIMEOUT",
            Self::OutputTooLarge => "OUTPUT_TOO_LARGE",
            Self::SideEffectUncertain => "SIDE_EFFECT_UNCERTAIN",
            Self::Conflict => "CONFLICT",
            Self::RateLimited => "RATE_LIMITED",
            Self::Unavailable => "UNAVAILABLE",
            Self::Cancelled => "CANCELLED",
            Self::Internal => "INTERNAL",
        }
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultStatus {
    /// It did what it should.
    Succeeded,
    /// It didn't, and had no effect that is unknown.
    Failed,
    /// It was not allowed.
    Denied,
    /// It was no legal call, or over a limit.
    Rejected,
    /// It may have happened.
    Uncertain,
    /// The run ended first.
    Cancelled,
}

impl ResultStatus {
    /// As in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Rejected => "rejected",
            Self::Uncertain => "uncertain",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The result of a call as it is stored and shown (contract, "ToolCall").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// How it ended.
    pub status: ResultStatus,
    /// What the model is shown.
    pub content: String,
    /// Why it didn't succeed.
    pub error_code: Option<ErrorCode>,
    /// Time from the first attempt to the outcome.
    pub duration_ms: u64,
    /// Code points of the whole output.
    pub output_chars: usize,
    /// `content` is only the head.
    pub truncated: bool,
    /// Where the whole output is.
    pub artifact_id: Option<ArtifactId>,
    /// A later call may fare better.
    pub retryable: bool,
}

impl ToolResult {
    /// A result that no executor made.
    pub fn without_run(
        status: ResultStatus,
        error_code: Option<ErrorCode>,
        content: impl Into<String>,
    ) -> Self {
        let content = content.into();
        Self {
            output_chars: text::chars(&content),
            status,
            content,
            error_code,
            duration_ms: 0,
            truncated: false,
            artifact_id: None,
            retryable: false,
        }
    }
}

/// What an executor makes of one attempt; the contract's table "Tool calls over HTTP" speaks of these.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Attempt {
    /// It happened; this is its output.
    Succeeded(Output),
    /// It clearly didn't happen and won't: no retry.
    Refused(ErrorCode, String),
    /// It clearly didn't happen this time; it may be tried again, not before `retry_after_ms` if given.
    NotDone(ErrorCode, String, Option<u64>),
    /// Nobody knows: a cut connection, a timeout, another 5xx.
    Unclear(ErrorCode, String),
}

/// What a tool said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// What the model is shown: the head where it was long, a line about it where it was binary.
    pub content: String,
    /// Code points of the whole.
    pub chars: usize,
    /// Something was left out of `content`.
    pub truncated: bool,
    /// The whole, where `content` isn't.
    pub artifact_id: Option<ArtifactId>,
    /// It was over the limit and the tool calls that an error.
    pub too_large: bool,
}

impl Output {
    /// Text within any limit.
    pub fn plain(content: impl Into<String>) -> Self {
        let content = content.into();
        Self { chars: text::chars(&content), content, truncated: false, artifact_id: None, too_large: false }
    }

    /// `whole` under the tool's output rules. `artifact_id` is where the caller keeps the whole if it doesn't fit
    /// (see [`Output::needs_artifact`]).
    pub fn limited(whole: &str, spec: &OutputSpec, artifact_id: ArtifactId) -> Self {
        let chars = text::chars(whole);
        if chars <= spec.max_chars {
            return Self { chars, ..Self::plain(whole) };
        }
        if spec.on_overflow == OnOverflow::Error {
            let note = format!("The output has {chars} characters; at most {} are taken.", spec.max_chars);
            return Self { content: note, chars, truncated: false, artifact_id: None, too_large: true };
        }
        let head = text::head(whole, spec.max_chars);
        let note = format!(
            "\n[cut: {} of {chars} characters shown; the whole is artifact {artifact_id}]",
            spec.max_chars
        );
        Self {
            content: format!("{head}{note}"),
            chars,
            truncated: true,
            artifact_id: Some(artifact_id),
            too_large: false,
        }
    }

    /// The caller must keep the whole output.
    pub fn needs_artifact(&self) -> bool {
        self.artifact_id.is_some()
    }
}

/// What a reconcile tool says of an unclear call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reconciled {
    /// It happened.
    Applied,
    /// It didn't.
    NotApplied,
    /// Can't be told.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn output_is_cut_between_characters_and_said_so() {
        let id = ArtifactId(Uuid::from_u128(1));
        let spec = OutputSpec { max_chars: 3, on_overflow: OnOverflow::Truncate };
        let cut = Output::limited("ab😀cd", &spec, id);
        assert!(cut.content.starts_with("ab😀\n[cut: 3 of 5"));
        assert!(cut.truncated && cut.needs_artifact() && cut.chars == 5);
        assert_eq!(Output::limited("ab😀", &spec, id), Output::plain("ab😀"));
        let error = Output::limited("abcd", &OutputSpec { on_overflow: OnOverflow::Error, ..spec }, id);
        assert!(error.too_large && !error.needs_artifact());
    }
}
