//! A call and all that it is judged by, as it was found; the judging itself asks nobody.

use answerable_core::Millis;
use answerable_core::agent::{AgentSpec, ToolSpec};
use answerable_core::permission::{
    CallFacts, CompiledPolicy, ExplainedGrant, ExplainedPolicy, Explanation, Gap, Grant, Judgement, Owner,
    Policies, explain,
};
use answerable_core::registry::Registry;
use answerable_core::schema::Effort;
use serde_json::Value;

use crate::policies;
use crate::problem::Problem;
use crate::shapes::policy_check::Checked;

/// Most remembered approvals that are told of though they don't cover the call.
const MOST_OTHERS: usize = 100;

/// A policy as it was found.
pub(super) struct Given {
    policy: Value,
    owner: Owner,
    place: Place,
}

enum Place {
    /// It stands there in the request.
    Tried(&'static str),
    /// It is in force, under a number if it has one.
    Stored(Option<i32>),
}

/// A policy ready to judge, or what is told of one that can't.
type Judge = Result<CompiledPolicy, Box<ExplainedPolicy>>;

impl Given {
    pub(super) fn tried(policy: Value, owner: Owner, at: &'static str) -> Self {
        Self { policy, owner, place: Place::Tried(at) }
    }

    pub(super) fn stored(policy: Value, owner: Owner, number: Option<i32>) -> Self {
        Self { policy, owner, place: Place::Stored(number) }
    }

    fn compile(self) -> Result<Judge, Problem> {
        let owner = self.owner;
        let number = match self.place {
            Place::Tried(at) => return Ok(Ok(policies::read(&self.policy, owner, at)?)),
            Place::Stored(number) => number,
        };
        let judge = policies::stored(self.policy, owner);
        Ok(match (judge, number) {
            (Ok(policy), Some(number)) => Ok(policy.numbered(number)),
            (Ok(policy), None) => Ok(policy),
            (Err(fault), number) => {
                let version = number.map(|number| number.to_string()).unwrap_or_default();
                Err(Box::new(ExplainedPolicy::broken(owner, version, fault)))
            }
        })
    }
}

/// A call, and all that it is judged by.
pub(super) struct Question {
    pub(super) agent: AgentSpec,
    /// The tenant's policy and the run's.
    pub(super) others: [Option<Given>; 2],
    pub(super) tool_name: String,
    pub(super) input: Value,
    pub(super) input_hash: String,
    pub(super) context: Value,
    pub(super) creators: Vec<String>,
    /// All that may cover it, and some that don't.
    pub(super) grants: Vec<Grant>,
    /// How many there are.
    pub(super) grants_known: usize,
    pub(super) now: Millis,
}

impl Question {
    /// Judges, and tells why.
    pub(super) fn answer(self) -> Result<Checked, Problem> {
        let [tenant, run] = self.others;
        let others = [tenant.map(Given::compile).transpose()?, run.map(Given::compile).transpose()?];
        let registry = Registry::compile(self.agent)
            .map_err(|faults| Problem::internal(format!("a stored agent: {faults:?}")))?;
        let tool = registry.tool(&self.tool_name).ok_or_else(|| no_tool(&registry.spec, &self.tool_name))?;
        let call = CallFacts {
            tool_name: &self.tool_name,
            risk: tool.risk,
            input: &self.input,
            input_hash: &self.input_hash,
            context: &self.context,
            creators: &self.creators,
            effort: &Effort::of_reply(),
        };
        let mut told = told(&registry.policy, &others, &call, |policies| {
            explain(policies, &self.grants, &call, self.now)
        });
        told.grants = some(told.grants);
        let left_out = self.grants_known.saturating_sub(told.grants.len());
        let version = registry.tool_version(&self.tool_name).unwrap_or_default();
        Ok(Checked::new(&call, version, registry.findings(&self.tool_name, &self.input), told, left_out))
    }
}

/// Those that cover the call, and so many others.
fn some(grants: Vec<ExplainedGrant>) -> Vec<ExplainedGrant> {
    let mut others = 0;
    let is_told = |grant: &ExplainedGrant| {
        others += usize::from(!grant.covers);
        grant.covers || others <= MOST_OTHERS
    };
    grants.into_iter().filter(is_told).collect()
}

fn no_tool(agent: &AgentSpec, tool_name: &str) -> Problem {
    let server = tool_name.split_once("__").map(|(server, _)| server);
    let is_listed = |server: &&str| agent.mcp.iter().any(|entry| entry.server == *server);
    if let Some(server) = server.filter(is_listed) {
        let words = "is not known yet: tools of the MCP server";
        let words = format!("{words} {server} are listed when a run begins; name one that has it in run_id");
        return Problem::invalid_at("/tool_name", words);
    }
    let names: Vec<&str> = agent.tools.iter().map(|tool: &ToolSpec| tool.name.as_str()).collect();
    Problem::invalid_at("/tool_name", format!("the agent has no such tool; it has: {}", names.join(", ")))
}

/// What all policies say. One that can't be judged denies, whatever the others say.
fn told<'a>(
    agent: &'a CompiledPolicy,
    others: &'a [Option<Judge>; 2],
    call: &CallFacts<'_>,
    explained: impl FnOnce(Policies<'a>) -> Explanation,
) -> Explanation {
    let [tenant, run] = others;
    let sound = |judge: &'a Option<Judge>| judge.as_ref().and_then(|judge| judge.as_ref().ok());
    let told = explained(Policies { agent, tenant: sound(tenant), run: sound(run) });
    if others.iter().flatten().all(Result::is_ok) {
        return told;
    }
    let shown = |judge: &Judge| match judge {
        Ok(policy) => policy.explain(call),
        Err(broken) => ExplainedPolicy::clone(broken),
    };
    let grants = told.grants.into_iter();
    Explanation {
        judgement: Judgement::denied("a policy can't be judged"),
        policies: std::iter::once(agent.explain(call)).chain(others.iter().flatten().map(shown)).collect(),
        grants: grants.map(|grant| grant.unusable(Gap::Denied)).collect(),
    }
}
