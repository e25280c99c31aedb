//! Answers of a scripted MCP server.

use std::time::Duration;

use axum::body::Bytes;
use serde_json::{Value, json};

/// One answer; built up with its methods.
#[derive(Clone, Debug)]
pub struct McpAnswer {
    pub(super) said: Said,
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) before: Vec<Value>,
    pub(super) is_stream: bool,
    pub(super) is_resumed: bool,
    pub(super) id: Option<Value>,
    pub(super) delay: Duration,
    pub(super) is_held: bool,
    pub(super) cut: Option<usize>,
    pub(super) forgets: bool,
    pub(super) tools: Option<Vec<Value>>,
}

/// What an answer says.
#[derive(Clone, Debug)]
pub(super) enum Said {
    /// Members of the answer beside its id: a result or an error.
    Message(Value),
    /// Anything, with its content type.
    Raw(String, Bytes),
    /// What the server says where nothing is scripted.
    Usual,
}

impl McpAnswer {
    fn new(said: Said) -> Self {
        Self {
            said,
            status: 200,
            headers: Vec::new(),
            before: Vec::new(),
            is_stream: false,
            is_resumed: false,
            id: None,
            delay: Duration::ZERO,
            is_held: false,
            cut: None,
            forgets: false,
            tools: None,
        }
    }

    /// What the server says by itself: the tools as they are listed, `ok` for a call.
    #[must_use]
    pub fn usual() -> Self {
        Self::new(Said::Usual)
    }

    /// A result.
    #[must_use]
    pub fn result(result: &Value) -> Self {
        Self::new(Said::Message(json!({"result": result})))
    }

    /// Text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::result(&json!({"content": [{"type": "text", "text": text}]}))
    }

    /// A failure that the tool tells of.
    #[must_use]
    pub fn is_error(text: &str) -> Self {
        Self::result(&json!({"content": [{"type": "text", "text": text}], "isError": true}))
    }

    /// An error of the protocol.
    #[must_use]
    pub fn error(code: i64, message: &str) -> Self {
        Self::new(Said::Message(json!({"error": {"code": code, "message": message}})))
    }

    /// Anything.
    #[must_use]
    pub fn raw(content_type: &str, body: impl Into<Bytes>) -> Self {
        Self::new(Said::Raw(content_type.to_owned(), body.into()))
    }

    /// A status with a text.
    #[must_use]
    pub fn status(status: u16, text: &str) -> Self {
        Self { status, ..Self::raw("text/plain", text.to_owned()) }
    }

    /// The line is cut before a word is said.
    #[must_use]
    pub fn cut() -> Self {
        Self { cut: Some(0), ..Self::usual() }
    }

    /// The sessions are forgotten, this one too: the request is not looked at and answered 404.
    #[must_use]
    pub fn forgetting() -> Self {
        Self { forgets: true, ..Self::status(404, "no such session") }
    }

    /// The same with another status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// One more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// As a stream of events.
    #[must_use]
    pub fn as_stream(mut self) -> Self {
        self.is_stream = true;
        self
    }

    /// As a stream of events, with this message before it.
    #[must_use]
    pub fn after(mut self, message: Value) -> Self {
        self.before.push(message);
        self.as_stream()
    }

    /// As a stream that ends within its first message, which comes when it is taken up again.
    #[must_use]
    pub fn resumed(mut self) -> Self {
        self.is_resumed = true;
        self.as_stream()
    }

    /// Bears another id than the request.
    #[must_use]
    pub fn for_id(mut self, id: Value) -> Self {
        self.id = Some(id);
        self
    }

    /// The line is cut after so many bytes of the body; with 0, before a word is said.
    #[must_use]
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.cut = Some(bytes);
        self
    }

    /// Answers late.
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

    /// The server's sessions are forgotten with it.
    #[must_use]
    pub fn and_forgets(mut self) -> Self {
        self.forgets = true;
        self
    }

    /// The server's tools are these with it, and it says so before its answer.
    #[must_use]
    pub fn changing_tools(mut self, tools: impl IntoIterator<Item = Value>) -> Self {
        self.tools = Some(tools.into_iter().collect());
        self.after(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))
    }
}
