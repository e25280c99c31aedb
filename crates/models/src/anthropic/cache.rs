//! Marks of what is worth caching: all that stands before a mark is read from the provider's cache by a later request that
//! begins the same. Four may be set: this sets one at the end of what never changes and one at the end of each of the
//! user's two newest turns, of which the older was the newest when the model was asked last.

use answerable_core::provider::CacheControl;
use serde_json::{Value, json};

use super::turns::Turn;

/// The user's turns that are marked.
const MARKED_TURNS: usize = 2;

/// The mark.
pub(super) fn mark(control: CacheControl) -> Option<Value> {
    match control {
        CacheControl::Off => None,
        CacheControl::FiveMinutes => Some(json!({"type": "ephemeral"})),
        CacheControl::OneHour => Some(json!({"type": "ephemeral", "ttl": "1h"})),
    }
}

/// Marks a block, or a tool.
pub(super) fn set(block: Option<&mut Value>, mark: &Value) {
    if let Some(block) = block {
        block["cache_control"] = mark.clone();
    }
}

/// Marks the newest turns.
pub(super) fn set_in_turns(turns: &mut [Turn], mark: &Value) {
    let users = turns.iter_mut().rev().filter(|turn| turn.is_users);
    users.take(MARKED_TURNS).for_each(|turn| set(turn.blocks.last_mut(), mark));
}
