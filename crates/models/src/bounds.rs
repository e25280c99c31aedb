//! How much is kept of what a provider adds to a reply. It is stored with the message and sent along with every later
//! request, so it must not be as long as the provider likes.

use answerable_core::json::clean_text;
use answerable_core::text;
use answerable_tools::Mask;
use serde_json::{Map, Value};

/// Most bytes of a reply's further fields, as JSON.
const MOST_EXTRA: usize = 1 << 20;
/// Most characters of the word for why a reply ended.
const LONGEST_REASON: usize = 100;

/// The further fields of a reply, or none of them where they are too long: parts of them would not be what the model said.
pub(crate) fn extra(fields: Map<String, Value>) -> Map<String, Value> {
    let is_within = serde_json::to_string(&fields).is_ok_and(|json| json.len() <= MOST_EXTRA);
    if is_within { fields } else { Map::new() }
}

/// Why a reply ended, in the provider's words: fit for storage, without its secrets, and short.
pub(crate) fn finish_reason(reason: &str, mask: &Mask) -> String {
    text::head(&mask.text(&clean_text(reason)), LONGEST_REASON).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::WIRES;
    use answerable_core::model::{ModelReply, ModelRequest};
    use answerable_ports::ModelTarget;
    use serde_json::json;

    /// A whole answer of each wire, with `sealed` beside its text and `reason` for its end.
    fn answer(wire: &str, sealed: &str, reason: &str) -> Value {
        match wire {
            "openai_chat" => json!({"choices": [{"message": {"content": "All.", "reasoning_content": sealed},
                "finish_reason": reason}]}),
            "anthropic" => json!({"type": "message", "stop_reason": reason, "content": [
                {"type": "redacted_thinking", "data": sealed}, {"type": "text", "text": "All."}]}),
            _ => json!({"status": "completed", "output": [
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": sealed},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "All."}]}]}),
        }
    }

    fn reply(wire: &str, sealed: &str, reason: &str) -> ModelReply {
        let target = ModelTarget { kind: wire.into(), ..ModelTarget::default() };
        let body = answer(wire, sealed, reason).to_string();
        let reply = crate::fuzzing::reply(wire, &target, &ModelRequest::default(), body.as_bytes(), 1 << 16);
        reply.unwrap_or_else(|failure| panic!("{wire}: {failure:?}"))
    }

    #[test]
    fn what_is_too_long_is_left_out_and_the_reply_is_not() {
        for wire in WIRES {
            let kept = reply(wire, &"x".repeat(MOST_EXTRA - 1000), "stop");
            assert!(!kept.extra.is_empty() && kept.text == "All.", "{wire}");
            let cut = reply(wire, &"x".repeat(MOST_EXTRA), "stop");
            assert!(cut.extra.is_empty() && cut.text == "All.", "{wire}");
        }
    }

    #[test]
    fn a_reason_is_short() {
        for wire in ["openai_chat", "anthropic"] {
            let reason = reply(wire, "", &"ü".repeat(5000)).finish_reason.unwrap_or_default();
            assert_eq!(reason, "ü".repeat(LONGEST_REASON), "{wire}");
        }
        assert_eq!(finish_reason("sk-secret-1 \0", &Mask::new(["sk-secret-1"])), "*** \u{fffd}");
    }
}
