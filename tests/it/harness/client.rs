//! HTTP clients.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;

use super::ask::Ask;
use super::stream::EventStream;

/// Longer than any answer is held.
const TIMEOUT: Duration = Duration::from_secs(70);

/// A client with one key, or none. Every answer of a server of this version is judged by the API document.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    key: Option<String>,
    is_judged: bool,
}

impl Client {
    pub(crate) fn new(base: &str, key: Option<&str>) -> Self {
        // Fails where another test was first; either way there is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build().expect("a client");
        Self { http, base: base.to_owned(), key: key.map(str::to_owned), is_judged: true }
    }

    /// The same at a server of another version, whose answers are as that one's document says.
    pub(crate) fn of_another_version(self) -> Self {
        Self { is_judged: false, ..self }
    }

    /// The same with another key.
    pub(crate) fn with_key(&self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self.clone() }
    }

    /// Its key, for what isn't asked by this client.
    pub(crate) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The same at another server, of this version.
    pub(crate) fn at(&self, base: &str) -> Self {
        Self { base: base.to_owned(), is_judged: true, ..self.clone() }
    }

    pub(crate) fn get(&self, path: &str) -> Ask {
        self.ask(Method::GET, path)
    }

    pub(crate) fn delete(&self, path: &str) -> Ask {
        self.ask(Method::DELETE, path)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Ask {
        self.ask(Method::POST, path).json(body)
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Ask {
        self.ask(Method::PUT, path).json(body)
    }

    pub(crate) fn patch(&self, path: &str, body: &Value) -> Ask {
        self.ask(Method::PATCH, path).json(body)
    }

    /// A request that is built up further.
    pub(crate) fn ask(&self, method: Method, path: &str) -> Ask {
        let request = self.http.request(method.clone(), format!("{}{path}", self.base));
        let request = match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        };
        let ask = Ask::new(request, method, path);
        if self.is_judged { ask } else { ask.unjudged() }
    }

    /// Watches a run's events: those after `Last-Event-ID`, or all.
    pub(crate) async fn stream(&self, path: &str, last_event_id: Option<u64>) -> EventStream {
        let mut request = self.http.get(format!("{}{path}", self.base)).header("accept", "text/event-stream");
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id.to_string());
        }
        EventStream::open(request.send().await.expect("an answer")).await
    }
}
