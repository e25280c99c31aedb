//! What a tenant may use in a day: a limit that all its runs share.

use serde::{Deserialize, Serialize};

use super::{Limit, cost};
use crate::agent::Price;
use crate::model::Usage;

/// A quota of the day. Days are UTC's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DayLimit {
    /// `max_tokens_per_day`.
    Tokens,
    /// `max_cost_microusd_per_day`.
    Money,
}

impl DayLimit {
    /// The quota's name.
    pub fn quota(self) -> &'static str {
        match self {
            Self::Tokens => "max_tokens_per_day",
            Self::Money => "max_cost_microusd_per_day",
        }
    }

    /// The limit of a run that it is most like.
    pub fn limit(self) -> Limit {
        match self {
            Self::Tokens => Limit::MaxTokens,
            Self::Money => Limit::MaxCost,
        }
    }

    /// What is told of a run that it stops.
    pub(crate) fn detail(self) -> String {
        let what = match self {
            Self::Tokens => "tokens",
            Self::Money => "money",
        };
        format!(
            "what is left of the tenant's {what} of the day ({}) leaves no room for another model call; the next day \
             begins at 00:00 UTC",
            self.quota()
        )
    }
}

/// The most that a request of so many input tokens may cost with one output token: as if all of it were written to the
/// provider's cache, where that is dearer.
pub fn dearest(price: &Price, input_tokens: u64) -> u64 {
    let plain = Usage { input_tokens, output_tokens: 1, ..Usage::default() };
    let cached = Usage { cached_input_tokens: input_tokens, ..plain };
    let written = Usage { cache_write_tokens: input_tokens, ..plain };
    [plain, cached, written].iter().map(|usage| cost(price, usage)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_cache_does_it_costs_no_more() {
        let price = Price {
            input_microusd_per_mtok: 4_000_000,
            output_microusd_per_mtok: 8_000_000,
            cached_input_microusd_per_mtok: Some(400_000),
            cache_write_microusd_per_mtok: None,
        };
        assert_eq!(dearest(&price, 1_000), 5_008, "a quarter more than plain input");
        let odd = Price { cached_input_microusd_per_mtok: Some(9_000_000), ..price };
        assert_eq!(dearest(&odd, 1_000), 9_008);
        for (cached, written) in [(0, 0), (300, 200), (1_000, 0), (0, 1_000), (400, 600)] {
            let usage = Usage {
                input_tokens: 1_000,
                output_tokens: 1,
                cached_input_tokens: cached,
                cache_write_tokens: written,
                estimated: false,
            };
            assert!(cost(&price, &usage) <= dearest(&price, 1_000), "{usage:?}");
        }
    }
}
