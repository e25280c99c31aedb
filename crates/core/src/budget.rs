//! BudgetPolicy: is there anything left to spend?

mod day;
mod estimate;

use serde::{Deserialize, Serialize};

use crate::FieldError;
use crate::agent::Price;
use crate::model::Usage;

pub use day::{DayLimit, dearest};
pub use estimate::{Estimate, Size, output_cap};

/// Most steps or tool calls that a run may be given.
const MAX_TURNS: u64 = 1_000_000;
/// Longest time that a run may be given: a year.
const MAX_TIMEOUT_MS: u64 = 366 * 86_400_000;

/// Limits of a run (contract, "Agents"). `None` is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budgets {
    /// Model turns.
    pub max_steps: u32,
    /// Tokens in and out, over all attempts.
    pub max_tokens: u64,
    /// Tool calls that are executed.
    pub max_tool_calls: u32,
    /// Time that the run works or is queued; waiting for people doesn't count.
    pub timeout_ms: u64,
    /// Money, in micro-USD.
    pub max_cost_microusd: Option<u64>,
    /// What happens when one is used up.
    pub on_exhausted: OnExhausted,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            max_steps: 20,
            max_tokens: 200_000,
            max_tool_calls: 50,
            timeout_ms: 600_000,
            max_cost_microusd: None,
            on_exhausted: OnExhausted::Stop,
        }
    }
}

/// What happens when a limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExhausted {
    /// The run ends.
    Stop,
    /// The run waits for a person to raise the limit.
    Ask,
}

/// A change of limits: absent fields stay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BudgetPatch {
    /// See [`Budgets::max_steps`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// See [`Budgets::max_tokens`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// See [`Budgets::max_tool_calls`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// See [`Budgets::timeout_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// See [`Budgets::max_cost_microusd`]; null takes the limit away.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub max_cost_microusd: Option<Option<u64>>,
    /// See [`Budgets::on_exhausted`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_exhausted: Option<OnExhausted>,
}

/// Tells a field that is null from one that is absent.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::<u64>::deserialize(deserializer).map(Some)
}

impl BudgetPatch {
    /// The limits with this change.
    pub fn apply(&self, to: &Budgets) -> Budgets {
        Budgets {
            max_steps: self.max_steps.unwrap_or(to.max_steps),
            max_tokens: self.max_tokens.unwrap_or(to.max_tokens),
            max_tool_calls: self.max_tool_calls.unwrap_or(to.max_tool_calls),
            timeout_ms: self.timeout_ms.unwrap_or(to.timeout_ms),
            max_cost_microusd: self.max_cost_microusd.unwrap_or(to.max_cost_microusd),
            on_exhausted: self.on_exhausted.unwrap_or(to.on_exhausted),
        }
    }
}

/// The most that is counted of anything: far beyond any limit, and within what a database and a JSON reader hold.
pub const MAX_COUNT: u64 = 1 << 52;

/// What is used of a budget.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Used {
    /// Model turns begun.
    pub steps: u32,
    /// Input tokens over all attempts, cached ones included.
    pub input_tokens: u64,
    /// Output tokens over all attempts.
    pub output_tokens: u64,
    /// Calls executed.
    pub tool_calls: u32,
    /// In micro-USD.
    pub cost_microusd: u64,
    /// Of the input tokens, those that came from providers' caches.
    #[serde(skip_serializing_if = "is_zero")]
    pub cached_input_tokens: u64,
    /// Attempts on models, without those that nobody was asked in.
    #[serde(skip_serializing_if = "is_zero")]
    pub model_calls: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Used {
    /// Tokens in and out.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Adds one attempt's tokens and their price. What a provider tells may be absurd: sums end at [`MAX_COUNT`].
    pub fn add(&mut self, usage: &Usage, cost_microusd: u64) {
        let sum = |a: u64, b: u64| a.saturating_add(b).min(MAX_COUNT);
        self.input_tokens = sum(self.input_tokens, usage.input_tokens);
        self.output_tokens = sum(self.output_tokens, usage.output_tokens);
        self.cached_input_tokens = sum(self.cached_input_tokens, usage.cached_input_tokens);
        self.cost_microusd = sum(self.cost_microusd, cost_microusd);
    }
}

