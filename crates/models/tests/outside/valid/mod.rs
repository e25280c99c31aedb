//! What vendors accept, judged by what they document: written apart from what renders it.

pub(crate) mod anthropic;
pub(crate) mod openai_chat;
pub(crate) mod openai_responses;

use serde_json::Value;

/// Panics where a vendor would refuse the request.
pub(crate) fn check(wire: &str, body: &Value, about: &str) {
    match wire {
        "anthropic" => anthropic::check(body),
        "openai_responses" => openai_responses::check(body),
        "openai_chat" => openai_chat::check(body),
        _ => panic!("nobody judges {wire}: {about}"),
    }
}
