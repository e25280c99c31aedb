//! Thinking: what the agent's `params` ask of it, and whether this history allows it.
//!
//! Where `params` give it a budget (`"type": "enabled"`), the vendor refuses a history whose open row of calls was begun by
//! a message without thinking, as after a fallback; such a request goes out without. Where the model thinks as it likes
//! (`"adaptive"`, or nothing said), it takes any history.

use serde_json::{Value, json};

use super::kept::is_thinking;
use super::turns::Turn;

/// Least budget that the vendor takes, in tokens.
const LEAST_BUDGET: u64 = 1024;

/// The budget of thinking that is asked for.
pub(super) fn budget(asked: &Value) -> Option<u64> {
    if asked["type"] == "enabled" { asked["budget_tokens"].as_u64() } else { None }
}

/// The `thinking` of a request, where its history and its cap allow what is asked for. What the history has of it is taken
/// away where the model isn't to think.
pub(super) fn of_request(asked: &Value, cap: u64, turns: &mut [Turn]) -> Option<Value> {
    let thinking = match asked["type"].as_str() {
        Some("enabled") if begins_with_thought(turns) => within(asked, cap),
        Some("enabled") => None,
        _ if asked.is_null() => return None,
        _ => Some(asked.clone()),
    };
    if thinking.as_ref().is_none_or(|thinking| thinking["type"] == "disabled") {
        // No turn consists of it alone, so none becomes empty.
        turns.iter_mut().for_each(|turn| turn.blocks.retain(|block| !is_thinking(block)));
    }
    thinking
}

/// Leaves half of the cap to the answer where the budget would take it all.
fn within(asked: &Value, cap: u64) -> Option<Value> {
    let Some(budget) = budget(asked) else { return Some(asked.clone()) };
    if budget < cap {
        return Some(asked.clone());
    }
    let mut fitting = asked.clone();
    fitting["budget_tokens"] = json!(cap / 2);
    (cap / 2 >= LEAST_BUDGET).then_some(fitting)
}

/// Whether every message of the open row of calls that follows words of the user's begins with thinking.
fn begins_with_thought(turns: &[Turn]) -> bool {
    let mut end = turns.len();
    while end >= 2 && turns[end - 1].has_results() {
        let (before, said) = (turns.get(end.wrapping_sub(3)), &turns[end - 2]);
        let follows_words = before.is_none_or(|before| !before.is_results_alone());
        if follows_words && !said.blocks.first().is_some_and(is_thinking) {
            return false;
        }
        end -= 2;
    }
    true
}