/// Which limit is in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the limits'")]
pub enum Limit {
    MaxSteps,
    MaxTokens,
    MaxToolCalls,
    MaxCost,
    Timeout,
}

/// The limit that forbids another model turn, if any. `estimate` is the request's input in tokens and its price;
/// a call isn't begun when that plus one output token is over what is left (contract, "Behaviours decided" 7).
pub fn before_model_call(budgets: &Budgets, used: &Used, estimate: &Estimate) -> Option<Limit> {
    if used.tokens().saturating_add(estimate.input_tokens) >= budgets.max_tokens {
        return Some(Limit::MaxTokens);
    }
    let over = |max: u64| {
        used.cost_microusd.saturating_add(estimate.cost_microusd) > max || used.cost_microusd >= max
    };
    if estimate.priced && budgets.max_cost_microusd.is_some_and(over) {
        return Some(Limit::MaxCost);
    }
    None
}

/// Price of one attempt in micro-USD, rounded up (contract, "Usage").
pub fn cost(price: &Price, usage: &Usage) -> u64 {
    let input = u128::from(price.input_microusd_per_mtok);
    let cached_rate = price.cached_input_microusd_per_mtok.map_or(input, u128::from);
    // The vendor that charges for writing to its cache takes a quarter more than for other input.
    let write_rate = price.cache_write_microusd_per_mtok.map_or((input * 5).div_ceil(4), u128::from);
    let cached = u128::from(usage.cached_input_tokens.min(usage.input_tokens));
    let written = u128::from(
        usage.cache_write_tokens.min(usage.input_tokens - usage.cached_input_tokens.min(usage.input_tokens)),
    );
    let plain = u128::from(usage.input_tokens) - cached - written;
    let parts = plain * input
        + cached * cached_rate
        + written * write_rate
        + u128::from(usage.output_tokens) * u128::from(price.output_microusd_per_mtok);
    u64::try_from(parts.div_ceil(1_000_000)).unwrap_or(MAX_COUNT).min(MAX_COUNT)
}

/// Checks limits that a tenant sets.
pub fn check(budgets: &Budgets, at: &str, errors: &mut Vec<FieldError>) {
    let mut within = |name: &str, value: u64, least: u64, most: u64| {
        if value < least || value > most {
            errors.push(FieldError::new(format!("{at}/{name}"), format!("must be {least} to {most}")));
        }
    };
    within("max_steps", budgets.max_steps.into(), 1, MAX_TURNS);
    within("max_tokens", budgets.max_tokens, 1, MAX_COUNT);
    within("max_tool_calls", budgets.max_tool_calls.into(), 0, MAX_TURNS);
    within("timeout_ms", budgets.timeout_ms, 1, MAX_TIMEOUT_MS);
    within("max_cost_microusd", budgets.max_cost_microusd.unwrap_or(0), 0, MAX_COUNT);
}

/// Which limits of `wanted` lie over those of `agent`; only an admin may have them so.
pub fn raised(agent: &Budgets, wanted: &Budgets) -> Vec<&'static str> {
    let over_cost = match (agent.max_cost_microusd, wanted.max_cost_microusd) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(limit), Some(wanted)) => wanted > limit,
    };
    [
        ("max_steps", wanted.max_steps > agent.max_steps),
        ("max_tokens", wanted.max_tokens > agent.max_tokens),
        ("max_tool_calls", wanted.max_tool_calls > agent.max_tool_calls),
        ("timeout_ms", wanted.timeout_ms > agent.timeout_ms),
        ("max_cost_microusd", over_cost),
    ]
    .into_iter()
    .filter_map(|(name, over)| over.then_some(name))
    .collect()
}

