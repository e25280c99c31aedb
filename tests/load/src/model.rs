//! A model that says the same to all, after a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::Result;

/// A model on loopback, until it is dropped.
#[derive(Debug)]
pub struct Model {
    base_url: String,
    asked: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

#[derive(Clone, Debug)]
struct Shared {
    takes: Duration,
    asked: Arc<AtomicU64>,
}

impl Model {
    /// One that takes so long for each reply.
    ///
    /// # Errors
    /// There is no free port.
    pub async fn start(takes: Duration) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let base_url = format!("http://{}/v1", listener.local_addr()?);
        let shared = Shared { takes, asked: Arc::default() };
        let asked = Arc::clone(&shared.asked);
        let router = Router::new().route("/v1/chat/completions", post(reply)).with_state(shared);
        let task = tokio::spawn(async move {
            // It ends with the task alone.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { base_url, asked, task })
    }

    /// A provider's `base_url`.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// How often it was asked so far.
    #[must_use]
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn reply(State(shared): State<Shared>, Json(request): Json<Value>) -> Response {
    shared.asked.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(shared.takes).await;
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11});
    if request["stream"] != Value::Bool(true) {
        let choice = json!({"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Done."}});
        return Json(json!({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}))
            .into_response();
    }
    let chunk = |delta: Value, finish: Value, usage: &Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice], "usage": usage});
        format!("data: {chunk}\n\n")
    };
    let said = chunk(json!({"role": "assistant", "content": "Done."}), Value::Null, &Value::Null);
    let end = chunk(json!({}), json!("stop"), &usage);
    ([(CONTENT_TYPE, "text/event-stream")], format!("{said}{end}data: [DONE]\n\n")).into_response()
}
