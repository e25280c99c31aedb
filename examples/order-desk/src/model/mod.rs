//! A scripted model behind the real OpenAI chat completions wire.
//!
//! What it answers follows from the conversation alone, so that the same conversation gets the
//! same answer, whichever process asks and however often.

mod clerk;
mod conversation;
mod letter;
mod stream;
#[cfg(test)]
mod tests;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use clap::Args;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::parent;

/// How to run the scripted model.
#[derive(Args)]
pub(crate) struct Options {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:7071")]
    listen: SocketAddr,
    /// The API key that callers must show.
    #[arg(long, env = "MODEL_API_KEY", hide_env_values = true)]
    api_key: String,
    /// How long a reply takes, in milliseconds.
    #[arg(long, default_value_t = 120)]
    think_ms: u64,
    /// End when standard input closes.
    #[arg(long)]
    exit_with_parent: bool,
}

#[derive(Clone)]
struct Model {
    api_key: Arc<str>,
    think: Duration,
}

/// Runs the model's server until it is told to end.
pub(crate) async fn run(options: Options) -> std::io::Result<()> {
    let model = Model { api_key: options.api_key.into(), think: Duration::from_millis(options.think_ms) };
    let listener = TcpListener::bind(options.listen).await?;
    tokio::select! {
        served = axum::serve(listener, routes(model)) => served,
        () = parent::told_to_end(options.exit_with_parent) => Ok(()),
    }
}

fn routes(model: Model) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(complete))
        .layer(DefaultBodyLimit::max(8 * 1024 * 1024))
        .route("/healthz", get(|| async { "ok" }))
        .with_state(model)
}

async fn complete(State(model): State<Model>, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    let shown = headers.get("authorization").and_then(|value| value.to_str().ok());
    if shown.and_then(|value| value.strip_prefix("Bearer ")) != Some(&*model.api_key) {
        return refuse(StatusCode::UNAUTHORIZED, "Incorrect API key provided.", "invalid_api_key");
    }
    let request = match wire::Request::read(&body) {
        Ok(request) => request,
        Err(fault) => return refuse(StatusCode::BAD_REQUEST, &fault, "invalid_request_error"),
    };
    let reply = clerk::next(&request.conversation);
    tokio::time::sleep(model.think).await;
    if request.stream {
        stream::answer(&request, &reply)
    } else {
        Json(wire::completion(&request, &reply)).into_response()
    }
}

fn refuse(status: StatusCode, message: &str, code: &str) -> Response {
    let error = json!({ "message": message, "type": "invalid_request_error", "param": null, "code": code });
    (status, Json(json!({ "error": error }))).into_response()
}
