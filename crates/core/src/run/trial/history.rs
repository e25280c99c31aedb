//! Whether providers accept a history.

use std::collections::HashSet;

use crate::id::CallId;
use crate::message::{Message, Role};
use crate::reply::{MAX_CALLS, legal_name};

/// Whether each call is answered once, at once and in order, with nothing in between and nothing empty.
pub(super) fn check<'a>(messages: impl Iterator<Item = (&'a u64, &'a Message)>) {
    let (mut open, mut used): (Vec<CallId>, HashSet<CallId>) = (Vec::new(), HashSet::new());
    let (mut known, mut version) = (HashSet::new(), 0);
    for (place, (seq, message)) in messages.enumerate() {
        assert_eq!(*seq, place as u64 + 1, "the history has no holes");
        if let Some(summary) = &message.summary {
            assert!(known.contains(&summary.upto) && message.role == Role::User, "it covers what was there");
            version += 1;
            assert_eq!(summary.version, version, "summaries are counted");
        }
        known.insert(message.id);
        match message.role {
            Role::Tool => {
                assert_eq!(message.tool_call_id, open.first().copied(), "results stand in call order");
                assert!(!message.content.is_empty(), "a result says something");
                open.remove(0);
            }
            Role::User => assert!(open.is_empty() && !message.content.is_empty()),
            Role::Assistant => {
                assert!(open.is_empty(), "an answer comes before the results of {open:?}");
                assert!(
                    !message.tool_calls.is_empty() || !message.content.trim().is_empty(),
                    "an empty answer"
                );
                assert!(message.tool_calls.len() <= MAX_CALLS);
                for call in &message.tool_calls {
                    assert!(used.insert(call.id), "a call's id is used once");
                    assert!(call.name == legal_name(&call.name) || call.name.starts_with("srv__"));
                    let arguments = crate::json::parse(&call.arguments).expect("arguments are JSON");
                    assert!(arguments.is_object());
                }
                open = message.tool_calls.iter().map(|call| call.id).collect();
            }
            Role::System => panic!("system text stands in no history"),
        }
    }
    assert!(open.is_empty(), "no result of {open:?}");
}
