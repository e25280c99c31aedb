//! What a request to a model may take of its tenant's day (`max_tokens_per_day`, `max_cost_microusd_per_day`): asked for
//! before each attempt, over all servers, so that what is out together never takes more than there is.

use std::time::Duration;

use answerable_core::budget::DayLimit;

/// A request that wants to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllowanceWanted {
    /// Its input, as it is estimated.
    pub input_tokens: u64,
    /// The most that its reply may have; `None`: as much as the model likes.
    pub output_tokens: Option<u64>,
    /// The most that its input and one token of output cost.
    pub cost_microusd: u64,
    /// What a million tokens of output cost; `None`: the model has no price, so money doesn't limit it.
    pub output_microusd_per_mtok: Option<u64>,
}

/// What it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowance {
    /// It may leave, with a reply of so many tokens at most; `None`: no bound is needed. The allowance is written down, and
    /// ends with the commit of what the attempt came to, or with the lease.
    Given(Option<u64>),
    /// Other requests that are out may take what is left. When they are back there may be more.
    Wait,
    /// Too little is left, whatever others take; the next day begins after so long.
    UsedUp(DayLimit, Duration),
    /// Another server has the run.
    Lost,
}
