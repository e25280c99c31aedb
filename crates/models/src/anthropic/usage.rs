//! Token counts. The wire tells input apart by where it came from: `input_tokens` are those that no cache had to do with.
//! Counts of a stream grow, so the larger of two is the newer one.

use answerable_core::model::Usage;
use serde_json::Value;

/// Most tokens that are believed; more would only overflow sums.
const MOST: u64 = 1_000_000_000;

/// The counts so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    fresh: Option<u64>,
    read: Option<u64>,
    written: Option<u64>,
    output: Option<u64>,
    /// Output as told before there was any; nobody's last word.
    begun: Option<u64>,
}

impl Counts {
    /// Takes the `usage` of a stream's beginning.
    pub(super) fn take_first(&mut self, usage: &Value) {
        self.take_input(usage);
        grow(&mut self.begun, &usage["output_tokens"]);
    }

    /// Takes the `usage` of a whole answer, or of a stream's end.
    pub(super) fn take(&mut self, usage: &Value) {
        self.take_input(usage);
        grow(&mut self.output, &usage["output_tokens"]);
    }

    fn take_input(&mut self, usage: &Value) {
        grow(&mut self.fresh, &usage["input_tokens"]);
        grow(&mut self.read, &usage["cache_read_input_tokens"]);
        grow(&mut self.written, &usage["cache_creation_input_tokens"]);
    }

    /// As far as is known of a reply that may not be whole; nothing where nothing was told.
    pub(super) fn so_far(&self) -> Option<Usage> {
        Self { output: self.output.or(self.begun), ..*self }.of_whole()
    }

    /// Of a whole reply. What is missing is 0, which the core doesn't believe.
    pub(super) fn of_whole(&self) -> Option<Usage> {
        [self.fresh, self.read, self.written, self.output, self.begun].iter().any(Option::is_some).then(
            || {
                let (read, written) = (self.read.unwrap_or(0), self.written.unwrap_or(0));
                Usage {
                    input_tokens: self.fresh.unwrap_or(0) + read + written,
                    output_tokens: self.output.unwrap_or(0),
                    cached_input_tokens: read,
                    cache_write_tokens: written,
                    estimated: false,
                }
            },
        )
    }
}

fn grow(known: &mut Option<u64>, told: &Value) {
    *known = (*known).max(told.as_u64().map(|tokens| tokens.min(MOST)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn usage(input: u64, output: u64, cached: u64, written: u64) -> Option<Usage> {
        Some(Usage {
            input_tokens: input,
            output_tokens: output,
            cached_input_tokens: cached,
            cache_write_tokens: written,
            estimated: false,
        })
    }

    #[test]
    fn counts_of_a_whole_answer() {
        for (told, wanted) in [
            (json!({"input_tokens": 12, "output_tokens": 7}), usage(12, 7, 0, 0)),
            (
                json!({"input_tokens": 200, "output_tokens": 10, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 30}),
                usage(1230, 10, 1000, 30),
            ),
            (
                json!({"input_tokens": 9, "output_tokens": null, "cache_read_input_tokens": null}),
                usage(9, 0, 0, 0),
            ),
            (json!({"cache_read_input_tokens": 40}), usage(40, 0, 40, 0)),
            (json!({"input_tokens": u64::MAX, "output_tokens": -1}), usage(MOST, 0, 0, 0)),
            (json!({"input_tokens": "12"}), None),
            (json!({}), None),
            (json!(null), None),
        ] {
            let mut counts = Counts::default();
            counts.take(&told);
            assert_eq!(counts.of_whole(), wanted, "{told}");
        }
    }

    #[test]
    fn counts_of_a_stream() {
        let first = json!({"input_tokens": 20, "output_tokens": 1, "cache_read_input_tokens": 5});
        for (first, last, so_far, whole) in [
            (first.clone(), json!({"output_tokens": 9}), usage(25, 1, 5, 0), usage(25, 9, 5, 0)),
            (
                first.clone(),
                json!({"input_tokens": 0, "output_tokens": 9, "cache_read_input_tokens": 0}),
                usage(25, 1, 5, 0),
                usage(25, 9, 5, 0),
            ),
            (
                json!({"input_tokens": 0, "output_tokens": 0}),
                json!({"input_tokens": 30, "output_tokens": 9}),
                usage(0, 0, 0, 0),
                usage(30, 9, 0, 0),
            ),
            (first, json!(null), usage(25, 1, 5, 0), usage(25, 0, 5, 0)),
            (json!(null), json!({"output_tokens": 9}), None, usage(0, 9, 0, 0)),
        ] {
            let mut counts = Counts::default();
            counts.take_first(&first);
            assert_eq!(counts.so_far(), so_far, "{first}");
            counts.take(&last);
            assert_eq!(counts.of_whole(), whole, "{first} {last}");
        }
    }
}
