//! Answerable's HTTP API, as far as the demo calls it.

use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};

use super::Trouble;

/// A client of the API with a key.
#[derive(Clone)]
pub(super) struct Runtime {
    client: Client,
    base: String,
    key: String,
}

impl Runtime {
    /// Calls the server at `base` with `key`.
    pub(super) fn new(client: Client, base: String, key: String) -> Self {
        Self { client, base, key }
    }

    /// The same server with another key.
    pub(super) fn with_key(&self, key: &str) -> Self {
        Self { key: key.to_owned(), ..self.clone() }
    }

    /// Starts a run for a message. The message's name is the idempotency key: however often
    /// this is sent, the message is worked on once.
    pub(super) async fn start_run(&self, agent: &str, message: &str, text: &str) -> Result<Value, Trouble> {
        let body = json!({
            "agent_id": agent,
            "input": text,
            "context": { "message_id": message },
            "metadata": { "message": message },
        });
        let key = format!("message-{message}");
        self.call(Method::POST, "/v1/runs", |request| request.header("idempotency-key", &key).json(&body))
            .await
    }

    /// The run, once it has ended or waits for somebody.
    pub(super) async fn wait(&self, run: &str, within: Duration) -> Result<Value, Trouble> {
        let end = tokio::time::Instant::now() + within;
        loop {
            let run = self.get(&format!("/v1/runs/{run}/wait?timeout=10")).await?;
            if ended(&run) || run["status"].as_str().is_some_and(|status| status.starts_with("waiting")) {
                return Ok(run);
            }
            if tokio::time::Instant::now() > end {
                return Err(Trouble::new(format!("run {} is still {}", run["id"], run["status"])));
            }
        }
    }

    /// What the ledger says of a run's calls.
    pub(super) async fn ledger(&self, run: &str) -> Result<Vec<Value>, Trouble> {
        self.list(&format!("/v1/runs/{run}/ledger?limit=200")).await
    }

    /// A run's steps.
    pub(super) async fn steps(&self, run: &str) -> Result<Vec<Value>, Trouble> {
        self.list(&format!("/v1/runs/{run}/steps?limit=200")).await
    }

    /// Approves whatever a run waits for.
    pub(super) async fn approve(&self, run: &Value, reason: &str) -> Result<Value, Trouble> {
        let approval = &run["pending_approvals"][0];
        let id = approval["id"].as_str().ok_or_else(|| Trouble::new("the run has no pending approval"))?;
        // The hash says what was looked at; had the call changed since, this would be refused.
        let body = json!({ "decision": "approve", "reason": reason, "input_hash": approval["input_hash"] });
        self.post(&format!("/v1/approvals/{id}/decision"), &body).await
    }

    /// Opens a run's event stream behind the event `after` (0: from the start).
    pub(super) async fn events(&self, run: &str, after: u64) -> reqwest::Result<Response> {
        self.request(Method::GET, &format!("/v1/runs/{run}/events"))
            .header("accept", "text/event-stream")
            .header("last-event-id", after.to_string())
            .send()
            .await?
            .error_for_status()
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, Trouble> {
        self.call(Method::GET, path, |request| request.timeout(Duration::from_secs(30))).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, Trouble> {
        self.call(Method::POST, path, |request| request.json(body)).await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> Result<Value, Trouble> {
        self.call(Method::PUT, path, |request| request.json(body)).await
    }

    async fn list(&self, path: &str) -> Result<Vec<Value>, Trouble> {
        let page = self.get(path).await?;
        Ok(page["data"].as_array().cloned().unwrap_or_default())
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        with: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Value, Trouble> {
        let what = format!("{method} {path}");
        let answer = with(self.request(method, path))
            .send()
            .await
            .map_err(|error| Trouble::new(format!("{what}: {error}")))?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(|error| Trouble::new(format!("{what}: {error}")))?;
        let value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if status.is_success() {
            Ok(value)
        } else {
            Err(Trouble::new(format!("{what} answered {status}: {}", String::from_utf8_lossy(&body))))
        }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base)).bearer_auth(&self.key)
    }
}

/// Whether a run has come to its end.
pub(super) fn ended(run: &Value) -> bool {
    matches!(run["status"].as_str(), Some("finished" | "failed" | "cancelled"))
}
