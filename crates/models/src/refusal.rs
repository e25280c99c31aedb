//! What a refusal means: by its status, and where the context is too long, by its words.

use answerable_core::model::{FailureKind, ModelFailure, ModelRequest};
use answerable_core::{json, text};
use answerable_ports::ModelTarget;
use answerable_tools::retry_after;
use reqwest::Response;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::assembly::Broken;
use crate::{failure, hints, secrets};

/// Most bytes of a refusal that are looked at.
const MOST_BYTES: usize = 64 << 10;
/// Most characters of it that are kept.
const MOST_CHARS: usize = 500;

/// An answer whose status is no success.
pub(crate) async fn of_answer(
    mut response: Response,
    deadline: Instant,
    target: &ModelTarget,
    request: &ModelRequest,
) -> ModelFailure {
    let status = response.status().as_u16();
    let retry_after_ms = retry_after::read(response.headers());
    let body = body(&mut response, deadline).await;
    ModelFailure { retry_after_ms, ..of_body(status, &body, target, request) }
}

/// What stands in such an answer.
pub(crate) fn of_body(
    status: u16,
    body: &[u8],
    target: &ModelTarget,
    request: &ModelRequest,
) -> ModelFailure {
    let body = String::from_utf8_lossy(body);
    let said = match json::parse(&body) {
        Ok(value) => Said::of(error_in(&value)),
        Err(_) => Said::plain(&body),
    };
    let kind = kind(Some(status), &said, request);
    let mut message = said.message(&format!("HTTP {status}"), target);
    if kind == FailureKind::Refused
        && let Some(hint) = hints::of(status, &said.all)
    {
        message = format!("{message} ({hint})");
    }
    failure::of(kind, Some(status), message)
}

/// A reply that was broken off, or an error in its place.
pub(crate) fn of_broken(broken: &Broken, target: &ModelTarget, request: &ModelRequest) -> ModelFailure {
    match broken {
        Broken::Late(_) => failure::of(FailureKind::Passing, None, "the reply came too late"),
        Broken::Cut(why) => failure::of(FailureKind::Passing, Some(200), *why),
        Broken::Error(object) => {
            let error = if object["error"].is_null() { object } else { &object["error"] };
            let status = status_of(error);
            let said = Said::of(error);
            let kind = kind(status, &said, request);
            failure::of(kind, status.or(Some(200)), said.message("an error within the reply", target))
        }
    }
}

/// Codes of errors within a reply that no second try would mend: the request itself is refused.
const REFUSED_CODES: [&str; 14] = [
    "invalid_request_error",
    "invalid_prompt",
    "invalid_image",
    "invalid_image_format",
    "invalid_base64_image",
    "invalid_image_url",
    "invalid_image_mode",
    "image_too_large",
    "image_too_small",
    "image_parse_error",
    "image_content_policy_violation",
    "image_file_too_large",
    "unsupported_image_media_type",
    "empty_image_file",
];

/// The status that an error within a reply stands for: its code, or what its type means.
fn status_of(error: &Value) -> Option<u16> {
    let code = &error["code"];
    let told = code.as_u64().or_else(|| code.as_str()?.parse().ok());
    let told = told.and_then(|status| u16::try_from(status).ok());
    told.filter(|status| (400..600).contains(status)).or_else(|| {
        if [code, &error["type"]]
            .iter()
            .any(|word| word.as_str().is_some_and(|word| REFUSED_CODES.contains(&word)))
        {
            return Some(400);
        }
        let word = [&error["type"], code].into_iter().find_map(|word| match word.as_str()? {
            "rate_limit_exceeded" => Some(429),
            "server_error" => Some(500),
            _ => None,
        });
        if word.is_some() {
            return word;
        }
        Some(match error["type"].as_str()? {
            "authentication_error" => 401,
            "permission_error" => 403,
            "not_found_error" => 404,
            "request_too_large" => 413,
            "rate_limit_error" => 429,
            "api_error" => 500,
            "timeout_error" => 504,
            "overloaded_error" => 529,
            _ => return None,
        })
    })
}

async fn body(response: &mut Response, deadline: Instant) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < MOST_BYTES
        && let Ok(Ok(Some(piece))) = timeout_at(deadline, response.chunk()).await
    {
        body.extend_from_slice(&piece);
    }
    body.truncate(MOST_BYTES);
    body
}

/// The error in a body; some send a list of one.
fn error_in(body: &Value) -> &Value {
    let body = body.get(0).unwrap_or(body);
    if body["error"].is_null() { body } else { &body["error"] }
}

/// The words of an error.
struct Said {
    message: String,
    /// Message, code and type in lower case, to be looked through.
    all: String,
}

