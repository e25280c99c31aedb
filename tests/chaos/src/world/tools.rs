//! The tools' side of the world.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, body::Bytes};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Shared;
use super::http::{Peer, cut};
use super::keys::{Entry, Ticket};
use super::kinds::{FIND, ToolKind, kind_of};
use super::lines::{Effect, RequestLine};
use super::mishaps::{LATE_MS, Mishap, mishap, takes_ms};

/// How a request is answered, and the words for the log.
type Said = (Response, String);

pub(super) async fn call(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let (Some(tool), Ok(input)) = (kind_of(&name), serde_json::from_slice::<Value>(&body)) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let line = RequestLine { peer: peer.to_string(), ..line(tool, &headers, &input) };
    let Ok(open) = shared.requests.began(line.clone()).await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let (response, how) = if tool.name == FIND {
        find(&shared, &line).await
    } else if tool.writes {
        write(&shared, tool, line, input).await
    } else {
        read(&shared, tool, &line).await
    };
    open.ended(&how);
    response
}

fn line(tool: ToolKind, headers: &HeaderMap, input: &Value) -> RequestLine {
    let header =
        |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    RequestLine {
        tool: tool.name.to_owned(),
        token: input["token"].as_str().unwrap_or_default().to_owned(),
        key: header("idempotency-key"),
        call_id: header("x-tool-call-id"),
        run_id: header("x-run-id"),
        attempt: header("x-attempt").parse().unwrap_or_default(),
        ..RequestLine::default()
    }
}

async fn read(shared: &Shared, tool: ToolKind, line: &RequestLine) -> Said {
    let nth = shared.nth(&line.key);
    sleep(Duration::from_millis(takes_ms(shared.seed, tool, &line.token, nth))).await;
    let seen = json!({"seen": line.token, "in": tool.name});
    match mishap(shared.seed, tool, &line.token, nth) {
        Mishap::LateAnswer => {
            sleep(Duration::from_millis(LATE_MS)).await;
            answered(StatusCode::OK, &seen)
        }
        Mishap::None => answered(StatusCode::OK, &seen),
        other => gone_wrong(other),
    }
}

async fn find(shared: &Shared, line: &RequestLine) -> Said {
    let tool = kind_of(FIND).unwrap_or(super::kinds::TOOLS[0]);
    let nth = shared.nth(&line.key);
    sleep(Duration::from_millis(takes_ms(shared.seed, tool, &line.token, nth))).await;
    match mishap(shared.seed, tool, &line.token, nth) {
        Mishap::None => {
            let (state, result) = shared.keys.find(&line.token);
            let answer = json!({"state": state, "result": result});
            (Json(answer).into_response(), format!("said {state}"))
        }
        other => gone_wrong(other),
    }
}

/// A write goes on when its peer goes away, as it would in any service.
async fn write(shared: &Arc<Shared>, tool: ToolKind, line: RequestLine, input: Value) -> Said {
    let ticket = match shared.keys.enter(&line.key, line.attempt, tool.dedupes).await {
        Entry::Known(answer) => return answered(StatusCode::OK, &answer),
        Entry::Refused(why) => {
            let answer = json!({"error": format!("this request comes too late: {why}")});
            return (answered(StatusCode::CONFLICT, &answer).0, format!("refused {why}"));
        }
        Entry::Go(ticket) => ticket,
    };
    let shared = Arc::clone(shared);
    let work = tokio::spawn(async move { perform(&shared, tool, line, input, ticket).await });
    work.await.unwrap_or_else(|_| (cut(), "cut".into()))
}

async fn perform(shared: &Shared, tool: ToolKind, line: RequestLine, input: Value, ticket: Ticket) -> Said {
    let takes = takes_ms(shared.seed, tool, &line.token, ticket.nth);
    let mishap = mishap(shared.seed, tool, &line.token, ticket.nth);
    match mishap {
        Mishap::Busy => {
            ticket.answered();
            return gone_wrong(mishap);
        }
        Mishap::CutBefore | Mishap::ErrorBefore => return gone_wrong(mishap),
        Mishap::LateEffect => sleep(Duration::from_millis(takes + LATE_MS)).await,
        _ => sleep(Duration::from_millis(takes)).await,
    }
    let applied = ticket.apply(effect(line, input)).await;
    match (applied, mishap) {
        (Err(_), _) => (cut(), "cut".into()),
        (Ok(None), _) => {
            ticket.answered();
            (answered(StatusCode::CONFLICT, &json!({"error": "closed"})).0, "refused closed".into())
        }
        (Ok(Some(_)), Mishap::CutAfter | Mishap::ErrorAfter) => gone_wrong(mishap),
        (Ok(Some(answer)), _) => {
            if mishap == Mishap::LateAnswer {
                sleep(Duration::from_millis(LATE_MS)).await;
            }
            ticket.answered();
            answered(StatusCode::OK, &answer)
        }
    }
}

fn effect(line: RequestLine, input: Value) -> Effect {
    let RequestLine { tool, token, key, call_id, run_id, attempt, .. } = line;
    Effect { at_ms: 0, tool, token, key, call_id, run_id, attempt, input }
}

fn answered(status: StatusCode, answer: &Value) -> Said {
    ((status, Json(answer)).into_response(), format!("answered {}", status.as_u16()))
}

fn gone_wrong(mishap: Mishap) -> Said {
    match mishap {
        Mishap::ErrorBefore | Mishap::ErrorAfter => {
            answered(StatusCode::INTERNAL_SERVER_ERROR, &json!({"error": "something broke"}))
        }
        Mishap::Busy => {
            let (mut response, how) = answered(StatusCode::SERVICE_UNAVAILABLE, &json!({"error": "busy"}));
            response.headers_mut().insert("retry-after", axum::http::HeaderValue::from_static("1"));
            (response, how)
        }
        _ => (cut(), "cut".into()),
    }
}

/// Settles a key for whoever must know: `GET /truth?key=…`.
pub(super) async fn truth(
    State(shared): State<Arc<Shared>>,
    axum::extract::Query(query): axum::extract::Query<std::collections::HashMap<String, String>>,
) -> Response {
    let Some(key) = query.get("key") else { return StatusCode::UNPROCESSABLE_ENTITY.into_response() };
    Json(json!({"applied": shared.keys.close(key).await})).into_response()
}

/// Returns when both logs are on the disk: `POST /settled`.
pub(super) async fn settled(State(shared): State<Arc<Shared>>) -> Response {
    let both: io::Result<()> = async {
        shared.requests.settled().await?;
        shared.keys.settled().await
    }
    .await;
    if both.is_ok() { StatusCode::NO_CONTENT } else { StatusCode::INTERNAL_SERVER_ERROR }.into_response()
}
