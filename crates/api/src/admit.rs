//! What a request for a run must be, beyond its shape, and what is made of it.

use answerable_core::agent::AgentSpec;
use answerable_core::budget::{self, BudgetPatch, Budgets};
use answerable_core::id::{AgentId, RunId, ThreadId};
use answerable_core::permission::Owner;
use answerable_core::run::version_of;
use answerable_store::{Counted, NewRun, RunRefused, TenantTx};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::agents;
use crate::given;
use crate::policies;
use crate::problem::Problem;
use crate::shapes::runs::RunCreate;
use crate::state::AppState;
use crate::trace_parent::TraceParent;

/// Bytes that a run's context may have.
const MAX_CONTEXT: usize = 256 * 1024;

/// Who asks, and what they may.
pub(crate) struct Asker {
    /// Who.
    pub(crate) who: String,
    /// All who count as having started the run.
    pub(crate) creators: Vec<String>,
    /// They may raise limits above the agent's.
    pub(crate) is_admin: bool,
}

/// The agent that a run is of.
struct Pinned {
    agent: Option<(AgentId, i32)>,
    spec_hash: String,
    budgets: Budgets,
    /// What it needs of servers.
    needs: u16,
}

/// Looks at a request for a run.
pub(crate) async fn admit(
    state: &AppState,
    tx: &mut TenantTx,
    body: RunCreate,
    asker: Asker,
    caller: TraceParent,
) -> Result<NewRun, Problem> {
    let context = context(body.context.clone())?;
    let thread_id = match &body.thread_id {
        Some(text) => Some(text.parse::<ThreadId>().map_err(|_| unknown_thread())?),
        None => None,
    };
    let pinned = pin(state, tx, &body).await?;
    if let Some(policy) = &body.policy {
        policies::read(policy, Owner::Run, "/policy")?;
    }
    Ok(NewRun {
        run_id: RunId(Uuid::now_v7()),
        agent: pinned.agent,
        spec_hash: pinned.spec_hash,
        thread_id,
        on_busy: body.on_busy(),
        budgets: allowed(&pinned.budgets, &body.budgets, asker.is_admin)?,
        messages: given::input(state, &body.input)?,
        context,
        metadata: Value::Object(body.metadata),
        trace: caller.context(tx).await?,
        created_by: asker.who,
        creators: asker.creators,
        policy: body.policy,
        priority: body.priority,
        not_before: body.not_before,
        deadline: body.deadline,
        concurrency_key: body.concurrency_key,
        schedule: None,
        origin: None,
        depth: 0,
        needs: pinned.needs,
    })
}

/// A run's context, if it is small enough.
pub(crate) fn context(context: Map<String, Value>) -> Result<Value, Problem> {
    let context = Value::Object(context);
    if context.to_string().len() > MAX_CONTEXT {
        return Err(Problem::invalid_at("/context", format!("has at most {MAX_CONTEXT} bytes")));
    }
    Ok(context)
}

async fn pin(state: &AppState, tx: &mut TenantTx, body: &RunCreate) -> Result<Pinned, Problem> {
    if let Some(agent) = &body.agent {
        let spec = agents::read_spec(state, tx, agent.clone(), "/agent").await?;
        let spec_hash = tx.agent_spec_put(&spec).await?;
        let needs = version_of(&spec);
        return Ok(Pinned { agent: None, spec_hash, budgets: spec.budgets, needs });
    }
    let unknown = || Problem::invalid_at("/agent_id", "there is no such agent");
    let text = body.agent_id.as_deref().unwrap_or_default();
    let agent_id: AgentId = text.parse().map_err(|_| unknown())?;
    let newest = tx.agent_fetch(agent_id, None).await?.ok_or_else(unknown)?;
    if newest.archived_at.is_some() {
        return Err(Problem::invalid_at("/agent_id", "the agent is archived"));
    }
    let row = match body.agent_version {
        None => newest,
        Some(version) => {
            let missing = || Problem::invalid_at("/agent_version", "the agent has no such version");
            tx.agent_fetch(agent_id, Some(version)).await?.ok_or_else(missing)?
        }
    };
    let spec: AgentSpec =
        serde_json::from_value(row.spec).map_err(|error| Problem::internal(error.to_string()))?;
    let (agent, needs) = (Some((agent_id, row.version)), version_of(&spec));
    Ok(Pinned { agent, spec_hash: row.spec_hash, budgets: spec.budgets, needs })
}

/// The run's limits: the agent's with the request's changes, which only an admin's may raise.
fn allowed(agent: &Budgets, patch: &BudgetPatch, is_admin: bool) -> Result<Budgets, Problem> {
    let wanted = patch.apply(agent);
    let above = budget::raised(agent, &wanted);
    if !is_admin && !above.is_empty() {
        return Err(above_agent(&above));
    }
    Ok(wanted)
}

/// Limits above the agent's are an admin's.
pub(crate) fn above_agent(names: &[&str]) -> Problem {
    Problem::forbidden(format!(
        "Only a key with admin may raise limits above the agent's: {}.",
        names.join(", ")
    ))
}

fn unknown_thread() -> Problem {
    Problem::invalid_at("/thread_id", "there is no such thread")
}

/// One more of something that a tenant may have a limited number of.
pub(crate) async fn room_for(tx: &mut TenantTx, of: Counted) -> Result<(), Problem> {
    tx.room_for(of, 1).await?.map_err(Problem::full)
}

/// Why the store didn't accept it.
pub(crate) fn refused(refused: RunRefused) -> Problem {
    match refused {
        RunRefused::Input(fault) => Problem::invalid(vec![fault.under("/input")]),
        RunRefused::UnknownThread => unknown_thread(),
        RunRefused::ThreadBusy => Problem::conflict("Another run of this thread has not ended."),
        RunRefused::QueueFull => Problem::quota_exceeded("The queue is full (max_queued_runs).", 2),
        RunRefused::TokensUsedUp(left) => {
            Problem::quota_exceeded("The tokens of the day are used up (max_tokens_per_day).", left.as_secs())
        }
        RunRefused::MoneyUsedUp(left) => Problem::quota_exceeded(
            "The money of the day is used up (max_cost_microusd_per_day).",
            left.as_secs(),
        ),
        RunRefused::Full(full) => Problem::full(full),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_lowered_by_anyone_and_raised_by_admins() {
        let agent = Budgets { max_steps: 5, ..Budgets::default() };
        let patch = |steps| BudgetPatch { max_steps: Some(steps), ..BudgetPatch::default() };
        assert_eq!(allowed(&agent, &patch(2), false).expect("lower").max_steps, 2);
        assert_eq!(allowed(&agent, &patch(6), false).expect_err("higher").status(), 403);
        assert_eq!(allowed(&agent, &patch(6), true).expect("an admin").max_steps, 6);
        let no_limit = BudgetPatch { max_cost_microusd: Some(None), ..BudgetPatch::default() };
        assert!(allowed(&Budgets { max_cost_microusd: Some(1), ..agent }, &no_limit, false).is_err());
    }
}
