//! The tool ledger's rules: did this effect happen, no, yes, unknown, and what follows from that.
//!
//! [`after_attempt`] is the contract's table "Tool calls over HTTP" as a function.

use serde::{Deserialize, Serialize};

use crate::agent::ToolSpec;
use crate::tool::{Attempt, ErrorCode, Output};

/// State of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the contract's names")]
pub enum EntryStatus {
    Started,
    Succeeded,
    Failed,
    Uncertain,
}

impl EntryStatus {
    /// As in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Uncertain => "uncertain",
        }
    }
}

/// What is known of the effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// There is none.
    None,
    /// There may be one.
    Possible,
    /// There is one.
    Committed,
}

impl Effect {
    /// As in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Possible => "possible",
            Self::Committed => "committed",
        }
    }
}

/// How an entry is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// State.
    pub status: EntryStatus,
    /// What is known of the effect.
    pub effect: Effect,
    /// Why it didn't succeed.
    pub error_code: Option<ErrorCode>,
}

impl Outcome {
    /// It happened.
    pub fn succeeded(writes: bool) -> Self {
        let effect = if writes { Effect::Committed } else { Effect::None };
        Self { status: EntryStatus::Succeeded, effect, error_code: None }
    }

    /// It clearly didn't happen.
    pub fn failed(error_code: ErrorCode) -> Self {
        Self { status: EntryStatus::Failed, effect: Effect::None, error_code: Some(error_code) }
    }

    /// Nobody knows.
    pub fn uncertain() -> Self {
        Self {
            status: EntryStatus::Uncertain,
            effect: Effect::Possible,
            error_code: Some(ErrorCode::SideEffectUncertain),
        }
    }
}

/// What follows an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Next {
    /// The call is done and this came of it.
    Succeeded(Output),
    /// The call is done, without effect.
    Failed(ErrorCode, String),
    /// The same again under the same key, after so many milliseconds.
    Retry(u64),
    /// A write may have happened, and may not be sent again.
    Uncertain(String),
}

/// Longest pause that a tool may ask for: five minutes.
pub const MAX_PAUSE_MS: u64 = 300_000;

/// What follows attempt number `attempt` (from 1) of a call. `tainted`: an earlier attempt may have happened, so no
/// later clear answer but success makes the call clear. `jitter` in 0..=1000 spreads the pause.
pub fn after_attempt(spec: &ToolSpec, attempt: u32, tainted: bool, outcome: Attempt, jitter: u16) -> Next {
    let again = attempt < spec.retry.max_attempts.max(1);
    match outcome {
        Attempt::Succeeded(output) => Next::Succeeded(output),
        Attempt::Refused(_, message) if tainted => Next::Uncertain(message),
        Attempt::Refused(code, message) => Next::Failed(code, message),
        Attempt::NotDone(_, _, after) if again && after.is_none_or(|ms| ms <= MAX_PAUSE_MS) => {
            Next::Retry(after.unwrap_or_else(|| pause_ms(spec, attempt, jitter)))
        }
        Attempt::NotDone(_, message, _) if tainted => Next::Uncertain(message),
        Attempt::NotDone(code, message, _) => Next::Failed(code, message),
        Attempt::Unclear(code, message) => match (spec.writes(), spec.idempotent) {
            (false, _) | (true, true) if again => Next::Retry(pause_ms(spec, attempt, jitter)),
            (false, _) => Next::Failed(code, message),
            (true, _) => Next::Uncertain(message),
        },
    }
}

/// Whether an attempt with this outcome may have had an effect.
pub fn taints(spec: &ToolSpec, outcome: &Attempt) -> bool {
    spec.writes() && matches!(outcome, Attempt::Unclear(..))
}

/// What a reconcile tool's answer means: `{"state": "applied"|"not_applied"|"unknown", "result"?}`. Anything else, its
/// own failure included, is `unknown`. The result comes as text: a string as it is, other JSON compact.
pub fn reconciliation(outcome: &Attempt) -> (crate::tool::Reconciled, Option<String>) {
    use crate::tool::Reconciled::{Applied, NotApplied, Unknown};
    let Attempt::Succeeded(output) = outcome else { return (Unknown, None) };
    let Ok(answer) = crate::json::parse(&output.content) else { return (Unknown, None) };
    let state = match answer.get("state").and_then(serde_json::Value::as_str) {
        Some("applied") => Applied,
        Some("not_applied") => NotApplied,
        _ => Unknown,
    };
    let result = answer.get("result").map(|result| match result {
        serde_json::Value::String(text) => crate::json::clean_text(text),
        other => crate::json::clean(other.clone()).to_string(),
    });
    (state, result)
}

