//! Replies of a scripted model.

use std::time::Duration;

use axum::body::Bytes;
use serde_json::{Map, Value, json};

use super::call;

/// One reply; built up with its methods.
#[derive(Clone, Debug)]
pub struct ModelReply {
    pub(crate) kind: Kind,
    pub(crate) delay: Duration,
    pub(crate) is_held: bool,
    pub(crate) cut_after: Option<usize>,
    pub(crate) held_after: Option<usize>,
    pub(crate) is_bounded: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// A completion, streamed where the request asks for it.
    Message { message: Map<String, Value>, finish_reason: Value, usage: Value },
    /// An answer that is sent as it stands.
    Plain { status: u16, headers: Vec<(String, String)>, body: Bytes },
    /// The line is cut before anything is said.
    Dropped,
}

impl ModelReply {
    /// A final answer. Like every message it tells of 10 tokens in and 5 out.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::message(json!({"role": "assistant", "content": text}), "stop")
    }

    /// Calls of tools: names with their arguments.
    #[must_use]
    pub fn calls<'c>(calls: impl IntoIterator<Item = (&'c str, Value)>) -> Self {
        Self::raw_calls(calls.into_iter().map(|(name, arguments)| (name, arguments.to_string())))
    }

    /// Calls of tools whose arguments are sent as this text, JSON or not.
    #[must_use]
    pub fn raw_calls<'c>(calls: impl IntoIterator<Item = (&'c str, String)>) -> Self {
        let calls = calls.into_iter().enumerate();
        let calls: Vec<Value> =
            calls.map(|(n, (name, text))| call(&format!("call_{n}"), name, &text)).collect();
        Self::message(json!({"role": "assistant", "content": null, "tool_calls": calls}), "tool_calls")
    }

    /// A status with an error body of the wire's form.
    #[must_use]
    pub fn status(status: u16) -> Self {
        let body =
            json!({"error": {"message": format!("scripted {status}"), "type": "scripted", "code": null}});
        Self::raw(status, "application/json", body.to_string())
    }

    /// Whatever status, content type and body.
    #[must_use]
    pub fn raw(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        Self::of(Kind::Plain { status, headers, body: body.into() })
    }

    /// The line is cut before anything is said.
    #[must_use]
    pub fn dropped() -> Self {
        Self::of(Kind::Dropped)
    }

    /// Text beside the calls.
    #[must_use]
    pub fn and_text(self, text: &str) -> Self {
        self.field("content", text)
    }

    /// One more field of the message, or another value for one.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        if let Kind::Message { message, .. } = &mut self.kind {
            message.insert(name.to_owned(), value.into());
        }
        self
    }

    /// Another finish reason (`length`, `content_filter`).
    #[must_use]
    pub fn finish_reason(mut self, reason: &str) -> Self {
        if let Kind::Message { finish_reason, .. } = &mut self.kind {
            *finish_reason = reason.into();
        }
        self
    }

    /// Other numbers of tokens.
    #[must_use]
    pub fn usage(self, input: u64, output: u64) -> Self {
        self.usage_as(tokens(input, output))
    }

    /// Tells of no more output than the request allows, whatever it has to say.
    #[must_use]
    pub fn within_bounds(mut self) -> Self {
        self.is_bounded = true;
        self
    }

    /// Usage just so; null for none.
    #[must_use]
    pub fn usage_as(mut self, value: Value) -> Self {
        if let Kind::Message { usage, .. } = &mut self.kind {
            *usage = value;
        }
        self
    }

    /// One more header of a plain answer (`retry-after`).
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Kind::Plain { headers, .. } = &mut self.kind {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Waits before it says anything.
    #[must_use]
    pub fn delayed(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Waits until the test lets it go.
    #[must_use]
    pub fn held(mut self) -> Self {
        self.is_held = true;
        self
    }

    /// Says so many events of a stream, then waits until the test lets it go.
    #[must_use]
    pub fn held_after(mut self, events: usize) -> Self {
        self.held_after = Some(events);
        self
    }

    /// Cuts the line after so many bytes of the body.
    #[must_use]
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.cut_after = Some(bytes);
        self
    }

    fn message(message: Value, finish_reason: &str) -> Self {
        let message = if let Value::Object(fields) = message { fields } else { Map::new() };
        Self::of(Kind::Message { message, finish_reason: finish_reason.into(), usage: tokens(10, 5) })
    }

    fn of(kind: Kind) -> Self {
        Self {
            kind,
            delay: Duration::ZERO,
            is_held: false,
            cut_after: None,
            held_after: None,
            is_bounded: false,
        }
    }
}

fn tokens(input: u64, output: u64) -> Value {
    json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output})
}
