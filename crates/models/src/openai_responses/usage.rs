//! Token counts.

use answerable_core::model::Usage;
use serde_json::Value;

/// Most tokens that are believed; more would only overflow sums.
const MOST: u64 = 1_000_000_000;

/// Reads a `usage` object; nothing where it has no counts. Some servers use the names of the chat wire. What is missing is
/// 0, which the core doesn't believe.
pub(super) fn read(usage: &Value) -> Option<Usage> {
    let count = |value: &Value| value.as_u64().map(|tokens| tokens.min(MOST));
    let input = count(&usage["input_tokens"]).or_else(|| count(&usage["prompt_tokens"]));
    let output = count(&usage["output_tokens"]).or_else(|| count(&usage["completion_tokens"]));
    if input.is_none() && output.is_none() {
        return None;
    }
    let input_tokens = input.unwrap_or(0);
    let details = [&usage["input_tokens_details"], &usage["prompt_tokens_details"]];
    // Both are parts of the input, and of different tokens.
    let part = |name: &str| details.iter().find_map(|details| count(&details[name])).unwrap_or(0);
    let cached_input_tokens = part("cached_tokens").min(input_tokens);
    Some(Usage {
        input_tokens,
        output_tokens: output.unwrap_or(0),
        cached_input_tokens,
        cache_write_tokens: part("cache_write_tokens").min(input_tokens - cached_input_tokens),
        ..Usage::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts() {
        let counts = |usage: Usage| {
            (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, usage.cache_write_tokens)
        };
        for (told, wanted) in [
            (json!({"input_tokens": 12, "output_tokens": 7, "total_tokens": 19}), Some((12, 7, 0, 0))),
            (
                json!({"input_tokens": 90, "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 20},
                    "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 5}}),
                Some((90, 7, 64, 20)),
            ),
            (
                json!({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 99, "cache_write_tokens": 1}}),
                Some((9, 0, 9, 0)),
            ),
            (json!({"input_tokens": 9, "input_tokens_details": null}), Some((9, 0, 0, 0))),
            (
                json!({"prompt_tokens": 8, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}),
                Some((8, 2, 3, 0)),
            ),
            (json!({"input_tokens": u64::MAX, "output_tokens": -1}), Some((MOST, 0, 0, 0))),
            (json!({"total_tokens": 3}), None),
            (json!({"input_tokens": "12"}), None),
            (json!([]), None),
            (json!(null), None),
        ] {
            assert_eq!(read(&told).map(counts), wanted, "{told}");
        }
    }
}
