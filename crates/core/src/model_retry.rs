//! What follows a failed attempt on a model (contract, "Behaviours decided" 4 and "Model replies, finer").

use serde::{Deserialize, Serialize};

use crate::agent::ModelSpec;
use crate::model::{FailureKind, ModelFailure};

/// Where a step stands with its model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// Attempts made in this step, over all targets.
    pub attempts: u32,
    /// Target being asked: 0 is the main model, the rest are fallbacks.
    pub target: usize,
    /// Attempts made on this target.
    pub on_target: u32,
    /// Times that this target could not be asked, since it was in trouble.
    #[serde(skip_serializing_if = "is_zero")]
    pub held: u32,
    /// The next attempt isn't due before.
    pub not_before: Option<crate::Millis>,
    /// The context was rebuilt smaller.
    pub shrunk: bool,
    /// The output cap was made smaller.
    pub cap_cut: bool,
    /// The model was asked again for a better reply.
    pub reasked: Option<Reask>,
    /// What was wrong with the answer that is asked for again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// The attempt that is outstanding could begin then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<crate::Millis>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Why the model is asked again within a step; once a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reask {
    /// The reply was cut by its cap.
    Truncated,
    /// There was nothing in it.
    Empty,
    /// The final answer didn't match `output_schema`.
    OutputInvalid,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AfterFailure {
    /// The same target again, after so many milliseconds.
    Retry(u64),
    /// The next target, at once.
    Fallback,
    /// The same target at once with a smaller context.
    Shrink,
    /// The same target at once with a smaller output cap.
    CutCap,
    /// The run ends: `context_overflow`.
    ContextOverflow,
    /// The run ends: `model_refusal`.
    Refusal,
    /// The run ends: `model_error`, with this code.
    End(&'static str),
}

/// Times that a run waits for a provider that is in trouble, in one step: some ten minutes.
pub const MAX_HOLDS: u32 = 100;
/// Longest `Retry-After` that is waited for: five minutes.
pub const MAX_RETRY_AFTER_MS: u64 = 300_000;

/// What follows a failure after `progress` (the failed attempt counted in). `time_left_ms` is what the run's time budget
/// has left; `jitter` in 0..=1000 spreads the pause.
pub fn after_failure(
    spec: &ModelSpec,
    progress: &Progress,
    failure: &ModelFailure,
    time_left_ms: u64,
    jitter: u16,
) -> AfterFailure {
    let has_fallback = spec.target(progress.target + 1).is_some();
    let give_up = |code| if has_fallback { AfterFailure::Fallback } else { AfterFailure::End(code) };
    match failure.kind {
        FailureKind::ContextOverflow if progress.shrunk => AfterFailure::ContextOverflow,
        FailureKind::ContextOverflow => AfterFailure::Shrink,
        FailureKind::CapOverWindow if progress.cap_cut => AfterFailure::ContextOverflow,
        FailureKind::CapOverWindow => AfterFailure::CutCap,
        FailureKind::Refused => AfterFailure::End("model_error"),
        FailureKind::Filtered => AfterFailure::Refusal,
        FailureKind::Exhausted => AfterFailure::End("recording_exhausted"),
        FailureKind::Unusable => give_up("model_error"),
        FailureKind::Held if has_fallback => AfterFailure::Fallback,
        FailureKind::Passing | FailureKind::Held => {
            let code = if failure.status == Some(429) { "rate_limited" } else { "model_error" };
            let is_held = failure.kind == FailureKind::Held;
            if failure.retry_after_ms.is_some_and(|ms| ms > MAX_RETRY_AFTER_MS || ms >= time_left_ms) {
                return give_up(if is_held { "model_error" } else { "rate_limited" });
            }
            // A wait for a provider to come back is no attempt.
            let is_enough = if is_held {
                progress.held >= MAX_HOLDS
            } else {
                progress.on_target >= spec.retry.max_attempts.max(1)
            };
            if is_enough {
                return give_up(code);
            }
            if is_held {
                return AfterFailure::Retry(held_pause_ms(failure.retry_after_ms.unwrap_or(0), jitter));
            }
            AfterFailure::Retry(
                failure
                    .retry_after_ms
                    .unwrap_or_else(|| pause_ms(spec.retry.backoff_ms, progress.on_target, jitter)),
            )
        }
    }
}

/// Those who wait for a provider must not come back all at once: up to as long again, and five seconds at least.
fn held_pause_ms(told_ms: u64, jitter: u16) -> u64 {
    told_ms.saturating_add(told_ms.max(5_000) * u64::from(jitter.min(1000)) / 1000)
}

/// The pause doubles from `backoff_ms` up to 20 s, or stays where it begins higher; a random half is left out.
fn pause_ms(backoff_ms: u64, attempt: u32, jitter: u16) -> u64 {
    let full = backoff_ms.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(backoff_ms.max(20_000));
    full / 2 + full / 2 * u64::from(jitter.min(1000)) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(fallbacks: usize) -> ModelSpec {
        let fallbacks: Vec<_> = (0..fallbacks).map(|_| json!({"provider": "alt", "model": "m"})).collect();
        serde_json::from_value(json!({"provider": "main", "model": "m", "max_output_tokens": 90,
            "retry": {"max_attempts": 2}, "fallbacks": fallbacks}))
        .expect("model")
    }

    fn failure(kind: FailureKind, status: u16, retry_after_ms: Option<u64>) -> ModelFailure {
        ModelFailure { kind, status: Some(status), message: String::new(), retry_after_ms, usage: None }
    }

    #[test]
    fn retry_then_fallback_then_end() {
        use AfterFailure::{CutCap, End, Fallback, Refusal, Retry, Shrink};
        use FailureKind::{
            CapOverWindow, ContextOverflow, Exhausted, Filtered, Held, Passing, Refused, Unusable,
        };
        let day = 86_400_000_000;
        let table = [
            (0, 1, Passing, 503, None, Retry(500)),
            (0, 1, Passing, 503, Some(2000), Retry(2000)),
            (0, 2, Passing, 503, None, End("model_error")),
            (0, 2, Passing, 429, None, End("rate_limited")),
            (1, 2, Passing, 503, None, Fallback),
            (1, 1, Passing, 429, Some(day), Fallback),
            (0, 1, Passing, 429, Some(day), End("rate_limited")),
            (0, 1, Passing, 429, Some(60_000), End("rate_limited")),
            (0, 1, Held, 0, Some(1000), Retry(6_000)),
            (0, 0, Held, 0, Some(5000), Retry(10_000)),
            (0, 1, Held, 0, Some(60_000), End("model_error")),
            (1, 1, Held, 0, Some(5000), Fallback),
            (1, 1, Unusable, 401, None, Fallback),
            (0, 1, Unusable, 401, None, End("model_error")),
            (1, 1, Refused, 400, None, End("model_error")),
            (1, 1, Filtered, 400, None, Refusal),
            (1, 1, Exhausted, 0, None, End("recording_exhausted")),
            (1, 1, ContextOverflow, 400, None, Shrink),
            (0, 1, CapOverWindow, 400, None, CutCap),
        ];
        for (fallbacks, on_target, kind, status, after, wanted) in table {
            let progress = Progress { attempts: on_target, on_target, ..Progress::default() };
            let got = after_failure(&spec(fallbacks), &progress, &failure(kind, status, after), 60_000, 1000);
            assert_eq!(got, wanted, "{kind:?} {status} {after:?}");
        }
    }

    #[test]
    fn a_provider_in_trouble_is_not_waited_for_for_ever() {
        let held = failure(FailureKind::Held, 0, Some(1_000));
        let after = |held_before, jitter| {
            let progress = Progress { held: held_before, on_target: 9, ..Progress::default() };
            after_failure(&spec(0), &progress, &held, 60_000, jitter)
        };
        assert_eq!([after(1, 0), after(99, 500)], [AfterFailure::Retry(1_000), AfterFailure::Retry(3_500)]);
        assert_eq!(after(MAX_HOLDS, 0), AfterFailure::End("model_error"));
    }

    #[test]
    fn a_context_is_rebuilt_once() {
        let progress = Progress { shrunk: true, ..Progress::default() };
        let overflow = failure(FailureKind::ContextOverflow, 400, None);
        assert_eq!(after_failure(&spec(1), &progress, &overflow, 60_000, 0), AfterFailure::ContextOverflow);
    }
}
