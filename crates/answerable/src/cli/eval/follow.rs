//! Following a run to its end, and doing meanwhile what the case says.

use std::collections::HashSet;
use std::time::Duration;

use answerable_evals::case::{Action, Condition};
use reqwest::Method;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::sleep;

use super::setup::Setup;
use crate::cli::remote::Refusal;

/// Between two looks at a run that waits.
const PAUSE: Duration = Duration::from_millis(15);
/// How long one look at a run that works may take, in seconds.
const LOOK_S: &str = "2";

/// Why a play can't go on as the case says.
#[derive(Debug)]
pub(super) struct Trouble(pub(super) String);

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self(refusal.to_string())
    }
}

/// A run that is followed, and those that went before it.
#[derive(Debug)]
pub(super) struct Follow<'p> {
    pub(super) setup: Setup<'p>,
    /// The ids of the case's runs; the last is the one that is followed.
    pub(super) runs: Vec<String>,
    /// Calls of client tools that were answered.
    pub(super) answered: HashSet<String>,
    /// Which of the recorded decisions were used.
    pub(super) used: Vec<bool>,
    changes: watch::Receiver<u64>,
}

impl<'p> Follow<'p> {
    /// Follows a run from its start.
    pub(super) fn new(setup: Setup<'p>, run: String) -> Self {
        let used = vec![false; setup.case.decisions.len()];
        let changes = setup.world.stage().changes();
        Self { setup, runs: vec![run], answered: HashSet::new(), used, changes }
    }

    /// Does all that the case says, and returns when the run has ended or waits for what the case doesn't give.
    pub(super) async fn through(&mut self) -> Result<(), Trouble> {
        let setup = self.setup;
        for (n, action) in setup.case.actions.iter().enumerate() {
            let place = |trouble: Trouble| Trouble(format!("actions[{n}]: {}", trouble.0));
            let run = self.until_due(action).await.map_err(place)?;
            self.perform(action, &run).await.map_err(place)?;
        }
        loop {
            let run = self.look().await?;
            if is_terminal(&run) || (!self.attend(&run).await? && self.is_stuck(&run)) {
                return Ok(());
            }
            self.pause(&run).await;
        }
    }

    /// The id of the run that is followed.
    pub(super) fn run(&self) -> &str {
        self.runs.last().map(String::as_str).unwrap_or_default()
    }

    /// The run as it is.
    pub(super) async fn look(&self) -> Result<Value, Trouble> {
        Ok(self.setup.guest.api.get(&["v1", "runs", self.run()]).await?)
    }

    /// The run, as soon as an action can be done.
    async fn until_due(&mut self, action: &Action) -> Result<Value, Trouble> {
        loop {
            let run = self.look().await?;
            if self.is_due(action, &run).await? {
                return Ok(run);
            }
            if is_terminal(&run) {
                let ended = word(&run, "stop_reason");
                return Err(Trouble(format!("it was not yet time for it when the run ended ({ended})")));
            }
            // What is waited for may come with time, as when a question expires.
            let may_come = matches!(action, Action::Wait(_));
            if !self.attend(&run).await? && !may_come && self.is_stuck(&run) {
                return Err(Trouble(format!("the run waits for something else: {}", waits_for(&run))));
            }
            self.pause(&run).await;
        }
    }

    async fn is_due(&self, action: &Action, run: &Value) -> Result<bool, Trouble> {
        Ok(match action {
            Action::Approve(approval) | Action::Deny(approval) | Action::Answer(approval) => {
                pending(run, approval.tool.as_deref(), false).is_some()
            }
            Action::Raise(_) => pending(run, None, true).is_some(),
            Action::ToolResult(result) => self.open_call(run, &result.tool).is_some(),
            Action::Resolve(resolve) => self.uncertain(resolve.tool.as_deref()).await?.is_some(),
            Action::Steer(_) | Action::Cancel => !is_terminal(run),
            Action::Continue(_) | Action::Fork(_) => is_terminal(run),
            Action::Wait(condition) => self.is_met(condition, run),
        })
    }

