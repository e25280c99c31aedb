//! What the policies would say of a call, and why. Nothing runs, and nothing is stored.

mod question;

use answerable_core::agent::AgentSpec;
use answerable_core::catalog::{retaken, with_tools};
use answerable_core::id::{AgentId, RunId, ThreadId};
use answerable_core::json::input_hash;
use answerable_core::permission::Owner;
use answerable_store::{Covered, JudgedRun, TenantTx};
use serde_json::Value;

use self::question::{Given, Question};
use crate::admit;
use crate::agents;
use crate::problem::Problem;
use crate::shapes::policy_check::{Checked, PolicyCheckRequest};
use crate::state::AppState;

/// The run that a call would be of, as far as calls are judged by it.
struct Subject {
    agent: AgentSpec,
    of: Covered,
    context: Value,
    run_policy: Option<Given>,
    creators: Vec<String>,
}

/// Explains what would be said of a call of a run that `asker` started.
pub(crate) async fn checked(
    state: &AppState,
    tx: &mut TenantTx,
    mut body: PolicyCheckRequest,
    asker: Vec<String>,
) -> Result<Checked, Problem> {
    let tenants_own = tenants_own(tx, body.tenant_policy.take()).await?;
    let subject = subject(state, tx, &mut body, asker).await?;
    let (tool_name, input) = (body.tool_name, Value::Object(body.input));
    let input_hash = input_hash(&input);
    let (grants, grants_known) = tx.grants_of_tool(subject.of, &tool_name, &input_hash).await?;
    let question = Question {
        agent: subject.agent,
        others: [tenants_own, subject.run_policy],
        tool_name,
        input,
        input_hash,
        context: subject.context,
        creators: subject.creators,
        grants,
        grants_known,
        now: state.store.clock().now(),
    };
    // Schemas are compiled and matched for as long as they take: not where others wait.
    let answering = tokio::task::spawn_blocking(move || question.answer());
    answering.await.map_err(|error| Problem::internal(format!("a check of policies: {error}")))?
}

/// The tenant's policy: the one that is tried, or its own as it is now.
async fn tenants_own(tx: &mut TenantTx, tried: Option<Value>) -> Result<Option<Given>, Problem> {
    if let Some(policy) = tried {
        return Ok(Some(Given::tried(policy, Owner::Tenant, "/tenant_policy")));
    }
    let row = tx.policy_row().await?;
    Ok(row.map(|row| Given::stored(row.policy, Owner::Tenant, Some(row.version))))
}

async fn subject(
    state: &AppState,
    tx: &mut TenantTx,
    body: &mut PolicyCheckRequest,
    asker: Vec<String>,
) -> Result<Subject, Problem> {
    let run = run(tx, body.run_id.as_deref()).await?;
    let thread = match &body.thread_id {
        Some(thread) => Some(thread_named(tx, thread).await?),
        None => run.as_ref().and_then(|(_, run)| run.thread_id),
    };
    let (agent, agent_id) = agent(state, tx, body, run.as_ref().map(|(_, run)| run)).await?;
    let of = Covered { run: run.as_ref().map(|(id, _)| id.0), thread, agent: agent_id };
    let run = run.map(|(_, run)| run);
    let context = match body.context.take() {
        Some(context) => admit::context(context)?,
        None => run.as_ref().map_or_else(|| serde_json::json!({}), |run| run.context.clone()),
    };
    let creators = body.creators.take().or_else(|| Some(run.as_ref()?.creators.clone())).unwrap_or(asker);
    let run_policy = match body.policy.take() {
        Some(policy) => Some(Given::tried(policy, Owner::Run, "/policy")),
        None => run.and_then(|run| run.policy).map(|policy| Given::stored(policy, Owner::Run, None)),
    };
    Ok(Subject { agent, of, context, run_policy, creators })
}

async fn run(tx: &mut TenantTx, run_id: Option<&str>) -> Result<Option<(RunId, JudgedRun)>, Problem> {
    let Some(run_id) = run_id else { return Ok(None) };
    let unknown = || Problem::invalid_at("/run_id", "there is no such run");
    let run_id: RunId = run_id.parse().map_err(|_| unknown())?;
    let run = tx.judged_run(run_id).await?.ok_or_else(unknown)?;
    Ok(Some((run_id, run)))
}

async fn thread_named(tx: &mut TenantTx, thread: &str) -> Result<uuid::Uuid, Problem> {
    let unknown = || Problem::invalid_at("/thread_id", "there is no such thread");
    let thread: ThreadId = thread.parse().map_err(|_| unknown())?;
    tx.thread_fetch(thread).await?.map(|_| thread.0).ok_or_else(unknown)
}

/// The agent and, if it is a stored one, its id: the one that is named or given, otherwise the run's. What servers listed for
/// the run counts for another agent, too, as far as that one takes it.
async fn agent(
    state: &AppState,
    tx: &mut TenantTx,
    body: &mut PolicyCheckRequest,
    run: Option<&JudgedRun>,
) -> Result<(AgentSpec, Option<uuid::Uuid>), Problem> {
    let (spec, id) = match body.agent.take() {
        None => {
            let run = run.ok_or_else(|| Problem::invalid_at("/agent", "an agent or a run is needed"))?;
            return Ok((run.agent.clone(), run.agent_id));
        }
        Some(Value::String(id)) => {
            let (id, spec) = stored_agent(tx, &id, body.agent_version).await?;
            (spec, Some(id))
        }
        Some(agent) => (agents::read_spec(state, tx, agent, "/agent").await?, None),
    };
    let listed = run.map_or_else(Vec::new, |run| retaken(&spec, &run.agent.tools));
    Ok((with_tools(&spec, &listed), id))
}

async fn stored_agent(
    tx: &mut TenantTx,
    id: &str,
    version: Option<i32>,
) -> Result<(uuid::Uuid, AgentSpec), Problem> {
    let unknown = || Problem::invalid_at("/agent", "there is no such agent");
    let id: AgentId = id.parse().map_err(|_| unknown())?;
    let missing = || Problem::invalid_at("/agent_version", "the agent has no such version");
    let newest = tx.agent_fetch(id, None).await?.ok_or_else(unknown)?;
    let row = match version {
        Some(_) => tx.agent_fetch(id, version).await?.ok_or_else(missing)?,
        None => newest,
    };
    let spec = serde_json::from_value(row.spec).map_err(|error| Problem::internal(error.to_string()))?;
    Ok((id.0, spec))
}
