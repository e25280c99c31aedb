//! A run, as a test follows it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::laws;
use super::stream::EventStream;
use super::{Answer, Client, World};

/// How long anything may take; crash tests wait for a lease to run out.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long one request is held.
const HELD_S: u32 = 10;
/// Between two looks at something that can't be waited for in one request.
const PAUSE: Duration = Duration::from_millis(25);
pub(crate) const TERMINAL: [&str; 3] = ["finished", "failed", "cancelled"];

/// A run of a world's tenant.
#[derive(Debug)]
pub(crate) struct Run<'w> {
    pub(crate) id: String,
    world: &'w World,
    client: Client,
}

impl<'w> Run<'w> {
    pub(crate) fn new(world: &'w World, id: &str) -> Self {
        Self { id: id.to_owned(), world, client: world.client.clone() }
    }

    /// The same run, seen by another client: another tenant's, or at another server.
    pub(crate) fn through(&self, client: &Client) -> Self {
        Self { id: self.id.clone(), world: self.world, client: client.clone() }
    }

    pub(crate) fn world(&self) -> &'w World {
        self.world
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The path of something of the run; `""` for the run itself, else with its slash.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/runs/{}{rest}", self.id)
    }

    /// The run as it is.
    pub(crate) async fn now(&self) -> Value {
        self.client.get(&self.path("")).await.ok()
    }

    /// All of one of its lists: `events`, `steps`, `ledger` …
    pub(crate) async fn list(&self, what: &str) -> Value {
        let mut all = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.client.get(&self.path(&format!("/{what}?limit=200{cursor}"))).await.ok();
            all.extend(page["data"].as_array().expect("a list").iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Value::Array(all),
            }
        }
    }

    /// Its calls over all steps.
    pub(crate) async fn calls(&self) -> Value {
        let steps = self.list("steps").await;
        let calls = steps.as_array().expect("a list").iter().flat_map(|step| step["tool_calls"].as_array());
        Value::Array(calls.flatten().cloned().collect())
    }

    /// Its ledger, as soon as `holds` is true of it.
    pub(crate) async fn ledger_where(&self, holds: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ledger = self.list("ledger").await;
            if holds(&ledger) {
                return ledger;
            }
            assert!(Instant::now() < deadline, "the ledger stayed {ledger:#}");
            sleep(PAUSE).await;
        }
    }

    /// The run as soon as `holds` is true of it. A server that is away meanwhile is waited for.
    pub(crate) async fn when(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let (deadline, mut last) = (Instant::now() + PATIENCE, Value::Null);
        loop {
            let path = self.path(&format!("/wait?timeout={HELD_S}"));
            if let Ok(answer) = self.client.get(&path).try_send().await
                && answer.status != 503
            {
                last = answer.ok();
                if holds(&last) {
                    return last;
                }
                assert!(!is_terminal(&last), "waiting for {what}, but it ended: {last:#}");
            }
            assert!(Instant::now() < deadline, "waiting for {what}: {last:#}");
            sleep(PAUSE).await;
        }
    }

    /// The run when it waits for somebody.
    pub(crate) async fn waiting(&self) -> Value {
        let is_open = |run: &Value, name: &str| run[name].as_array().is_some_and(|open| !open.is_empty());
        let waits = |run: &Value| match run["status"].as_str() {
            Some("waiting_approval") => is_open(run, "pending_approvals"),
            Some("waiting_tool") => is_open(run, "pending_tool_calls"),
            _ => false,
        };
        self.when("a wait", waits).await
    }

    /// The run at its end; what holds for every run that ended is checked.
    pub(crate) async fn ended(&self) -> Value {
        let run = self.when("the end", is_terminal).await;
        laws::hold(self, &run).await;
        run
    }

    /// Cancels it.
    pub(crate) async fn cancel(&self) -> Value {
        self.client.post(&self.path("/cancel"), &json!({})).await.ok()
    }

    /// Decides its first pending approval.
    pub(crate) async fn decide(&self, decision: &Value) -> Answer {
        let id = self.pending().await;
        self.client.post(&format!("/v1/approvals/{id}/decision"), decision).await
    }

    pub(crate) async fn approve(&self) {
        self.decide(&json!({"decision": "approve"})).await.ok();
    }

    pub(crate) async fn deny(&self, reason: &str) {
        self.decide(&json!({"decision": "deny", "reason": reason})).await.ok();
    }

    /// The id of its first pending approval.
    pub(crate) async fn pending(&self) -> String {
        let run = self.waiting().await;
        run["pending_approvals"][0]["id"].as_str().expect("a pending approval").to_owned()
    }

    /// The id of its first open call of a client tool.
    pub(crate) async fn open_call(&self) -> String {
        let run = self.waiting().await;
        run["pending_tool_calls"][0]["id"].as_str().expect("an open call").to_owned()
    }

    /// Answers a call of a client tool.
    pub(crate) async fn submit(&self, call: &str, content: &str) -> Answer {
        let body = json!({"tool_call_id": call, "status": "succeeded", "content": content});
        self.client.post(&self.path("/tool_results"), &body).await
    }

    /// A message that joins the next step.
    pub(crate) async fn steer(&self, content: &str) -> Answer {
        self.client.post(&self.path("/messages"), &json!({"content": content})).await
    }

    /// Watches its events.
    pub(crate) async fn stream(&self, last_event_id: Option<u64>) -> EventStream {
        self.client.stream(&self.path("/events"), last_event_id).await
    }

    /// The types of its events.
    pub(crate) async fn event_types(&self) -> Vec<String> {
        let events = self.list("events").await;
        let types = events.as_array().expect("a list").iter().map(|event| event["type"].as_str());
        types.map(|kind| kind.expect("a type").to_owned()).collect()
    }
}

pub(crate) fn is_terminal(run: &Value) -> bool {
    run["status"].as_str().is_some_and(|status| TERMINAL.contains(&status))
}