    fn is_met(&self, condition: &Condition, run: &Value) -> bool {
        let seen = self.setup.world.stage().seen();
        match condition {
            Condition::Called(tool, times) => {
                seen.answers.traffic().get(tool).is_some_and(|traffic| traffic.requests >= *times)
            }
            Condition::Asked(times) => seen.model_requests() >= *times,
            Condition::Status(status) => word(run, "status") == status,
        }
    }

    /// The first open call of a client tool that was not answered.
    pub(super) fn open_call<'r>(&self, run: &'r Value, tool: &str) -> Option<&'r str> {
        open_calls(run)
            .filter(|call| word(call, "tool_name") == tool)
            .map(|call| word(call, "id"))
            .find(|id| !self.answered.contains(*id))
    }

    /// The first entry of the ledger of which nobody knows.
    pub(super) async fn uncertain(&self, tool: Option<&str>) -> Result<Option<String>, Trouble> {
        let api = &self.setup.guest.api;
        let ledger = api.get(&["v1", "runs", self.run(), "ledger"]).await?;
        let entries = ledger.get("data").and_then(Value::as_array).into_iter().flatten();
        let open = |entry: &&Value| {
            word(entry, "status") == "uncertain" && tool.is_none_or(|tool| word(entry, "tool_name") == tool)
        };
        Ok(entries.into_iter().find(open).map(|entry| word(entry, "id").to_owned()))
    }

    /// Whether a run waits for what nobody has given.
    fn is_stuck(&self, run: &Value) -> bool {
        let approvals = run.get("pending_approvals").and_then(Value::as_array);
        let asks = approvals.is_some_and(|list| !list.is_empty());
        let calls = open_calls(run).any(|call| !self.answered.contains(word(call, "id")));
        is_waiting(run) && (asks || calls)
    }

    /// Returns when something may be another than it was.
    async fn pause(&mut self, run: &Value) {
        if is_waiting(run) {
            return sleep(PAUSE).await;
        }
        let api = &self.setup.guest.api;
        let mut url =
            api.url(&["v1", "runs", self.runs.last().map(String::as_str).unwrap_or_default(), "wait"]);
        url.set_query(Some(&format!("timeout={LOOK_S}")));
        let waiting = api.send(Method::GET, url, None, &[]);
        tokio::select! {
            // What went wrong is told by the next look.
            _ = waiting => {}
            _ = self.changes.changed() => {}
        }
    }
}

/// A text of an object; empty, if there is none.
pub(super) fn word<'v>(object: &'v Value, name: &str) -> &'v str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a run has ended.
pub(super) fn is_terminal(run: &Value) -> bool {
    matches!(word(run, "status"), "finished" | "failed" | "cancelled")
}

fn is_waiting(run: &Value) -> bool {
    matches!(word(run, "status"), "waiting_approval" | "waiting_tool")
}

/// The open calls of client tools.
pub(super) fn open_calls(run: &Value) -> impl Iterator<Item = &Value> {
    run.get("pending_tool_calls").and_then(Value::as_array).into_iter().flatten()
}

/// The first question to people: about a budget, or about a call of this tool.
pub(super) fn pending<'r>(run: &'r Value, tool: Option<&str>, is_budget: bool) -> Option<&'r Value> {
    let asks = run.get("pending_approvals").and_then(Value::as_array).into_iter().flatten();
    asks.into_iter().find(|ask| {
        (word(ask, "kind") == "budget") == is_budget && tool.is_none_or(|tool| word(ask, "tool_name") == tool)
    })
}

/// What a run waits for, in a few words.
fn waits_for(run: &Value) -> String {
    let asks = run.get("pending_approvals").and_then(Value::as_array).into_iter().flatten();
    let asks = asks.into_iter().map(|ask| match word(ask, "kind") {
        "budget" => "more budget".to_owned(),
        "uncertain_effect" => format!("what became of {}", word(ask, "tool_name")),
        _ => format!("a decision on {}", word(ask, "tool_name")),
    });
    let calls = open_calls(run).map(|call| format!("an answer to {}", word(call, "tool_name")));
    asks.chain(calls).collect::<Vec<_>>().join(", ")
}
