//! Requests to a server, with all that each of them bears.

use std::sync::OnceLock;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use reqwest::{RequestBuilder, Response};
use tokio::time::{Instant, timeout_at};

use super::super::failure::Failure;
use super::refused;
use crate::egress::GuardedClient;
use crate::mask::Mask;
use crate::sent::{Sent, tracked};

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const EITHER: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The way to a server, and the session on it.
#[derive(Debug)]
pub(super) struct Line {
    client: GuardedClient,
    url: String,
    headers: HeaderMap,
    mask: Mask,
    session: OnceLock<HeaderValue>,
    version: OnceLock<HeaderValue>,
}

impl Line {
    pub(super) fn new(client: GuardedClient, url: String, headers: HeaderMap, mask: Mask) -> Self {
        Self { client, url, headers, mask, session: OnceLock::new(), version: OnceLock::new() }
    }

    /// From now on every request names this session; the first one that is named counts.
    pub(super) fn join(&self, session: &HeaderValue) {
        self.session.get_or_init(|| session.clone());
    }

    /// From now on every request names this version.
    pub(super) fn speak(&self, version: &str) {
        if let Ok(version) = HeaderValue::from_str(version) {
            self.version.get_or_init(|| version);
        }
    }

    pub(super) fn has_session(&self) -> bool {
        self.session.get().is_some()
    }

    pub(super) fn mask(&self) -> &Mask {
        &self.mask
    }

    /// Sends a message; the head of the answer, if its status is 2xx.
    pub(super) async fn post(
        &self,
        body: Bytes,
        trace: Option<&str>,
        deadline: Instant,
        sent: &Sent,
    ) -> Result<Response, Failure> {
        let mut request = self.request(Method::POST)?.header(CONTENT_TYPE, JSON).header(ACCEPT, EITHER);
        if let Some(trace) = trace.and_then(|trace| HeaderValue::from_str(trace).ok()) {
            request = request.header(TRACEPARENT, trace);
        }
        let request = request.body(tracked(body, sent.clone()));
        match timeout_at(deadline, request.send()).await {
            Ok(Ok(response)) if response.status().is_success() => Ok(response),
            Ok(Ok(response)) => Err(refused::read(self, response, deadline).await),
            Ok(Err(error)) => Err(Failure::from(&error)),
            Err(_) if sent.give_up() => Err(Failure::not_connected()),
            Err(_) => Err(Failure::Late),
        }
    }

    /// Asks for a stream: the one of what the server tells by itself, or the rest of another after the event `last`.
    pub(super) async fn stream(&self, last: Option<&str>) -> Result<Response, Failure> {
        let mut request = self.request(Method::GET)?.header(ACCEPT, STREAM);
        if let Some(last) = last.and_then(|last| HeaderValue::from_str(last).ok()) {
            request = request.header(LAST_EVENT_ID, last);
        }
        request.send().await.map_err(|error| Failure::from(&error))
    }

    /// Ends the session, if there is one.
    pub(super) async fn end(&self) -> Result<(), Failure> {
        if !self.has_session() {
            return Ok(());
        }
        self.request(Method::DELETE)?.send().await.map(drop).map_err(|error| Failure::from(&error))
    }

    fn request(&self, method: Method) -> Result<RequestBuilder, Failure> {
        let mut request = self.client.request(method, &self.url)?.headers(self.headers.clone());
        if let Some(session) = self.session.get() {
            request = request.header(SESSION_ID, session);
        }
        if let Some(version) = self.version.get() {
            request = request.header(PROTOCOL_VERSION, version);
        }
        Ok(request)
    }
}