impl Said {
    fn of(error: &Value) -> Self {
        let known = [&error["message"], &error["detail"], &error["error"], &error["title"], error];
        let message = known.into_iter().find_map(Value::as_str).map(str::to_owned);
        // Servers that judge a request by a schema list what is wrong with it instead.
        let listed = || known.into_iter().find(|said| said.is_array() || said["detail"].is_array());
        let message = message.or_else(|| listed().map(Value::to_string)).unwrap_or_default();
        let marks = [&error["code"], &error["type"]].map(|mark| mark.as_str().unwrap_or_default());
        let all = format!("{message} {} {}", marks[0], marks[1]).to_lowercase();
        Self { message, all }
    }

    /// A body that is no JSON; a page for browsers says nothing worth keeping.
    fn plain(body: &str) -> Self {
        let message = if body.trim_start().starts_with('<') { String::new() } else { body.trim().to_owned() };
        Self { all: message.to_lowercase(), message }
    }

    /// For people: what it was and what was said, without secrets.
    fn message(&self, what: &str, target: &ModelTarget) -> String {
        let said = secrets::of_errors(target).text(&json::clean_text(&self.message));
        if said.is_empty() { what.to_owned() } else { format!("{what}: {}", text::head(&said, MOST_CHARS)) }
    }

    fn has(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.all.contains(word))
    }
}

/// The kind of failure. Without a status it is an error within a reply, which may pass.
fn kind(status: Option<u16>, said: &Said, request: &ModelRequest) -> FailureKind {
    let may_be_too_long = matches!(status, None | Some(400 | 413 | 422));
    if may_be_too_long && is_over_by_cap(said) && request.max_output_tokens.is_some() {
        return FailureKind::CapOverWindow;
    }
    if may_be_too_long && (is_too_long(said) || is_over_by_cap(said)) {
        return FailureKind::ContextOverflow;
    }
    if matches!(status, None | Some(400 | 403 | 422)) && is_filtered(said) {
        return FailureKind::Filtered;
    }
    match status {
        None | Some(408 | 409 | 429 | 500..) => FailureKind::Passing,
        Some(300..=399 | 401 | 403 | 404) => FailureKind::Unusable,
        Some(400..=499) => FailureKind::Refused,
        Some(_) => FailureKind::Passing,
    }
}

/// A filter looked at the request and refused it. Some answer so with an error, others with a reply that has a reason.
fn is_filtered(said: &Said) -> bool {
    said.has(&[
        "content_filter",
        "content_policy_violation",
        "content management policy",
        "responsibleaipolicyviolation",
        "flagged as potentially violating",
        "data_inspection_failed",
    ])
}

/// The output cap takes the request over the window, or is over what the model writes at once.
fn is_over_by_cap(said: &Said) -> bool {
    let names_cap = said.has(&["max_tokens", "max_completion_tokens", "max_output_tokens"]);
    names_cap
        && said.has(&[
            "exceed context limit",
            "is too large",
            "too large:",
            "exceeds the maximum",
            "must be less than",
            "maximum allowed number of output tokens",
        ])
        || said.has(&["in the completion"]) && said.has(&["maximum context length"])
}

