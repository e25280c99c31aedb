//! A tool server whose answers are scripted, with a count of the effects that they had.

mod answer;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use tokio::time::sleep;

use crate::arrivals::Arrivals;
use crate::body;
use crate::hold::Hold;
use crate::lock::locked;
use crate::loopback::{Line, Loopback};
use crate::request::RecordedRequest;

pub use answer::ToolAnswer;

/// A scripted tool server on loopback. A tool that has no script answers 200 `{"ok": true}`.
#[derive(Debug)]
pub struct ScriptedTools {
    server: Loopback,
    tools: Arc<Tools>,
}

type Tools = Mutex<HashMap<String, Arc<Tool>>>;

#[derive(Debug, Default)]
struct Tool {
    script: Mutex<Script>,
    arrivals: Arrivals,
    hold: Hold,
}

#[derive(Debug, Default)]
struct Script {
    answers: Vec<ToolAnswer>,
    dedupes: bool,
    /// The first answer to each `Idempotency-Key`.
    given: HashMap<String, ToolAnswer>,
    requests: Vec<RecordedRequest>,
    effects: usize,
    now: usize,
    at_once: usize,
}

impl ScriptedTools {
    /// Starts a server with no scripts yet.
    ///
    /// # Errors
    /// No free port.
    pub async fn start() -> io::Result<Self> {
        let tools = Arc::new(Tools::default());
        let router = Router::new().route("/tool/{*path}", any(call)).with_state(Arc::clone(&tools));
        Ok(Self { server: Loopback::serve(router).await?, tools })
    }

    /// Where to call a tool. Further segments below it are the same tool.
    #[must_use]
    pub fn url(&self, tool: &str) -> String {
        format!("{}/tool/{tool}", self.server.url())
    }

    /// Adds answers to a tool's script: the n-th is for the n-th request, the last one for all others.
    pub fn script(&self, tool: &str, answers: impl IntoIterator<Item = ToolAnswer>) {
        locked(&self.tool(tool).script).answers.extend(answers);
    }

    /// From now on a known `Idempotency-Key` gets its first answer again, at once and whole, with no second
    /// effect.
    pub fn dedupe(&self, tool: &str) {
        locked(&self.tool(tool).script).dedupes = true;
    }

    /// A tool's requests so far, in order of arrival.
    #[must_use]
    pub fn requests(&self, tool: &str) -> Vec<RecordedRequest> {
        locked(&self.tool(tool).script).requests.clone()
    }

    /// How often the tool did what it is for.
    #[must_use]
    pub fn effects(&self, tool: &str) -> usize {
        locked(&self.tool(tool).script).effects
    }

    /// The most requests that the tool had at the same time.
    #[must_use]
    pub fn at_once(&self, tool: &str) -> usize {
        locked(&self.tool(tool).script).at_once
    }

    /// Returns when a tool has got `wanted` requests.
    ///
    /// # Panics
    /// When they do not come.
    pub async fn reached(&self, tool: &str, wanted: usize) {
        self.tool(tool).arrivals.reached(wanted, &format!("requests to {tool}")).await;
    }

    /// Lets one held answer of a tool go ([`ToolAnswer::held`]).
    pub fn release(&self, tool: &str) {
        self.tool(tool).hold.release();
    }

    fn tool(&self, name: &str) -> Arc<Tool> {
        tool(&self.tools, name)
    }
}

impl Tool {
    /// Records a request, makes its effect and picks its answer.
    fn take(&self, request: RecordedRequest) -> ToolAnswer {
        let mut script = locked(&self.script);
        let key = request.header("idempotency-key").unwrap_or_default().to_owned();
        let scripted = script.answers.get(script.requests.len()).or(script.answers.last());
        let scripted = scripted.cloned().unwrap_or_default();
        script.requests.push(request);
        script.now += 1;
        script.at_once = script.at_once.max(script.now);
        let known = script.given.get(&key).filter(|_| script.dedupes && !key.is_empty());
        if let Some(known) = known {
            return known.clone().again();
        }
        script.effects += usize::from(scripted.applies());
        if scripted.applies() {
            script.given.insert(key, scripted.clone());
        }
        scripted
    }
}

/// Counts a request as over when its handler ends, be it that the caller went away.
struct Underway(Arc<Tool>);

impl Drop for Underway {
    fn drop(&mut self) {
        locked(&self.0.script).now -= 1;
    }
}

fn tool(tools: &Tools, name: &str) -> Arc<Tool> {
    Arc::clone(locked(tools).entry(name.to_owned()).or_default())
}

async fn call(
    State(tools): State<Arc<Tools>>,
    ConnectInfo(line): ConnectInfo<Line>,
    Path(path): Path<String>,
    request: Request,
) -> Response {
    let Some(request) = RecordedRequest::read(request).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let tool = tool(&tools, path.split('/').next().unwrap_or_default());
    let answer = tool.take(request);
    let _underway = Underway(Arc::clone(&tool));
    tool.arrivals.add();
    sleep(answer.delay).await;
    if answer.is_held {
        tool.hold.pass().await;
    }
    if answer.is_cut {
        line.cut();
    }
    body::answer(answer.status, &answer.headers, vec![answer.body], None)
}
