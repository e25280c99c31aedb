//! What a refusal means: by its status, and where the context is too long, by its words.

use answerable_core::model::{FailureKind, ModelFailure, ModelRequest};
use answerable_core::{json, text};
use answerable_ports::ModelTarget;
use answerable_tools::retry_after;
use reqwest::Response;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::reply::Broken;
use crate::{failure, secrets};

/// Most bytes of a refusal that are looked at.
const MOST_BYTES: usize = 64 << 10;
/// Most characters of it that are kept.
const MOST_CHARS: usize = 500;

/// An answer whose status is no success.
pub(super) async fn of_answer(
    mut response: Response,
    deadline: Instant,
    target: &ModelTarget,
    request: &ModelRequest,
) -> ModelFailure {
    let status = response.status().as_u16();
    let retry_after_ms = retry_after::read(response.headers());
    let body = body(&mut response, deadline).await;
    let body = String::from_utf8_lossy(&body);
    let said = match json::parse(&body) {
        Ok(value) => Said::of(if value["error"].is_null() { &value } else { &value["error"] }),
        Err(_) => Said::plain(&body),
    };
    let kind = kind(Some(status), &said, request);
    ModelFailure {
        retry_after_ms,
        ..failure::of(kind, Some(status), said.message(&format!("HTTP {status}"), target))
    }
}

/// A reply that was broken off, or an error in its place.
pub(super) fn of_broken(broken: &Broken, target: &ModelTarget, request: &ModelRequest) -> ModelFailure {
    match broken {
        Broken::Late => failure::of(FailureKind::Passing, None, "the reply came too late"),
        Broken::Cut(why) => failure::of(FailureKind::Passing, Some(200), *why),
        Broken::Error(error) => {
            let code = &error["code"];
            let status = code.as_u64().or_else(|| code.as_str()?.parse().ok());
            let status = status
                .and_then(|status| u16::try_from(status).ok())
                .filter(|status| (400..600).contains(status));
            let said = Said::of(error);
            let kind = kind(status, &said, request);
            failure::of(kind, status.or(Some(200)), said.message("an error within the reply", target))
        }
    }
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

/// The words of an error.
struct Said {
    message: String,
    /// Message, code and type in lower case, to be looked through.
    all: String,
}

impl Said {
    fn of(error: &Value) -> Self {
        let known = [&error["message"], &error["detail"], &error["error"], &error["title"], error];
        let message = known.into_iter().find_map(Value::as_str).unwrap_or_default().to_owned();
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
    match status {
        None | Some(408 | 409 | 429 | 500..) => FailureKind::Passing,
        Some(300..=399 | 401 | 403 | 404) => FailureKind::Unusable,
        Some(400..=499) => FailureKind::Refused,
        Some(_) => FailureKind::Passing,
    }
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
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};
    use std::collections::BTreeMap;

    fn request(cap: Option<u64>) -> ModelRequest {
        ModelRequest {
            model: "m".into(),
            provider: "main".into(),
            system: String::new(),
            messages: vec![],
            note: None,
            tools: vec![],
            temperature: None,
            max_output_tokens: cap,
            params: Map::new(),
            turn: 0,
            traceparent: None,
        }
    }

    fn target() -> ModelTarget {
        ModelTarget {
            name: "main".into(),
            kind: "openai_chat".into(),
            base_url: String::new(),
            api_key: Some("sk-secret-1".into()),
            headers: BTreeMap::from([("x-desk".to_owned(), "desk-of-ann".into())]),
            prices: BTreeMap::new(),
            options: Map::new(),
            script: vec![],
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
        use FailureKind::{CapOverWindow, ContextOverflow, Passing, Refused};
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
            (json!({"message": both}), Some(400), true, CapOverWindow),
            (json!({"message": both}), Some(400), false, ContextOverflow),
            (json!({"message": cap}), Some(400), true, CapOverWindow),
            (json!({"message": "max_tokens is too large: 99999."}), Some(400), true, CapOverWindow),
            (json!({"message": "Unsupported parameter: 'max_tokens'"}), Some(400), true, Refused),
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
            (json!({"message": "slow down", "code": "rate_limit_exceeded"}), 200, FailureKind::Passing),
            (json!("it broke"), 200, FailureKind::Passing),
        ] {
            let failure = of_broken(&Broken::Error(error.clone()), &target(), &request(None));
            assert_eq!((failure.status, failure.kind), (Some(status), kind), "{error}");
        }
    }
}
