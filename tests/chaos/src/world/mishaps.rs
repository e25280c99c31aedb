//! Faults that the world makes by itself: seeded, so that a seed gives the same ones again.

use super::kinds::{FIND, ToolKind};
use crate::witness::drawn;

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mishap {
    /// Nothing.
    None,
    /// The line is cut, and nothing was done.
    CutBefore,
    /// The line is cut after it was done.
    CutAfter,
    /// 500, and nothing was done.
    ErrorBefore,
    /// 500 after it was done.
    ErrorAfter,
    /// 503 with `Retry-After`: nothing was done.
    Busy,
    /// It is done at once, and the answer comes when nobody waits any more.
    LateAnswer,
    /// It is done when nobody waits any more.
    LateEffect,
}

/// How long a late one takes, in milliseconds: longer than the agent's time-out for quick tools.
pub(super) const LATE_MS: u64 = 2500;

/// What goes wrong with the n-th request for a token (from 1). Only the first goes wrong, of a tool that dedupes also
/// the second: everything can be done in the end.
pub(super) fn mishap(seed: u64, tool: ToolKind, token: &str, nth: u32) -> Mishap {
    if nth > 1 + u32::from(tool.dedupes) || tool.name == "poison" {
        return Mishap::None;
    }
    let percent = drawn(seed, &["mishap", tool.name, token, &nth.to_string()]) % 100;
    match (tool.writes, percent) {
        (_, 0..5) => Mishap::CutBefore,
        (_, 5..8) => Mishap::ErrorBefore,
        (_, 8..12) => Mishap::Busy,
        (true, 12..17) => Mishap::CutAfter,
        (true, 17..20) => Mishap::ErrorAfter,
        (true, 20..23) => Mishap::LateAnswer,
        (true, 23..26) => Mishap::LateEffect,
        (false, 12..14) if tool.name != FIND => Mishap::LateAnswer,
        _ => Mishap::None,
    }
}

/// How long a request takes, in milliseconds.
pub(super) fn takes_ms(seed: u64, tool: ToolKind, token: &str, nth: u32) -> u64 {
    let (least, most) = tool.takes_ms;
    let span = most.saturating_sub(least) + 1;
    least + drawn(seed, &["takes", tool.name, token, &nth.to_string()]) % span
}
