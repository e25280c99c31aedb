//! One request and its answer.

use std::pin::Pin;

use answerable_testkit::Document;
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use serde_json::Value;

use super::matching::Fits;

/// A request that is not sent yet. Awaiting it sends it.
#[derive(Debug)]
pub(crate) struct Ask {
    request: RequestBuilder,
    method: Method,
    path: String,
    /// The JSON that is sent, for the judge.
    body: Value,
    /// The body was sent as bytes: what it is then is nothing for the judge.
    is_raw: bool,
    is_judged: bool,
}

impl Ask {
    pub(crate) fn new(request: RequestBuilder, method: Method, path: &str) -> Self {
        Self { request, method, path: path.to_owned(), body: Value::Null, is_raw: false, is_judged: true }
    }

    /// What comes back need not agree with the API document.
    pub(crate) fn unjudged(mut self) -> Self {
        self.is_judged = false;
        self
    }

    pub(crate) fn json(mut self, body: &Value) -> Self {
        self.request = self.request.header("content-type", "application/json").body(body.to_string());
        self.body = body.clone();
        self
    }

    /// A body that is sent just so.
    pub(crate) fn raw(mut self, content_type: &str, body: impl Into<reqwest::Body>) -> Self {
        self.request = self.request.header("content-type", content_type).body(body);
        self.is_raw = true;
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value.as_bytes());
        self
    }

    /// With an `Idempotency-Key`.
    pub(crate) fn once(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    /// Sends it.
    ///
    /// # Panics
    /// When no answer comes, or one that the API document does not know.
    pub(crate) async fn send(self) -> Answer {
        let name = format!("{} {}", self.method, self.path);
        self.try_send().await.unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// Sends it to a server that may not be there.
    pub(crate) async fn try_send(self) -> reqwest::Result<Answer> {
        let response = self.request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await?;
        let content_type = header(&headers, "content-type");
        let is_json = content_type.is_some_and(|kind| {
            kind.starts_with("application/") && kind.contains("json") && !kind.contains("ndjson")
        });
        let body = match text.as_str() {
            "" => Value::Null,
            text if is_json => serde_json::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}")),
            text => Value::from(text),
        };
        let answer =
            Answer { request: format!("{} {}", self.method, self.path), status, headers, text, body };
        if !self.is_judged {
            return Ok(answer);
        }
        answer.judge(self.method.as_str(), &self.path);
        if status < 300 && !self.is_raw {
            let judged = Document::load().judge_request(self.method.as_str(), &self.path, &self.body);
            assert!(judged.is_ok(), "{} was accepted: {judged:?}", answer.request);
        }
        Ok(answer)
    }
}

impl IntoFuture for Ask {
    type Output = Answer;
    type IntoFuture = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// What came back. It agrees with the API document, if the server is of this version.
#[derive(Debug)]
pub(crate) struct Answer {
    request: String,
    pub(crate) status: u16,
    headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) body: Value,
}

impl Answer {
    fn judge(&self, method: &str, path: &str) {
        let document = Document::load();
        let content_type = self.header("content-type");
        let judged = document.judge_response(method, path, self.status, content_type, &self.body);
        assert!(judged.is_ok(), "{self}\n{judged:#?}");
        let judged = document.judge_headers(method, path, self.status, |name| self.header(name));
        assert!(judged.is_ok(), "{self}\n{judged:#?}");
        let is_server_fault = self.status >= 500 && self.status != 503;
        assert!(!is_server_fault, "{self}");
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// Whether these words stand anywhere in it: in its body or in a header.
    pub(crate) fn holds(&self, words: &str) -> bool {
        let in_value = |value: &[u8]| String::from_utf8_lossy(value).contains(words);
        self.text.contains(words) || self.headers.values().any(|value| in_value(value.as_bytes()))
    }

    /// The body of a success.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!(self.status < 300, "{self}");
        self.body
    }

    /// The body of an answer with this status.
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self}");
        self.body
    }

    /// The problem that a request was refused with.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str) -> Value {
        assert_eq!((self.status, &self.body["code"]), (status, &Value::from(code)), "{self}");
        assert_eq!(self.body["type"], format!("/problems/{code}"), "{self}");
        self.body
    }

    /// A refused request (422) that names this place.
    #[track_caller]
    pub(crate) fn refused_at(self, pointer: &str) {
        let text = self.to_string();
        let problem = self.refused(422, "invalid_request");
        let errors = problem["errors"].as_array().cloned().unwrap_or_default();
        assert!(errors.iter().any(|error| error["pointer"] == pointer), "{pointer} is not named: {text}");
    }

    /// Whether it is the answer of an earlier request with the same key.
    pub(crate) fn is_replayed(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// Checks the body of a success.
    #[track_caller]
    pub(crate) fn fits(self, pattern: &Value) -> Value {
        let body = self.ok();
        body.fits(pattern);
        body
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} answered {}: {}", self.request, self.status, self.text)
    }
}

pub(crate) fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}
