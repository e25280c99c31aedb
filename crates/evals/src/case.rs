//! A case, as its file says.

mod action;
mod answer;
mod expect;
mod forms;
mod range;
mod recorded;
mod reply;
mod schema;
mod secret;
mod words;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

pub use action::{Action, Approval, Condition, Continue, Fork, Resolve, Submission};
pub use answer::{Answer, Body, ToolScript};
pub use expect::{AnswerExpected, CallExpected, Expect, LedgerExpected, ModelSaw, Pattern, ToolsExpected};
pub use range::Range;
pub use recorded::{Decision, Outcome, RecordedCall, Steer, Tools};
pub use reply::{Called, Model, Reply, Said, Usage, What};
pub use schema::Schema;
pub use secret::Secret;
pub use words::Words;

/// One case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What it is; `eval_case`, if it is said at all.
    #[serde(default)]
    pub object: Option<String>,
    /// The format's version, 1.
    #[serde(default)]
    pub version: Option<u64>,
    /// What reports call it; the name of its file, if it has none of its own.
    #[serde(default)]
    pub name: String,
    /// What it is about, for people.
    #[serde(default)]
    pub description: String,
    /// Words to choose cases by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// What the agent is asked: a text, or a list of messages.
    pub input: Value,
    /// The run's context.
    #[serde(default)]
    pub context: Option<Map<String, Value>>,
    /// The run's own limits.
    #[serde(default)]
    pub budgets: Option<Map<String, Value>>,
    /// The run's own policy.
    #[serde(default)]
    pub policy: Option<Map<String, Value>>,
    /// The agent, as the API takes it; `name`, `instructions` and `model` may be left out.
    pub agent: Map<String, Value>,
    /// What the model says.
    pub model: Model,
    /// What the models of the agent's fallbacks say, by provider.
    #[serde(default)]
    pub fallbacks: BTreeMap<String, Vec<Reply>>,
    /// What models cost, as in a provider, by model.
    #[serde(default)]
    pub prices: Map<String, Value>,
    /// Secrets that the agent's headers name.
    #[serde(default)]
    pub secrets: BTreeMap<String, Secret>,
    /// What tools answer.
    #[serde(default)]
    pub tools: Tools,
    /// What people decided, in a case made from a run; used where no action says otherwise.
    #[serde(default)]
    pub decisions: Vec<Decision>,
    /// What is done while the run goes on, in order.
    #[serde(default)]
    pub actions: Vec<Action>,
    /// What was said to the run while it went on, in a case made from one.
    #[serde(default)]
    pub steers: Vec<Steer>,
    /// The run that the case was made from.
    #[serde(default)]
    pub run_id: Option<String>,
    #[serde(rename = "agent_id", default)]
    _agent_id: Option<String>,
    #[serde(rename = "agent_version", default)]
    _agent_version: Option<u64>,
    /// People sent more than text, which a case doesn't have.
    #[serde(skip)]
    pub(crate) lacks_attachments: bool,
    /// How that run ended; what is expected, where `expect` says nothing.
    #[serde(default)]
    pub outcome: Option<Value>,
    /// What must hold in the end.
    #[serde(default)]
    pub expect: Option<Expect>,
}

impl Case {
    /// The provider of an agent that names none.
    pub const PROVIDER: &'static str = "main";

    /// The names of the agent's tools.
    pub fn tool_names(&self) -> impl Iterator<Item = &str> {
        let tools = self.agent.get("tools").and_then(Value::as_array).into_iter().flatten();
        tools.filter_map(|tool| tool.get("name")?.as_str())
    }

    /// The names of the tools that are asked what became of calls of others.
    pub fn lookups(&self) -> impl Iterator<Item = &str> {
        let tools = self.agent.get("tools").and_then(Value::as_array).into_iter().flatten();
        tools.filter_map(|tool| tool.get("reconcile")?.get("tool")?.as_str())
    }

    /// The name of the provider that the agent asks.
    #[must_use]
    pub fn provider(&self) -> &str {
        let provider = self.agent.get("model").and_then(|model| model.get("provider")?.as_str());
        provider.unwrap_or(Self::PROVIDER)
    }

    /// The names of the providers that it falls back to.
    #[must_use]
    pub fn fallback_providers(&self) -> Vec<&str> {
        let fallbacks = self.agent.get("model").and_then(|model| model.get("fallbacks")?.as_array());
        fallbacks.into_iter().flatten().filter_map(|one| one.get("provider")?.as_str()).collect()
    }
}
