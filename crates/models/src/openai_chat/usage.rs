//! Token counts.

use answerable_core::model::Usage;
use serde_json::Value;

/// Most tokens that are believed; more would only overflow sums.
const MOST: u64 = 1_000_000_000;

/// Reads a `usage` object; nothing where it has no counts. What is missing is 0, which the core doesn't believe.
pub(super) fn read(usage: &Value) -> Option<Usage> {
    let count = |value: &Value| value.as_u64().map(|tokens| tokens.min(MOST));
    let (input, output) = (count(&usage["prompt_tokens"]), count(&usage["completion_tokens"]));
    if input.is_none() && output.is_none() {
        return None;
    }
    let input_tokens = input.unwrap_or(0);
    let cached =
        count(&usage["prompt_tokens_details"]["cached_tokens"]).or(count(&usage["prompt_cache_hit_tokens"]));
    Some(Usage {
        input_tokens,
        output_tokens: output.unwrap_or(0),
        cached_input_tokens: cached.unwrap_or(0).min(input_tokens),
        ..Usage::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts() {
        let usage = |input, output, cached| {
            Some(Usage {
                input_tokens: input,
                output_tokens: output,
                cached_input_tokens: cached,
                ..Usage::default()
            })
        };
        for (told, wanted) in [
            (json!({"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19}), usage(12, 7, 0)),
            (json!({"prompt_tokens": 12, "completion_tokens": null}), usage(12, 0, 0)),
            (json!({"completion_tokens": 7, "prompt_tokens_details": null}), usage(0, 7, 0)),
            (json!({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}), usage(9, 0, 4)),
            (json!({"prompt_tokens": 9, "prompt_cache_hit_tokens": 99}), usage(9, 0, 9)),
            (json!({"prompt_tokens": u64::MAX, "completion_tokens": -1}), usage(MOST, 0, 0)),
            (json!({"total_tokens": 3}), None),
            (json!({"prompt_tokens": "12"}), None),
            (json!([]), None),
            (json!(null), None),
        ] {
            assert_eq!(read(&told), wanted, "{told}");
        }
    }
}
