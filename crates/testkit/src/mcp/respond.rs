//! What a scripted server does with a request.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::time::sleep;
use uuid::Uuid;

use super::answer::Said;
use super::watch::Session;
use super::{McpAnswer, McpServer};
use crate::body;
use crate::lock::locked;
use crate::loopback::Line;
use crate::request::RecordedRequest;

/// What is to be done.
pub(super) enum Step {
    /// Answers a request with this id.
    Answer(Box<McpAnswer>, Value),
    /// Says this.
    Say(Response),
}

/// Takes note of a request and finds what to do.
pub(super) async fn respond(
    server: &McpServer,
    request: &RecordedRequest,
    method: &str,
    message: &Value,
) -> Step {
    if method == "initialize" {
        let answer = server.scripted(method).unwrap_or_else(McpAnswer::usual);
        return Step::Answer(Box::new(server.opened(request, message, answer)), message["id"].clone());
    }
    let (has_sessions, is_known) = {
        let mut script = locked(&server.script);
        (script.has_sessions, script.watch(request, method, message))
    };
    if has_sessions && !is_known {
        let status = if request.header("mcp-session-id").is_some() { 404 } else { 400 };
        return Step::Say(plain(status));
    }
    match (request.method.as_str(), message["id"].is_null()) {
        ("GET", _) => match server.scripted(method) {
            Some(answer) if !matches!(answer.said, Said::Usual) => {
                Step::Answer(Box::new(answer), Value::Null)
            }
            _ => Step::Say(server.stream(request)),
        },
        ("DELETE", _) => {
            locked(&server.script).sessions.remove(request.header("mcp-session-id").unwrap_or_default());
            Step::Say(plain(204))
        }
        ("POST", false) if method != "reply" => {
            let answer = server.answer(method, &message["params"]);
            Step::Answer(Box::new(answer), message["id"].clone())
        }
        ("POST", _) => Step::Say(plain(202)),
        _ => Step::Say(plain(405)),
    }
}

/// Does it: late, held, cut and all.
pub(super) async fn perform(server: &McpServer, step: Step, line: &Line) -> Response {
    let (answer, id) = match step {
        Step::Say(response) => return response,
        Step::Answer(answer, id) => (answer, id),
    };
    if answer.forgets {
        server.forget_sessions();
    }
    if let Some(tools) = &answer.tools {
        server.offers(tools.clone());
    }
    sleep(answer.delay).await;
    if answer.is_held {
        server.hold.pass().await;
    }
    if answer.cut == Some(0) {
        line.cut();
    }
    let (content_type, bytes) = server.spoken(&answer, id);
    let mut headers = vec![("content-type".to_owned(), content_type)];
    headers.extend(answer.headers);
    body::answer(answer.status, &headers, vec![bytes], answer.cut)
}

impl McpServer {
    /// The answer to `initialize`, which names a session.
    fn opened(&self, request: &RecordedRequest, message: &Value, answer: McpAnswer) -> McpAnswer {
        let mut script = locked(&self.script);
        let asked = &message["params"]["protocolVersion"];
        let answer = usual(answer, || {
            json!({
                "protocolVersion": asked,
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "scripted", "version": "1"},
            })
        });
        let is_named = answer.headers.iter().any(|(name, _)| name == "mcp-session-id");
        if !script.has_sessions || is_named || answer.status >= 300 {
            return answer;
        }
        let id = Uuid::new_v4().to_string();
        let caller = request.header("authorization").unwrap_or_default().to_owned();
        let ids = [message["id"].to_string()].into();
        script.sessions.insert(id.clone(), Session { caller, is_ready: false, ids });
        answer.header("mcp-session-id", &id)
    }

    fn answer(&self, method: &str, params: &Value) -> McpAnswer {
        let name = if method == "tools/call" { params["name"].as_str().unwrap_or_default() } else { method };
        let answer = self.scripted(name).unwrap_or_else(McpAnswer::usual);
        match method {
            "tools/list" => usual(answer, || self.page(params)),
            "tools/call" => usual(answer, || json!({"content": [{"type": "text", "text": "ok"}]})),
            "ping" => usual(answer, || json!({})),
            _ => McpAnswer::error(-32601, "no such method"),
        }
    }

    fn page(&self, params: &Value) -> Value {
        let script = locked(&self.script);
        let at: usize = params["cursor"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
        let end = script.tools.len().min(at + script.page);
        let mut page = json!({"tools": script.tools.get(at..end).unwrap_or_default()});
        if end < script.tools.len() {
            page["nextCursor"] = end.to_string().into();
        }
        page
    }

    /// An answer as bytes, with their content type.
    fn spoken(&self, answer: &McpAnswer, id: Value) -> (String, Bytes) {
        let mut message = match &answer.said {
            Said::Raw(content_type, bytes) => return (content_type.clone(), bytes.clone()),
            Said::Message(message) => message.clone(),
            Said::Usual => json!({"result": {}}),
        };
        message["jsonrpc"] = "2.0".into();
        message["id"] = answer.id.clone().unwrap_or(id);
        if !answer.is_stream {
            return ("application/json".to_owned(), message.to_string().into());
        }
        let messages: Vec<Value> = answer.before.iter().cloned().chain([message]).collect();
        let text = if answer.is_resumed {
            let place = Uuid::new_v4().to_string();
            locked(&self.script).rests.insert(place.clone(), messages);
            format!("id: {place}\nretry: 20\ndata: \n\ndata: {{\"torn")
        } else {
            messages.iter().map(event).collect()
        };
        ("text/event-stream".to_owned(), text.into())
    }

    /// The rest of a stream, or the one of what the server tells by itself.
    fn stream(&self, request: &RecordedRequest) -> Response {
        if let Some(rest) =
            request.header("last-event-id").and_then(|id| locked(&self.script).rests.remove(id))
        {
            return events(Body::from(rest.iter().map(event).collect::<String>()));
        }
        if !locked(&self.script).has_stream {
            return plain(405);
        }
        // A comment first, so that whoever listens knows that it does.
        let first = Ok::<_, Infallible>(Bytes::from_static(b": here\n\n"));
        let told = stream::unfold(self.told.subscribe(), async |mut told| match told.recv().await {
            Ok(message) => Some((Ok(Bytes::from(event(&message))), told)),
            Err(broadcast::error::RecvError::Lagged(_)) => Some((Ok(Bytes::new()), told)),
            Err(broadcast::error::RecvError::Closed) => None,
        });
        events(Body::from_stream(stream::StreamExt::chain(stream::iter([first]), told)))
    }
}

fn usual(mut answer: McpAnswer, result: impl FnOnce() -> Value) -> McpAnswer {
    if matches!(answer.said, Said::Usual) {
        answer.said = Said::Message(json!({"result": result()}));
    }
    answer
}

fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}

fn events(body: Body) -> Response {
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

fn plain(status: u16) -> Response {
    StatusCode::from_u16(status).unwrap_or_default().into_response()
}
