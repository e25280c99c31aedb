//! Answers of a scripted tool.

use std::time::Duration;

use axum::body::Bytes;
use serde_json::{Value, json};

/// One answer; built up with its methods.
#[derive(Clone, Debug)]
pub struct ToolAnswer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    pub(crate) delay: Duration,
    pub(crate) is_held: bool,
    pub(crate) is_cut: bool,
    applies: Option<bool>,
}

impl Default for ToolAnswer {
    fn default() -> Self {
        Self::json(&json!({"ok": true}))
    }
}

impl ToolAnswer {
    /// 200 with JSON.
    #[must_use]
    pub fn json(value: &Value) -> Self {
        Self::bytes("application/json", value.to_string())
    }

    /// 200 with text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::bytes("text/plain; charset=utf-8", text.to_owned())
    }

    /// 200 with anything.
    #[must_use]
    pub fn bytes(content_type: &str, body: impl Into<Bytes>) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            body: body.into(),
            delay: Duration::ZERO,
            is_held: false,
            is_cut: false,
            applies: None,
        }
    }

    /// A status with a little JSON.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self::json(&json!({"status": status})).with_status(status)
    }

    /// The line is cut after the effect was made and before a word of it is said.
    #[must_use]
    pub fn cut() -> Self {
        Self { is_cut: true, ..Self::default() }
    }

    /// The same with another status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// One more header (`retry-after`).
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Answers late; the effect is made at once.
    #[must_use]
    pub fn delayed(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Waits until the test lets it go; the effect is made at once.
    #[must_use]
    pub fn held(mut self) -> Self {
        self.is_held = true;
        self
    }

    /// Says whether the effect is made; left alone, it is where the status is below 300.
    #[must_use]
    pub fn applying(mut self, applies: bool) -> Self {
        self.applies = Some(applies);
        self
    }

    pub(crate) fn applies(&self) -> bool {
        self.applies.unwrap_or(self.status < 300)
    }

    /// The same answer to the same key: at once and whole.
    pub(crate) fn again(self) -> Self {
        Self { delay: Duration::ZERO, is_held: false, is_cut: false, ..self }
    }
}
