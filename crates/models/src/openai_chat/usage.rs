//! Token counts.

use answerable_core::model::Usage;
use serde_json::Value;

/// Most tokens that are believed; more would only overflow sums.
const MOST: u64 = 1_000_000_000;

/// Reads a `usage` object; nothing where it has no counts. What is missing is 0, which the core doesn't believe.
pub(super) fn read(usage: &Value) -> Option<Usage> {
    let (input, output) = (count(&usage["prompt_tokens"]), count(&usage["completion_tokens"]));
    if input.is_none() && output.is_none() {
        return None;
    }
    let input_tokens = input.unwrap_or(0);
    let details = &usage["prompt_tokens_details"];
    let cached = first(&[
        &details["cached_tokens"],
        &usage["prompt_cache_hit_tokens"],
        &usage["cached_tokens"],
        &usage["cache_read_input_tokens"],
    ]);
    let written = first(&[
        &details["cache_write_tokens"],
        &details["cache_creation_tokens"],
        &usage["cache_creation_input_tokens"],
    ]);
    let cached_input_tokens = cached.min(input_tokens);
    Some(Usage {
        input_tokens,
        output_tokens: output.unwrap_or(0).max(beside(usage, input)),
        cached_input_tokens,
        cache_write_tokens: written.min(input_tokens - cached_input_tokens),
        ..Usage::default()
    })
}

/// The larger of each count: some servers tell them as they grow, some tell zeros at the end.
pub(super) fn larger(known: Option<Usage>, told: Option<Usage>) -> Option<Usage> {
    let (Some(known), Some(told)) = (known, told) else { return known.or(told) };
    let input_tokens = known.input_tokens.max(told.input_tokens);
    let cached_input_tokens = known.cached_input_tokens.max(told.cached_input_tokens);
    let written = known.cache_write_tokens.max(told.cache_write_tokens);
    Some(Usage {
        input_tokens,
        output_tokens: known.output_tokens.max(told.output_tokens),
        cached_input_tokens,
        cache_write_tokens: written.min(input_tokens - cached_input_tokens),
        ..known
    })
}

fn count(value: &Value) -> Option<u64> {
    value.as_u64().map(|tokens| tokens.min(MOST))
}

/// The first count that says something; servers put it in different places.
fn first(places: &[&Value]) -> u64 {
    places.iter().filter_map(|place| count(place)).find(|tokens| *tokens > 0).unwrap_or(0)
}

/// What the total has beside the input. Some servers (Gemini, xAI) count reasoning there and not in the completion.
fn beside(usage: &Value, input: Option<u64>) -> u64 {
    let total = count(&usage["total_tokens"]).zip(input);
    total.map_or(0, |(total, input)| total.saturating_sub(input))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_larger_count_is_kept() {
        let usage = |input_tokens, output_tokens, cached_input_tokens, cache_write_tokens| Usage {
            input_tokens,
            output_tokens,
            cached_input_tokens,
            cache_write_tokens,
            ..Usage::default()
        };
        let (known, zeros) = (usage(12, 7, 3, 2), Usage::default());
        for (a, b, wanted) in [
            (Some(known), Some(zeros), Some(known)),
            (Some(zeros), Some(known), Some(known)),
            (Some(known), None, Some(known)),
            (None, Some(known), Some(known)),
            (None, None, None),
            (Some(usage(9, 1, 0, 9)), Some(usage(9, 2, 8, 0)), Some(usage(9, 2, 8, 1))),
        ] {
            assert_eq!(larger(a, b), wanted);
        }
    }

    #[test]
    fn counts() {
        let counted = |input, output, cached, written| {
            Some(Usage {
                input_tokens: input,
                output_tokens: output,
                cached_input_tokens: cached,
                cache_write_tokens: written,
                ..Usage::default()
            })
        };
        let usage = |input, output, cached| counted(input, output, cached, 0);
        for (told, wanted) in [
            (json!({"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19}), usage(12, 7, 0)),
            (json!({"prompt_tokens": 12, "completion_tokens": null}), usage(12, 0, 0)),
            (json!({"completion_tokens": 7, "prompt_tokens_details": null}), usage(0, 7, 0)),
            (json!({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}), usage(9, 0, 4)),
            (json!({"prompt_tokens": 9, "prompt_cache_hit_tokens": 99}), usage(9, 0, 9)),
            (
                json!({"prompt_tokens": 9, "cached_tokens": 5, "prompt_tokens_details": {"cached_tokens": 0}}),
                usage(9, 0, 5),
            ),
            (
                json!({"prompt_tokens": 9, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 4}),
                counted(9, 0, 3, 4),
            ),
            (
                json!({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 99}}),
                counted(9, 0, 2, 7),
            ),
            (json!({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135}), usage(32, 103, 0)),
            (json!({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 9}), usage(32, 9, 0)),
            (json!({"completion_tokens": 9, "total_tokens": 135}), usage(0, 9, 0)),
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
