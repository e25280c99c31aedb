//! MCP servers whose tools and answers are scripted, over streamable HTTP.
//!
//! They watch their callers too: [`McpServer::faults`] has what a caller did that the protocol forbids.

mod answer;
mod respond;
mod watch;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::arrivals::Arrivals;
use crate::hold::Hold;
use crate::lock::locked;
use crate::loopback::{Line, Loopback};
use crate::request::RecordedRequest;

pub use answer::McpAnswer;
use watch::Session;

/// Scripted MCP servers on loopback.
#[derive(Debug)]
pub struct ScriptedMcp {
    server: Loopback,
    servers: Arc<Servers>,
}

type Servers = Mutex<HashMap<String, Arc<McpServer>>>;

/// One of them.
#[derive(Debug)]
pub struct McpServer {
    script: Mutex<Script>,
    arrivals: Mutex<HashMap<String, Arc<Arrivals>>>,
    hold: Hold,
    told: broadcast::Sender<Value>,
}

#[derive(Debug)]
struct Script {
    tools: Vec<Value>,
    page: usize,
    has_sessions: bool,
    has_stream: bool,
    /// Answers by tool or by method, and how many were given.
    answers: HashMap<String, (Vec<McpAnswer>, usize)>,
    sessions: HashMap<String, Session>,
    /// Rests of streams by the id of the event that they follow.
    rests: HashMap<String, Vec<Value>>,
    requests: HashMap<String, Vec<RecordedRequest>>,
    faults: Vec<String>,
}

impl Default for McpServer {
    fn default() -> Self {
        let script = Script {
            tools: Vec::new(),
            page: 100,
            has_sessions: true,
            has_stream: false,
            answers: HashMap::new(),
            sessions: HashMap::new(),
            rests: HashMap::new(),
            requests: HashMap::new(),
            faults: Vec::new(),
        };
        let (told, _) = broadcast::channel(64);
        Self { script: Mutex::new(script), arrivals: Mutex::default(), hold: Hold::default(), told }
    }
}

impl ScriptedMcp {
    /// Starts with no tools yet.
    ///
    /// # Errors
    /// No free port.
    pub async fn start() -> io::Result<Self> {
        let servers = Arc::new(Servers::default());
        let router = Router::new().route("/mcp/{name}", any(take)).with_state(Arc::clone(&servers));
        Ok(Self { server: Loopback::serve(router).await?, servers })
    }

    /// Where a server is.
    #[must_use]
    pub fn url(&self, name: &str) -> String {
        format!("{}/mcp/{name}", self.server.url())
    }

    /// A server of that name.
    #[must_use]
    pub fn server(&self, name: &str) -> Arc<McpServer> {
        Arc::clone(locked(&self.servers).entry(name.to_owned()).or_default())
    }
}

impl McpServer {
    /// From now on these are its tools, as they are listed; one without `inputSchema` takes any object.
    pub fn offers(&self, tools: impl IntoIterator<Item = Value>) {
        let with_schema = |mut tool: Value| {
            if tool.is_object() && tool.get("inputSchema").is_none() {
                tool["inputSchema"] = json!({"type": "object"});
            }
            tool
        };
        locked(&self.script).tools = tools.into_iter().map(with_schema).collect();
    }

    /// From now on a page of its list has so many tools.
    pub fn pages_of(&self, size: usize) {
        locked(&self.script).page = size;
    }

    /// From now on it has no sessions.
    pub fn without_sessions(&self) {
        locked(&self.script).has_sessions = false;
    }

    /// From now on it has a stream of what it tells by itself.
    pub fn with_stream(&self) {
        locked(&self.script).has_stream = true;
    }

    /// Adds answers to calls of a tool, or to a method (`tools/list`, `GET`): the n-th is for the n-th request, the last one for
    /// all others.
    pub fn script(&self, tool_or_method: &str, answers: impl IntoIterator<Item = McpAnswer>) {
        locked(&self.script).answers.entry(tool_or_method.to_owned()).or_default().0.extend(answers);
    }

    /// Forgets all sessions, as one that was started anew.
    pub fn forget_sessions(&self) {
        locked(&self.script).sessions.clear();
    }

    /// Tells something on its stream; how many listen there.
    pub fn tell(&self, message: Value) -> usize {
        self.told.send(message).unwrap_or(0)
    }

    /// Requests with this method (`tools/call`, `GET`, `DELETE`; `reply` for answers to its own), in order of arrival.
    #[must_use]
    pub fn requests(&self, method: &str) -> Vec<RecordedRequest> {
        locked(&self.script).requests.get(method).cloned().unwrap_or_default()
    }

    /// The `params` of these requests.
    #[must_use]
    pub fn params(&self, method: &str) -> Vec<Value> {
        self.requests(method).iter().map(|request| request.json()["params"].clone()).collect()
    }

    /// Returns when so many requests with this method have come.
    ///
    /// # Panics
    /// When they do not come.
    pub async fn reached(&self, method: &str, wanted: usize) {
        self.arrivals(method).reached(wanted, &format!("requests {method}")).await;
    }

    /// Lets one held answer go.
    pub fn release(&self) {
        self.hold.release();
    }

    /// What its callers did that the protocol forbids.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        locked(&self.script).faults.clone()
    }

    fn arrivals(&self, method: &str) -> Arc<Arrivals> {
        Arc::clone(locked(&self.arrivals).entry(method.to_owned()).or_default())
    }

    /// The next answer of the script to a request for this tool or method.
    fn scripted(&self, name: &str) -> Option<McpAnswer> {
        let mut script = locked(&self.script);
        let (answers, given) = script.answers.get_mut(name)?;
        let answer = answers.get(*given).or(answers.last()).cloned();
        *given += 1;
        answer
    }
}

async fn take(
    State(servers): State<Arc<Servers>>,
    ConnectInfo(line): ConnectInfo<Line>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    let Some(request) = RecordedRequest::read(request).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let server = Arc::clone(locked(&servers).entry(name).or_default());
    let message = request.json();
    let method = match (request.method.as_str(), message["method"].as_str()) {
        ("POST", Some(method)) => method.to_owned(),
        ("POST", None) => "reply".to_owned(),
        (other, _) => other.to_owned(),
    };
    locked(&server.script).requests.entry(method.clone()).or_default().push(request.clone());
    let response = respond::respond(&server, &request, &method, &message);
    server.arrivals(&method).add();
    respond::perform(&server, response.await, &line).await
}
