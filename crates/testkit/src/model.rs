//! A model server that speaks the OpenAI chat-completions wire from a script.

mod reply;
mod wire;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::arrivals::Arrivals;
use crate::hold::Hold;
use crate::lock::locked;
use crate::loopback::{Line, Loopback};
use crate::request::RecordedRequest;

pub use reply::ModelReply;

/// A scripted model server on loopback. Each model name has its own replies, given in order.
#[derive(Debug)]
pub struct ScriptedModel {
    server: Loopback,
    stage: Arc<Stage>,
}

#[derive(Debug, Default)]
struct Stage {
    scripts: Mutex<HashMap<String, Script>>,
    requests: Mutex<Vec<RecordedRequest>>,
    key: Mutex<Option<String>>,
    arrivals: Arrivals,
    hold: Hold,
}

#[derive(Debug, Default)]
struct Script {
    replies: Vec<ModelReply>,
    given: usize,
    overrun: usize,
    repeats: bool,
}

impl ScriptedModel {
    /// Starts a server with no script yet.
    ///
    /// # Errors
    /// No free port.
    pub async fn start() -> io::Result<Self> {
        let stage = Arc::new(Stage::default());
        let router = Router::new()
            .route("/v1/chat/completions", post(complete))
            .fallback(|| async { StatusCode::NOT_FOUND })
            .with_state(Arc::clone(&stage));
        Ok(Self { server: Loopback::serve(router).await?, stage })
    }

    /// A provider's `base_url`.
    #[must_use]
    pub fn base_url(&self) -> String {
        self.server.url() + "/v1"
    }

    /// From now on requests without this key get 401.
    pub fn require_key(&self, key: &str) {
        *locked(&self.stage.key) = Some(key.to_owned());
    }

    /// Adds replies to a model's script. A request beyond the script gets 500 and counts as an overrun.
    pub fn script(&self, model: &str, replies: impl IntoIterator<Item = ModelReply>) {
        locked(&self.stage.scripts).entry(model.to_owned()).or_default().replies.extend(replies);
    }

    /// From now on the last reply of a model's script is given again and again.
    pub fn repeat_last(&self, model: &str) {
        locked(&self.stage.scripts).entry(model.to_owned()).or_default().repeats = true;
    }

    /// Every request so far, for whatever model, in order of arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        locked(&self.stage.requests).clone()
    }

    /// The JSON bodies of the requests for one model, in order.
    #[must_use]
    pub fn requests_for(&self, model: &str) -> Vec<Value> {
        let bodies = self.requests().into_iter().map(|request| request.json());
        bodies.filter(|body| body["model"] == model).collect()
    }

    /// How many requests a model got beyond its script. A test's end should find 0.
    #[must_use]
    pub fn overrun(&self, model: &str) -> usize {
        locked(&self.stage.scripts).get(model).map_or(0, |script| script.overrun)
    }

    /// Returns when `wanted` requests have come.
    ///
    /// # Panics
    /// When they do not come.
    pub async fn requests_reached(&self, wanted: usize) {
        self.stage.arrivals.reached(wanted, "requests to the model").await;
    }

    /// Lets one held reply go ([`ModelReply::held`]).
    pub fn release(&self) {
        self.stage.hold.release();
    }
}

impl Stage {
    /// The next reply for a model; `None` where its script has ended.
    fn next(&self, model: &str) -> Option<ModelReply> {
        let mut scripts = locked(&self.scripts);
        let script = scripts.entry(model.to_owned()).or_default();
        let reply = script.replies.get(script.given).or(script.replies.last().filter(|_| script.repeats));
        let reply = reply.cloned();
        script.given += usize::from(reply.is_some());
        script.overrun += usize::from(reply.is_none());
        reply
    }

    fn admits(&self, request: &RecordedRequest) -> bool {
        let wanted = locked(&self.key).as_ref().map(|key| format!("Bearer {key}"));
        wanted.is_none_or(|wanted| request.header("authorization") == Some(&wanted))
    }
}

async fn complete(
    State(stage): State<Arc<Stage>>,
    ConnectInfo(line): ConnectInfo<Line>,
    request: Request,
) -> Response {
    let Some(request) = RecordedRequest::read(request).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let asked = request.json();
    let admitted = stage.admits(&request);
    locked(&stage.requests).push(request);
    let reply = admitted.then(|| stage.next(asked["model"].as_str().unwrap_or_default()));
    stage.arrivals.add();
    match reply {
        None => wire::error(StatusCode::UNAUTHORIZED, "Incorrect API key provided."),
        Some(None) => wire::error(StatusCode::INTERNAL_SERVER_ERROR, "The script has no more replies."),
        Some(Some(reply)) => {
            sleep(reply.delay).await;
            if reply.is_held {
                stage.hold.pass().await;
            }
            let answer = wire::respond(&reply, &asked, &line);
            match reply.held_after {
                Some(events) => answer.map(|body| paused(body, events, stage)),
                None => answer,
            }
        }
    }
}

/// The pieces of a body, and before those after the first `count` a wait for the test.
fn paused(body: Body, count: usize, stage: Arc<Stage>) -> Body {
    let pieces = body.into_data_stream().enumerate();
    Body::from_stream(pieces.then(move |(number, piece)| {
        let stage = Arc::clone(&stage);
        async move {
            if number == count {
                stage.hold.pass().await;
            }
            piece
        }
    }))
}

/// One tool call as the model writes it.
pub(crate) fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}
