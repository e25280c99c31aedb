//! Follows a run by its event stream, from the first event to the last, across broken
//! connections and dead servers: every event once, in order.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;

use super::runtime::Runtime;
use super::sse::Frames;
use super::timeline::Timeline;

const RECONNECT_AFTER: Duration = Duration::from_millis(150);

/// Shows a run's events on the timeline until the last one.
pub(super) async fn follow(runtime: Runtime, run: String, mut timeline: Timeline) {
    let mut details = Details { runtime: runtime.clone(), run: run.clone(), calls: BTreeMap::new() };
    let mut seen = 0;
    let mut connected = true;
    loop {
        match runtime.events(&run, seen).await {
            // Nothing left to say.
            Ok(answer) if answer.status() == reqwest::StatusCode::NO_CONTENT => return,
            Ok(answer) => {
                if !connected {
                    timeline.reconnected(seen);
                    connected = true;
                }
                if read(answer, &mut seen, &mut details, &mut timeline).await {
                    return;
                }
            }
            Err(_) if connected => {
                timeline.disconnected();
                connected = false;
            }
            Err(_) => {}
        }
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}

/// Reads a stream until it ends; `true` if the run's last event was in it.
async fn read(
    answer: reqwest::Response,
    seen: &mut u64,
    details: &mut Details,
    timeline: &mut Timeline,
) -> bool {
    let mut frames = Frames::default();
    let mut body = answer.bytes_stream();
    while let Some(Ok(piece)) = body.next().await {
        for frame in frames.push(&piece) {
            // Without an id it is a live fragment of a reply, which the timeline doesn't show.
            let Some(seq) = frame.id else { continue };
            let Ok(event) = serde_json::from_str::<Value>(&frame.data) else { continue };
            *seen = seq;
            let call = details.of(&event).await;
            timeline.show(&event, call.as_ref());
            if matches!(event["type"].as_str(), Some("run.finished" | "run.failed" | "run.cancelled")) {
                return true;
            }
        }
    }
    false
}

/// Events name a call; what it was called with and what came out stands in its step.
struct Details {
    runtime: Runtime,
    run: String,
    calls: BTreeMap<String, Value>,
}

impl Details {
    async fn of(&mut self, event: &Value) -> Option<Value> {
        let id = event["data"]["tool_call_id"].as_str()?;
        let finished = matches!(event["type"].as_str(), Some("tool.completed" | "tool.rejected"));
        if finished || !self.calls.contains_key(id) {
            let path = format!("/v1/runs/{}/steps/{}", self.run, event["step"]);
            // The timeline can do without: it shows less when the server is away at this moment.
            if let Ok(step) = self.runtime.get(&path).await {
                for call in step["tool_calls"].as_array().into_iter().flatten() {
                    if let Some(id) = call["id"].as_str() {
                        self.calls.insert(id.to_owned(), call.clone());
                    }
                }
            }
        }
        self.calls.get(id).cloned()
    }
}