/// The pause doubles from `backoff_ms`, is at most 30 s, and a random half of it is left out.
fn pause_ms(spec: &ToolSpec, attempt: u32, jitter: u16) -> u64 {
    let full = spec.retry.backoff_ms.saturating_mul(1 << (attempt - 1).min(16)).min(30_000);
    full / 2 + full / 2 * u64::from(jitter.min(1000)) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tool(side_effect: &str, idempotent: bool, max_attempts: u32) -> ToolSpec {
        serde_json::from_value(json!({"name": "t", "kind": "client", "side_effect": side_effect,
            "idempotent": idempotent, "retry": {"max_attempts": max_attempts, "backoff_ms": 100}}))
        .expect("tool")
    }

    fn unclear() -> Attempt {
        Attempt::Unclear(ErrorCode::Timeout, "late".into())
    }

    fn not_done(after: Option<u64>) -> Attempt {
        Attempt::NotDone(ErrorCode::RateLimited, "busy".into(), after)
    }

    #[test]
    fn the_contracts_table() {
        let refused = || Attempt::Refused(ErrorCode::Conflict, "no".into());
        let failed = |code, text: &str| Next::Failed(code, text.into());
        let maybe = |text: &str| Next::Uncertain(text.into());
        // (tool, attempt, tainted, outcome) -> next
        let table = [
            (tool("write", false, 5), 1, false, refused(), failed(ErrorCode::Conflict, "no")),
            (tool("write", false, 5), 1, false, not_done(Some(2000)), Next::Retry(2000)),
            (tool("write", false, 1), 1, false, not_done(Some(0)), failed(ErrorCode::RateLimited, "busy")),
            (
                tool("write", false, 5),
                1,
                false,
                not_done(Some(MAX_PAUSE_MS + 1)),
                failed(ErrorCode::RateLimited, "busy"),
            ),
            (tool("write", false, 5), 1, false, unclear(), maybe("late")),
            (tool("write", true, 5), 1, false, unclear(), Next::Retry(100)),
            (tool("write", true, 3), 3, false, unclear(), maybe("late")),
            (tool("write", true, 3), 3, true, not_done(None), maybe("busy")),
            (tool("write", true, 3), 2, true, refused(), maybe("no")),
            (tool("none", false, 2), 1, false, unclear(), Next::Retry(100)),
            (tool("none", false, 2), 2, false, unclear(), failed(ErrorCode::Timeout, "late")),
        ];
        for (spec, attempt, tainted, outcome, wanted) in table {
            let got = after_attempt(&spec, attempt, tainted, outcome.clone(), 1000);
            assert_eq!(got, wanted, "{:?} {attempt} {tainted} {outcome:?}", spec.side_effect);
        }
    }

    #[test]
    fn a_reconcilers_answer() {
        use crate::tool::Reconciled::{Applied, NotApplied, Unknown};
        for (said, wanted) in [
            (r#"{"state": "applied", "result": {"p": 9}}"#, (Applied, Some(r#"{"p":9}"#))),
            (r#"{"state": "applied", "result": "p-9"}"#, (Applied, Some("p-9"))),
            (r#"{"state": "not_applied"}"#, (NotApplied, None)),
            (r#"{"state": "perhaps"}"#, (Unknown, None)),
            ("applied", (Unknown, None)),
        ] {
            let (state, result) = reconciliation(&Attempt::Succeeded(Output::plain(said)));
            assert_eq!((state, result.as_deref()), wanted, "{said}");
        }
        assert_eq!(reconciliation(&unclear()), (Unknown, None));
    }

    #[test]
    fn pauses_double_are_spread_and_end() {
        let spec = tool("none", false, 99);
        assert_eq!(pause_ms(&spec, 1, 0), 50);
        assert_eq!(pause_ms(&spec, 3, 1000), 400);
        assert_eq!(pause_ms(&spec, 90, 1000), 30_000);
    }
}
