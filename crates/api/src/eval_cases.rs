//! A run as an eval case: what its journal tells, and how it ended.

use std::collections::BTreeMap;

use answerable_core::eval_case::{Source, eval_case};
use answerable_core::id::{AgentId, ArtifactId, RunId};
use answerable_core::registry::Registry;
use answerable_core::reply::legal_name;
use answerable_core::run::MAX_RECOVERIES;
use answerable_store::{LedgerRecord, Recorded};
use serde_json::{Value, json};

use crate::problem::Problem;
use crate::shapes::agents;
use crate::shapes::runs::Run;
use crate::state::Heavy;

/// What a case is made of.
pub(crate) struct Case {
    pub(crate) run_id: RunId,
    pub(crate) recorded: Recorded,
    pub(crate) run: Run,
    pub(crate) ledger: Vec<LedgerRecord>,
    /// Hashes of the artifacts that people sent to the run.
    pub(crate) hashes: BTreeMap<ArtifactId, String>,
}

/// The case, made off the threads that serve others; `turn` is held as long as that takes.
pub(crate) async fn made(case: Case, turn: Heavy) -> Result<Value, Problem> {
    let making = tokio::task::spawn_blocking(move || {
        let made = case.made();
        drop(turn);
        made
    });
    making.await.map_err(|error| Problem::internal(format!("an export broke: {error}")))?
}

impl Case {
    fn made(self) -> Result<Value, Problem> {
        let registry = Registry::compile(self.recorded.agent()?)
            .map_err(|faults| Problem::internal(format!("a stored agent: {faults:?}")))?;
        let begin = &self.recorded.begin;
        let agent = Value::Object(agents::shown(begin.spec.clone()));
        let mut case = eval_case(&Source {
            registry: &registry,
            agent: &agent,
            context: &begin.context,
            policy: begin.policy.as_ref(),
            max_recoveries: MAX_RECOVERIES,
            first: &begin.first,
            inputs: &begin.inputs,
            hashes: &self.hashes,
            journal: &self.recorded.journal,
        });
        case["object"] = json!("eval_case");
        case["version"] = json!(1);
        case["name"] = json!(self.run_id);
        case["run_id"] = json!(self.run_id);
        case["agent_id"] = json!(begin.agent.map(|(id, _)| AgentId(id)));
        case["agent_version"] = json!(begin.agent.map(|(_, version)| version));
        case["outcome"] = self.outcome()?;
        Ok(case)
    }

    fn outcome(&self) -> Result<Value, Problem> {
        let run = serde_json::to_value(&self.run).map_err(|error| Problem::internal(error.to_string()))?;
        let entry = |entry: &LedgerRecord| {
            json!({"tool_name": legal_name(&entry.tool_name), "input_hash": entry.input_hash, "status": entry.status,
                "side_effect": entry.side_effect, "attempts": entry.attempts})
        };
        Ok(json!({
            "status": run["status"], "stop_reason": run["stop_reason"], "final_answer": run["final_answer"],
            "error": run["error"], "used": run["budgets"]["used"], "denied": run["denied"],
            "ledger": self.ledger.iter().map(entry).collect::<Vec<_>>(),
        }))
    }
}
