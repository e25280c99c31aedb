//! Whoever runs `confirm`: the caller of the API answers calls of the client tool.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::ask::Ask;
use super::lines::Told;
use super::{LOOK, Office};
use crate::witness::drawn;

/// How long one answer is tried.
const PATIENCE: Duration = Duration::from_secs(60);

/// Looks for runs that wait for a call's result and gives it; sometimes two different ones at once.
pub(super) async fn answer(office: Arc<Office>, who: usize) {
    loop {
        let ask = Ask::get("/v1/runs?status=waiting_tool&limit=100");
        let runs = office.desk.people[who].ask(&ask).await.map(|answer| answer.body).unwrap_or_default();
        for run in runs["data"].as_array().into_iter().flatten() {
            for call in run["pending_tool_calls"].as_array().into_iter().flatten() {
                let (run_id, id) =
                    (run["id"].as_str().unwrap_or_default(), call["id"].as_str().unwrap_or_default());
                if office.book.take(id) {
                    deal(&office, who, run_id, id).await;
                    office.book.lay_down(id);
                }
            }
        }
        sleep(LOOK).await;
    }
}

async fn deal(office: &Office, who: usize, run_id: &str, call_id: &str) {
    let draw = drawn(office.settings.seed, &["answers", call_id]);
    if draw.is_multiple_of(3) {
        sleep(Duration::from_millis(draw / 3 % 1500)).await;
    }
    let first = submit(office, who, run_id, call_id, "yes");
    if draw.is_multiple_of(5) {
        tokio::join!(first, submit(office, 1 - who, run_id, call_id, "no"));
    } else {
        first.await;
    }
}

async fn submit(office: &Office, who: usize, run_id: &str, call_id: &str, word: &str) {
    let body = json!({"tool_call_id": call_id, "status": "succeeded", "content": format!("{word}, says the client")});
    let ask = Ask::post(format!("/v1/runs/{run_id}/tool_results"), body).until(Instant::now() + PATIENCE);
    let Some(answer) = office.desk.people[who].ask(&ask.once(format!("answer-{call_id}-{word}"))).await
    else {
        return;
    };
    if answer.is_ok() {
        office.book.told(Told {
            what: "tool_result".into(),
            run_id: run_id.to_owned(),
            id: call_id.to_owned(),
            word: format!("{word}, says the client"),
            input: Value::Null,
            ..Told::default()
        });
    } else if ![409, 410].contains(&answer.status) {
        office.book.odd(&format!("answer to {call_id}"), &answer);
    }
}