/// The history is longer than the window. There is no code that all servers use.
fn is_too_long(said: &Said) -> bool {
    said.has(&[
        "context_length_exceeded",
        "maximum context length",
        "prompt is too long",
        "input is too long",
        "context window",
        "context length",
        "context size",
        "exceed_context_size",
        "exceeded model token limit",
        "reduce the length of",
        "request_too_large",
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn request(cap: Option<u64>) -> ModelRequest {
        ModelRequest { max_output_tokens: cap, ..ModelRequest::default() }
    }

    fn target() -> ModelTarget {
        ModelTarget {
            api_key: Some("sk-secret-1".into()),
            headers: BTreeMap::from([("x-desk".to_owned(), "desk-of-ann".into())]),
            ..ModelTarget::default()
        }
    }

    #[test]
    fn kinds_by_status() {
        use FailureKind::{Passing, Refused, Unusable};
        for (status, wanted) in [
            (307, Unusable),
            (400, Refused),
            (401, Unusable),
            (402, Refused),
            (403, Unusable),
            (404, Unusable),
            (408, Passing),
            (409, Passing),
            (413, Refused),
            (422, Refused),
            (429, Passing),
            (500, Passing),
            (502, Passing),
            (503, Passing),
            (529, Passing),
            (599, Passing),
        ] {
            assert_eq!(kind(Some(status), &Said::plain("no"), &request(Some(9))), wanted, "{status}");
        }
    }

    #[test]
    fn kinds_by_words() {
        use FailureKind::{CapOverWindow, ContextOverflow, Filtered, Passing, Refused};
        let openai = "This model's maximum context length is 4096 tokens, your messages have 5003.";
        let both = "This model's maximum context length is 4097 tokens. However, you requested 5000 tokens (1000 in the \
                    messages, 4000 in the completion).";
        let cap = "input length and `max_tokens` exceed context limit: 7500 + 900 > 8192";
        for (error, status, has_cap, wanted) in [
            (json!({"message": openai}), Some(400), true, ContextOverflow),
            (json!({"message": "no", "code": "context_length_exceeded"}), Some(400), true, ContextOverflow),
            (
                json!({"message": "prompt is too long: 210000 tokens > 200000"}),
                Some(413),
                true,
                ContextOverflow,
            ),
            (json!({"message": "exceeds the context window"}), None, true, ContextOverflow),
            (
                json!({"type": "request_too_large", "message": "Request exceeds the maximum size"}),
                Some(413),
                true,
                ContextOverflow,
            ),
            (
                json!({"message": "max_tokens: 99999 > 8192, which is the maximum allowed number of output tokens for m"}),
                Some(400),
                true,
                CapOverWindow,
            ),
            (json!({"message": "image exceeds 5 MB maximum: 6 bytes > 5 bytes"}), Some(400), true, Refused),
            (json!({"message": both}), Some(400), true, CapOverWindow),
            (json!({"message": both}), Some(400), false, ContextOverflow),
            (json!({"message": cap}), Some(400), true, CapOverWindow),
            (json!({"message": "max_tokens is too large: 99999."}), Some(400), true, CapOverWindow),
            (json!({"message": "Unsupported parameter: 'max_tokens'"}), Some(400), true, Refused),
            (
                json!({"message": "The response was filtered", "code": "content_filter"}),
                Some(400),
                true,
                Filtered,
            ),
            (
                json!({"message": "Invalid prompt: it was flagged as potentially violating our policy"}),
                Some(400),
                true,
                Filtered,
            ),
            (json!({"message": "no", "code": "content_filter"}), Some(500), true, Passing),
            (json!({"message": openai}), Some(429), true, Passing),
            (json!({"message": "overloaded"}), None, true, Passing),
            (json!("context window"), Some(400), true, ContextOverflow),
        ] {
            let request = request(has_cap.then_some(900));
            assert_eq!(kind(status, &Said::of(&error), &request), wanted, "{error}");
        }
    }

    #[test]
    fn messages_are_short_and_hold_no_secrets() {
        let said = Said::of(&json!({"message": "Incorrect API key provided: sk-secret-1, desk-of-ann\0"}));
        assert_eq!(
            said.message("HTTP 401", &target()),
            "HTTP 401: Incorrect API key provided: ***, ***\u{fffd}"
        );
        assert_eq!(Said::plain("<html>Bad Gateway</html>").message("HTTP 502", &target()), "HTTP 502");
        assert_eq!(Said::plain(&"é".repeat(900)).message("x", &target()).chars().count(), 503);
    }

    #[test]
    fn errors_within_a_reply() {
        for (error, status, kind) in [
            (json!({"message": "overloaded", "code": 503}), 503, FailureKind::Passing),
            (json!({"message": "no", "code": "401"}), 401, FailureKind::Unusable),
            (json!({"message": "slow down", "code": "rate_limit_exceeded"}), 429, FailureKind::Passing),
            (json!({"message": "sorry", "code": "server_error"}), 500, FailureKind::Passing),
            (json!({"code": "invalid_prompt", "message": "no"}), 400, FailureKind::Refused),
            (
                json!({"code": null, "type": "invalid_request_error", "message": "no"}),
                400,
                FailureKind::Refused,
            ),
            (json!({"code": "failed_to_download_image", "message": "no"}), 200, FailureKind::Passing),
            (json!("it broke"), 200, FailureKind::Passing),
            (
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
                529,
                FailureKind::Passing,
            ),
            (json!({"error": {"type": "authentication_error", "message": "no"}}), 401, FailureKind::Unusable),
        ] {
            let failure = of_broken(&Broken::Error(error.clone()), &target(), &request(None));
            assert_eq!((failure.status, failure.kind), (Some(status), kind), "{error}");
        }
    }

    #[test]
    fn words_in_other_forms() {
        let forbidden = json!([{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]);
        for error in
            [json!({"detail": forbidden}), json!({"object": "error", "message": {"detail": forbidden}})]
        {
            let said = Said::of(&error);
            assert!(said.all.contains("stream_options") && said.message.contains("not permitted"), "{error}");
        }
        let google =
            json!([{"error": {"code": 400, "message": "Function call is missing a thought_signature"}}]);
        assert_eq!(Said::of(error_in(&google)).message, "Function call is missing a thought_signature");
        assert_eq!(Said::of(error_in(&json!([]))).message, "[]");
    }
}
