//! What a tenant can do about a refusal: which of a provider's switches the server's words speak of.

/// Words that all stand in a refusal, in lower case, and the switch that they speak of.
const HINTS: &[(&[&str], &str)] = &[
    (&["temperature"], "temperature: false"),
    (&["reasoning_content", "must be passed back"], "send_reasoning: true"),
    (&["missing", "reasoning_content"], "send_reasoning: true"),
    (&["thought_signature"], "send_reasoning: true"),
    (&["tool call id", "length of 9"], "call_ids: short"),
    (&["unexpected role 'user' after role 'tool'"], "strict_turns: true"),
    (&["roles must alternate"], "strict_turns: true"),
    (&["response mime type", "function calling"], "structured_output: off"),
    (&["json mode", "tool"], "structured_output: off"),
    (&["encrypted content"], "send_reasoning: false"),
    (&["items are not persisted"], "send_reasoning: false"),
    (&["stream_options"], "stream_usage: false"),
    (&["parallel_tool_calls"], "parallel_tool_calls, which is best left out"),
    (&["tool_choice"], "tool_choice: false"),
    (&["response_format"], "structured_output: json_object or off"),
    (&["text.format"], "structured_output: json_object or off"),
    (&["developer", "role"], "system_role: system"),
    (&["system", "role"], "system_role: developer or user"),
    (&["cache_control"], "cache_control: off"),
    (&["output_config"], "structured_output: false"),
    (&["output_format"], "structured_output: false"),
];

/// Words that are in too many refusals to tell anything, unless something is [`REFUSED`] there, and their switches.
const VAGUE_HINTS: &[(&str, &str)] = &[
    ("max_completion_tokens", "max_tokens_field: max_tokens"),
    ("reasoning", "send_reasoning: false"),
    ("image", "images: false"),
];

/// What servers say of a thing that they don't know or don't take.
const REFUSED: &[&str] = &[
    "unsupported",
    "not support",
    "unknown",
    "extra",
    "unexpected",
    "not permitted",
    "not allowed",
    "unrecognized",
    "unrecognised",
];

/// Fields of the agent's `params`, which no switch of the provider's has anything to do with.
const OTHERS: &[&str] = &["reasoning_effort", "reasoning.effort"];

/// A hint for a refusal of status 400 or 422, if its words speak of a switch.
pub(crate) fn of(status: u16, words: &str) -> Option<String> {
    if !matches!(status, 400 | 422) {
        return None;
    }
    let switch = of_cap(words).or_else(|| of_table(words)).or_else(|| vague(words))?;
    Some(format!("the provider's options may need {switch}"))
}

fn of_table(words: &str) -> Option<&'static str> {
    let is_said = |needles: &[&str]| needles.iter().all(|needle| words.contains(needle));
    HINTS.iter().find(|(needles, _)| is_said(needles)).map(|(_, switch)| *switch)
}

/// Where both names of the cap are told, the server wants the one that it says to use, else not the one that it says first.
fn of_cap(words: &str) -> Option<&'static str> {
    let (old, new) = (words.find("max_tokens")?, words.find("max_completion_tokens")?);
    let bare: String = words.chars().filter(|c| !matches!(c, '\'' | '"' | '`')).collect();
    let wants_new = match ["use max_tokens", "use max_completion_tokens"].map(|words| bare.contains(words)) {
        [true, false] => false,
        [false, true] => true,
        _ => old < new,
    };
    Some(if wants_new { "max_tokens_field: max_completion_tokens" } else { "max_tokens_field: max_tokens" })
}

fn vague(words: &str) -> Option<&'static str> {
    let words = OTHERS.iter().fold(words.to_owned(), |words, other| words.replace(other, ""));
    if !REFUSED.iter().any(|refused| words.contains(refused)) {
        return None;
    }
    VAGUE_HINTS.iter().find(|(needle, _)| words.contains(needle)).map(|(_, switch)| *switch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_servers_lead_to_their_switches() {
        for (words, switch) in [
            (
                "unsupported parameter: 'max_tokens' is not supported with this model. use 'max_completion_tokens' instead.",
                "max_tokens_field: max_completion_tokens",
            ),
            ("max_completion_tokens is unknown, use max_tokens", "max_tokens_field: max_tokens"),
            ("use `max_tokens`: `max_completion_tokens` is unknown", "max_tokens_field: max_tokens"),
            (
                "use \"max_completion_tokens\" instead of \"max_tokens\"",
                "max_tokens_field: max_completion_tokens",
            ),
            ("max_completion_tokens: not a field; see max_tokens", "max_tokens_field: max_tokens"),
            ("unknown field max_completion_tokens", "max_tokens_field: max_tokens"),
            ("unsupported value: 'temperature' does not support 0 with this model.", "temperature: false"),
            (
                "the `reasoning_content` in the thinking mode must be passed back to the api.",
                "send_reasoning: true",
            ),
            (
                "'messages.2' : for 'role:assistant' property 'reasoning' is unsupported",
                "send_reasoning: false",
            ),
            ("extra inputs are not permitted: stream_options", "stream_usage: false"),
            (
                "'messages[0].role' does not support 'system' with this model",
                "system_role: developer or user",
            ),
            ("this model does not support image input", "images: false"),
            ("function call is missing a thought_signature in functioncall parts.", "send_reasoning: true"),
            ("tool call id was tc_1 but must be a-z, a-z, 0-9, with a length of 9.", "call_ids: short"),
            ("unexpected role 'user' after role 'tool'", "strict_turns: true"),
            (
                "function calling with a response mime type: 'application/json' is unsupported",
                "structured_output: off",
            ),
            ("json mode cannot be combined with tool/function calling", "structured_output: off"),
            (
                "item with id 'rs_1' not found. items are not persisted when `store` is set to false.",
                "send_reasoning: false",
            ),
            ("the encrypted content gaaa could not be verified.", "send_reasoning: false"),
            ("unknown parameter: 'text.format'", "structured_output: json_object or off"),
            ("output_config: extra inputs are not permitted", "structured_output: false"),
        ] {
            let hint = of(400, words).unwrap_or_default();
            assert!(hint.ends_with(switch), "{words}: {hint}");
        }
        for words in [
            "no",
            "the image is too large",
            "the model stopped within its reasoning",
            "max_completion_tokens must be 4096 at most",
            "unsupported value: 'reasoning_effort' does not support 'low' with this model",
        ] {
            assert_eq!(of(400, words), None, "{words}");
        }
        assert_eq!(of(401, "temperature"), None);
    }
}