/// Limits of `wanted` that lie below what is used already.
pub fn below_used(wanted: &Budgets, used: &Used, elapsed_ms: u64) -> Vec<&'static str> {
    [
        ("max_steps", wanted.max_steps < used.steps),
        ("max_tokens", wanted.max_tokens < used.tokens()),
        ("max_tool_calls", wanted.max_tool_calls < used.tool_calls),
        ("timeout_ms", wanted.timeout_ms < elapsed_ms),
        ("max_cost_microusd", wanted.max_cost_microusd.is_some_and(|max| max < used.cost_microusd)),
    ]
    .into_iter()
    .filter_map(|(name, below)| below.then_some(name))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, output: u64, cached: u64) -> Usage {
        Usage { input_tokens: input, output_tokens: output, cached_input_tokens: cached, ..Usage::default() }
    }

    #[test]
    fn cost_prices_cached_input_apart_and_rounds_up() {
        let price = Price {
            input_microusd_per_mtok: 3_000_000,
            output_microusd_per_mtok: 15_000_000,
            cached_input_microusd_per_mtok: Some(500_000),
            cache_write_microusd_per_mtok: None,
        };
        assert_eq!(cost(&price, &usage(1000, 100, 0)), 4500);
        assert_eq!(cost(&price, &usage(1200, 10, 1000)), 1250);
        assert_eq!(cost(&Price { input_microusd_per_mtok: 1, ..Price::default() }, &usage(1, 0, 0)), 1);
        assert_eq!(cost(&price, &usage(5, 0, 9)), 3);
        let written = Usage { cache_write_tokens: 1000, ..usage(1200, 0, 0) };
        assert_eq!(cost(&price, &written), 600 + 3750, "a quarter more than other input");
        let told = Price { cache_write_microusd_per_mtok: Some(6_000_000), ..price };
        assert_eq!(cost(&told, &written), 600 + 6000);
    }

    #[test]
    fn a_call_that_cannot_fit_is_not_begun() {
        let budgets = Budgets { max_tokens: 100, max_cost_microusd: Some(50), ..Budgets::default() };
        let used = Used { input_tokens: 80, cost_microusd: 40, ..Used::default() };
        let estimate = |tokens, cost| Estimate {
            input_tokens: tokens,
            cost_microusd: cost,
            priced: true,
            ..Estimate::default()
        };
        assert_eq!(before_model_call(&budgets, &used, &estimate(19, 10)), None);
        assert_eq!(before_model_call(&budgets, &used, &estimate(20, 10)), Some(Limit::MaxTokens));
        assert_eq!(before_model_call(&budgets, &used, &estimate(10, 11)), Some(Limit::MaxCost));
        assert_eq!(output_cap(&budgets, &used, &estimate(15, 0), Some(1000), false), Some(5));
    }

    #[test]
    fn absurd_counts_do_not_disarm_a_limit() {
        let mut used = Used::default();
        for _ in 0..3 {
            used.add(&usage(u64::MAX, u64::MAX, 0), u64::MAX);
        }
        let estimate =
            Estimate { input_tokens: u64::MAX, cost_microusd: u64::MAX, priced: true, ..Estimate::default() };
        assert_eq!(used.tokens(), 2 * MAX_COUNT);
        assert_eq!(before_model_call(&Budgets::default(), &used, &estimate), Some(Limit::MaxTokens));
        assert_eq!(output_cap(&Budgets::default(), &used, &estimate, Some(9), false), Some(1));
        let dear = Price { input_microusd_per_mtok: u64::MAX, ..Price::default() };
        assert_eq!(cost(&dear, &usage(u64::MAX, 0, 0)), MAX_COUNT);
    }

    #[test]
    fn limits_have_limits() {
        let odd = Budgets {
            max_steps: 0,
            timeout_ms: u64::MAX,
            max_cost_microusd: Some(u64::MAX),
            ..Budgets::default()
        };
        let mut errors = Vec::new();
        check(&odd, "/budgets", &mut errors);
        let pointers: Vec<_> = errors.iter().map(|error| error.pointer.as_str()).collect();
        assert_eq!(pointers, ["/budgets/max_steps", "/budgets/timeout_ms", "/budgets/max_cost_microusd"]);
    }

    #[test]
    fn a_patch_tells_null_from_absent() {
        let patch: BudgetPatch =
            serde_json::from_str(r#"{"max_cost_microusd": null, "max_steps": 3}"#).expect("patch");
        let to = Budgets { max_cost_microusd: Some(5), ..Budgets::default() };
        assert_eq!(patch.apply(&to), Budgets { max_steps: 3, ..Budgets::default() });
        assert_eq!(BudgetPatch::default().apply(&to), to);
        assert_eq!(raised(&to, &Budgets::default()), ["max_cost_microusd"]);
    }
}
