//! What a request is expected to take, and how long its reply may be: what is reserved before it is sent.

use serde::{Deserialize, Serialize};

use super::{Budgets, Used, cost};
use crate::agent::Price;
use crate::correction::{self, EXACT};
use crate::model::Usage;
use crate::tokens::Counter;

/// How large a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// What its tokens were counted with.
    pub counter: Counter,
    /// Its tokens, as they were counted.
    pub counted: u64,
    /// What the provider's own counts correct that by, in permille.
    pub corrected_by: u32,
}

impl Size {
    /// Its tokens, as the provider is expected to count them.
    pub fn tokens(&self) -> u64 {
        correction::corrected(self.counted, self.corrected_by)
    }
}

/// What a request is expected to take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// Tokens of the input, as the provider is expected to count them.
    pub input_tokens: u64,
    /// Price of the input and one output token.
    pub cost_microusd: u64,
    /// Whether the model has a price at all.
    pub priced: bool,
    /// Price of a million output tokens.
    #[serde(default, skip_serializing_if = "is_default")]
    pub output_microusd_per_mtok: u64,
    /// Tokens of the input as they were counted, before any correction.
    #[serde(default, skip_serializing_if = "is_default")]
    pub counted_tokens: u64,
    /// What they were counted with.
    #[serde(default, skip_serializing_if = "is_default")]
    pub counter: Counter,
    /// What they were corrected by, in permille; 0: by nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub corrected_by: u32,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Estimate {
    /// What a request of this size takes of a model with this price, if it has one.
    pub fn of(size: &Size, price: Option<&Price>) -> Self {
        let input_tokens = size.tokens();
        let usage = Usage { input_tokens, output_tokens: 1, ..Usage::default() };
        Self {
            input_tokens,
            cost_microusd: price.map_or(0, |price| cost(price, &usage)),
            priced: price.is_some(),
            output_microusd_per_mtok: price.map_or(0, |price| price.output_microusd_per_mtok),
            counted_tokens: size.counted,
            counter: size.counter,
            corrected_by: if size.corrected_by == EXACT { 0 } else { size.corrected_by },
        }
    }

    /// What its tokens were corrected by, in permille.
    pub fn correction(&self) -> u32 {
        if self.corrected_by == 0 { EXACT } else { self.corrected_by }
    }

    /// Its tokens as they were counted; estimates of older versions were corrected by nothing.
    pub fn counted(&self) -> u64 {
        if self.counted_tokens == 0 { self.input_tokens } else { self.counted_tokens }
    }
}

/// The largest cap that an agent without one of its own is given where its limits leave no more: any model takes it.
const MOST_UNASKED: u64 = 8_192;

/// Tokens that a reply may have: the agent's cap, cut to what is left in tokens and in money. An agent without a cap gets
/// one where little is left. `cut`: the provider said that input and cap together were too much, so half of it.
pub fn output_cap(
    budgets: &Budgets,
    used: &Used,
    estimate: &Estimate,
    wanted: Option<u64>,
    cut: bool,
) -> Option<u64> {
    let in_tokens = budgets.max_tokens.saturating_sub(used.tokens().saturating_add(estimate.input_tokens));
    let left = affordable(budgets, used, estimate).map_or(in_tokens, |most| most.min(in_tokens)).max(1);
    match wanted {
        Some(wanted) if cut => Some((wanted / 2).max(1).min(left)),
        Some(wanted) => Some(wanted.min(left)),
        None if cut => Some(left.min(MOST_UNASKED / 2)),
        None => (left <= MOST_UNASKED).then_some(left),
    }
}

/// Output tokens that the money left pays for; `None`: any number.
fn affordable(budgets: &Budgets, used: &Used, estimate: &Estimate) -> Option<u64> {
    let max = budgets.max_cost_microusd.filter(|_| estimate.priced)?;
    let price = u128::from(estimate.output_microusd_per_mtok);
    let left = max.saturating_sub(used.cost_microusd.saturating_add(estimate.cost_microusd));
    // The estimate pays for the first one.
    let more = (u128::from(left) * 1_000_000).checked_div(price)?;
    Some(u64::try_from(more).unwrap_or(u64::MAX).saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input_tokens: u64, output_tokens: u64) -> Usage {
        Usage { input_tokens, output_tokens, ..Usage::default() }
    }

    #[test]
    fn a_reply_may_be_as_long_as_what_is_left_pays_for() {
        let budgets =
            |tokens, cost| Budgets { max_tokens: tokens, max_cost_microusd: cost, ..Budgets::default() };
        let price = Price {
            input_microusd_per_mtok: 1_000_000,
            output_microusd_per_mtok: 10_000_000,
            ..Price::default()
        };
        let size = Size { counter: Counter::Estimate, counted: 100, corrected_by: EXACT };
        let (priced, free) = (Estimate::of(&size, Some(&price)), Estimate::of(&size, None));
        assert_eq!(priced.cost_microusd, 110);
        let used = Used { cost_microusd: 50, ..Used::default() };
        for (tokens, money, estimate, wanted, cut, cap) in [
            (9_000, Some(1_000), &priced, Some(500), false, Some(85)),
            (9_000, Some(1_000), &priced, None, false, Some(85)),
            (120, Some(1_000), &priced, Some(500), false, Some(20)),
            (9_000, Some(160), &priced, Some(500), false, Some(1)),
            (9_000, Some(1_000), &free, Some(500), false, Some(500)),
            (9_000, None, &free, None, false, None),
            (8_000, None, &free, None, false, Some(7_900)),
            (9_000, None, &free, Some(500), true, Some(250)),
            (9_000, None, &free, None, true, Some(4_096)),
        ] {
            let got = output_cap(&budgets(tokens, money), &used, estimate, wanted, cut);
            assert_eq!(got, cap, "{tokens} {money:?} {wanted:?} {cut}");
            if let (Some(max), Some(cap), true) = (money, got, estimate.priced) {
                assert!(used.cost_microusd + cost(&price, &usage(100, cap)) <= max, "it is paid for");
            }
        }
    }

    #[test]
    fn an_estimate_is_what_the_provider_would_tell() {
        let size = Size { counter: Counter::O200k, counted: 101, corrected_by: 1_500 };
        let estimate = Estimate::of(&size, None);
        assert_eq!((estimate.input_tokens, estimate.counted(), estimate.correction()), (152, 101, 1_500));
        let old: Estimate =
            serde_json::from_str(r#"{"input_tokens": 9, "cost_microusd": 0, "priced": false}"#)
                .expect("read");
        assert_eq!((old.counted(), old.correction(), old.counter), (9, EXACT, Counter::Estimate));
    }
}
