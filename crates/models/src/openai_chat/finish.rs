//! Why a reply ended, in the words of many servers.

use answerable_core::model::Finish;

/// What a reason means.
pub(super) fn of(reason: Option<&str>) -> Finish {
    let reason = reason.unwrap_or_default().to_ascii_lowercase();
    match reason.as_str() {
        "stop" | "tool_calls" | "function_call" | "end_turn" => Finish::Stop,
        "length" | "max_tokens" | "model_length" | "model_context_window_exceeded" => Finish::Length,
        // Gemini's own words come through where they have no other; Zhipu's is `sensitive`.
        "refusal" | "safety" | "recitation" | "blocklist" | "prohibited_content" | "spii" | "sensitive" => {
            Finish::Refusal
        }
        _ if reason.starts_with("content_filter") => Finish::Refusal,
        _ => Finish::Other,
    }
}

/// Whether the server gave the reply up.
pub(super) fn is_given_up(reason: Option<&str>) -> bool {
    matches!(reason, Some("error" | "abort" | "insufficient_system_resource" | "network_error"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_many_servers() {
        for (reason, wanted) in [
            ("stop", Finish::Stop),
            ("STOP", Finish::Stop),
            ("tool_calls", Finish::Stop),
            ("function_call", Finish::Stop),
            ("length", Finish::Length),
            ("MAX_TOKENS", Finish::Length),
            ("model_length", Finish::Length),
            ("content_filter", Finish::Refusal),
            ("content_filter: RECITATION", Finish::Refusal),
            ("PROHIBITED_CONTENT", Finish::Refusal),
            ("sensitive", Finish::Refusal),
            ("function_call_filter: MALFORMED_FUNCTION_CALL", Finish::Other),
            ("eos", Finish::Other),
            ("", Finish::Other),
        ] {
            assert_eq!(of(Some(reason)), wanted, "{reason}");
        }
        assert_eq!(of(None), Finish::Other);
        assert!(is_given_up(Some("network_error")) && !is_given_up(Some("stop")) && !is_given_up(None));
    }
}
