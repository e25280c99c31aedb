//! The model's side of the world.

mod legal;
pub mod script;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Shared;
use super::http::cut;
use super::lines::ModelLine;
use crate::witness::drawn;
use script::Script;
use wire::{Reply, respond};

pub(super) async fn complete(State(shared): State<Arc<Shared>>, Json(asked): Json<Value>) -> Response {
    let messages = asked["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let script = Script::of(messages);
    let violation = legal::violation(messages).or_else(|| script.is_none().then(|| "no script".to_owned()));
    let (tag, turn) = script.as_ref().map(|(script, turn)| (script.tag.clone(), *turn)).unwrap_or_default();
    let line = ModelLine { tag: tag.clone(), turn, violation: violation.clone(), ..ModelLine::default() };
    let Ok(open) = shared.requests.model_began(line).await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let (Some((script, turn)), None) = (script, violation) else {
        open.ended("answered 400");
        return error(StatusCode::BAD_REQUEST);
    };
    let nth = shared.nth(&format!("{tag} {turn}"));
    let draw = |what: &str| drawn(shared.seed, &["model", what, &tag, &turn.to_string(), &nth.to_string()]);
    sleep(Duration::from_millis(draw("takes") % 120)).await;
    // Only the first try of a turn goes wrong, so that every turn can be made.
    let percent = if nth == 1 { draw("mishap") % 100 } else { 100 };
    match percent {
        0..4 => {
            open.ended("answered 500");
            error(StatusCode::INTERNAL_SERVER_ERROR)
        }
        4..6 => {
            open.ended("answered 429");
            error(StatusCode::TOO_MANY_REQUESTS)
        }
        6..9 => {
            open.ended("cut");
            cut()
        }
        _ => {
            let is_slow = draw("slow").is_multiple_of(10);
            let pause = Duration::from_millis(if is_slow { 100 + draw("pause") % 200 } else { 0 });
            let calls = script.calls(turn);
            let text = if calls.is_empty() { format!("Item {tag} is done.") } else { String::new() };
            let reply = Reply { calls, text, pause, is_cut: (9..12).contains(&percent) };
            respond(reply, asked["stream"] == Value::Bool(true), move || open.ended("answered 200"))
        }
    }
}

fn error(status: StatusCode) -> Response {
    let body = json!({"error": {"message": "the world's model", "type": "world", "code": null}});
    let mut response = (status, Json(body)).into_response();
    if status == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert("retry-after", HeaderValue::from_static("1"));
    }
    response
}
