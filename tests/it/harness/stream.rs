//! Reading a run's events as they come.

use std::time::Duration;

use answerable_testkit::Document;
use reqwest::Response;
use serde_json::Value;
use tokio::time::timeout;

/// How long the next event may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// One event.
#[derive(Clone, Debug)]
pub(crate) struct StreamEvent {
    /// The `seq`; live-only events have none.
    pub(crate) id: Option<u64>,
    /// The type.
    pub(crate) kind: String,
    /// The event.
    pub(crate) data: Value,
}

/// An open stream. Dropping it hangs up.
#[derive(Debug)]
pub(crate) struct EventStream {
    /// Of the answer; 204 is an empty stream.
    pub(crate) status: u16,
    response: Option<Response>,
    buffer: Vec<u8>,
    has_begun: bool,
}

impl EventStream {
    pub(crate) async fn open(response: Response) -> Self {
        let status = response.status().as_u16();
        if status == 200 {
            let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
            assert_eq!(
                header("content-type").map(|kind| kind.split(';').next()),
                Some(Some("text/event-stream"))
            );
            assert_eq!(header("cache-control"), Some("no-cache, no-transform"));
            assert_eq!(header("x-accel-buffering"), Some("no"));
        } else {
            assert_eq!(status, 204, "{:?}", response.text().await);
            return Self { status, response: None, buffer: vec![], has_begun: true };
        }
        Self { status, response: Some(response), buffer: vec![], has_begun: false }
    }

    /// The next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<StreamEvent> {
        loop {
            let block = timeout(PATIENCE, self.block()).await.expect("an event or the end of the stream")?;
            if !self.has_begun {
                assert!(block.contains("retry: 2000"), "the stream began with {block:?}");
                self.has_begun = true;
            }
            if let Some(event) = parse(&block) {
                return Some(event);
            }
        }
    }

    /// The next `count` events.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        while events.len() < count {
            events.push(self.next().await.expect("one more event"));
        }
        events
    }

    /// All events to the end.
    pub(crate) async fn rest(mut self) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }

    /// The text up to the next empty line.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Some(String::from_utf8(block).expect("UTF-8"));
            }
            match self.response.as_mut()?.chunk().await.expect("the stream") {
                Some(chunk) => self.buffer.extend_from_slice(&chunk),
                None => {
                    assert!(self.buffer.is_empty(), "the stream ended within an event");
                    return None;
                }
            }
        }
    }
}

/// The event in a block; `None` for a comment or `retry` alone.
fn parse(block: &str) -> Option<StreamEvent> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let data: Value = serde_json::from_str(field("data")?).expect("JSON");
    let event = StreamEvent {
        id: field("id").and_then(|id| id.parse().ok()),
        kind: field("event")?.to_owned(),
        data,
    };
    let schema = if event.kind == "model.delta" { "ModelDelta" } else { "Event" };
    let judged = Document::load().judge_value(schema, &event.data);
    assert!(judged.is_ok(), "{event:?}: {judged:?}");
    if schema == "Event" {
        assert_eq!(event.data["type"], event.kind);
        assert_eq!(event.data["seq"].as_u64(), event.id);
    }
    Some(event)
}
