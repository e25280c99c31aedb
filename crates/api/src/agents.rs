//! An agent as it comes in a request, stored or inline: what the document's schemas can't judge is judged here.

use answerable_core::agent::{self, AgentSpec, ToolKind};
use answerable_core::registry::Registry;
use answerable_core::{FieldError, field_error};
use answerable_store::TenantTx;
use serde_json::{Map, Value};

use crate::problem::Problem;
use crate::state::{AppState, ShellRule};

/// Reads an agent that stands at `prefix` of a body which fits the document.
///
/// # Errors
/// 422 with every fault of the first kind that it has: its sense, its schemas and policy, its addresses, and what it names:
/// providers, agents, MCP servers.
pub(crate) async fn read_spec(
    state: &AppState,
    tx: &mut TenantTx,
    value: Value,
    prefix: &str,
) -> Result<AgentSpec, Problem> {
    let refuse = |faults: Vec<FieldError>| {
        Problem::invalid(faults.into_iter().map(|fault| fault.under(prefix)).collect())
    };
    let spec: AgentSpec = field_error::read(with_defaults(value)).map_err(|fault| refuse(vec![fault]))?;
    let faults = agent::check(&spec);
    if !faults.is_empty() {
        return Err(refuse(faults));
    }
    // Schemas are compiled for as long as they take: not where others wait.
    let compiled = tokio::task::spawn_blocking(move || Registry::compile(spec)).await;
    let compiled = compiled.map_err(|error| Problem::internal(format!("an agent's schemas: {error}")))?;
    let spec = compiled.map_err(refuse)?.spec;
    let faults = [
        address_faults(state, &spec),
        shell_faults(&state.config.shell, &spec),
        provider_faults(tx, &spec).await?,
        agent_faults(tx, &spec).await?,
        mcp_faults(tx, &spec).await?,
    ]
    .concat();
    if faults.is_empty() { Ok(spec) } else { Err(refuse(faults)) }
}

/// Tokens of a reply where nobody says.
const DEFAULT_CAP: u64 = 1024;
/// Most tokens of thinking that are added to that.
const MOST_THINKING: u64 = 1_000_000;

/// Defaults of the document that the core's types leave open.
pub(crate) fn with_defaults(mut agent: Value) -> Value {
    let default = |object: Option<&mut Map<String, Value>>, name: &str, value: Value| {
        if let Some(object) = object {
            object.entry(name).or_insert(value);
        }
    };
    default(agent["model"].as_object_mut(), "temperature", 0.into());
    let cap = default_cap(&agent["model"]["params"]);
    default(agent["model"].as_object_mut(), "max_output_tokens", cap);
    agent
}

/// The cap of a reply that the document promises: a cap among `params` is one, too, and thinking that has a budget of its
/// own gets room beside the answer.
fn default_cap(params: &Value) -> Value {
    let told = ["max_completion_tokens", "max_tokens", "max_output_tokens"]
        .iter()
        .find_map(|name| params[name].as_u64());
    let thinking = params["thinking"]["budget_tokens"].as_u64().unwrap_or(0).min(MOST_THINKING);
    told.filter(|cap| *cap > 0).unwrap_or(DEFAULT_CAP + thinking).into()
}

fn address_faults(state: &AppState, spec: &AgentSpec) -> Vec<FieldError> {
    let tools = spec.tools.iter().enumerate().filter(|(_, tool)| tool.kind == ToolKind::Http);
    let fault = |(i, tool): (usize, &agent::ToolSpec)| {
        let words = state.config.addresses.refusal(&tool.http.as_ref()?.url)?;
        Some(FieldError::new(format!("/tools/{i}/http/url"), words))
    };
    tools.filter_map(fault).collect()
}

/// Commands that it asks for are run here, with what it gives them.
fn shell_faults(rule: &ShellRule, spec: &AgentSpec) -> Vec<FieldError> {
    let mut faults = Vec::new();
    for (i, tool) in spec.tools.iter().enumerate().filter(|(_, tool)| tool.kind == ToolKind::Shell) {
        let given = tool.shell.clone().unwrap_or_default();
        let mut fault = |field: &str, words: String| {
            faults.push(FieldError::new(format!("/tools/{i}/{field}"), words));
        };
        if let Some(why) = &rule.refusal {
            fault("kind", format!("this server runs no commands: {why}"));
        }
        if given.network && !rule.network {
            fault("shell/network", "this server lets no command reach the network".into());
        }
        if given.memory_mb > rule.memory_mb {
            fault("shell/memory_mb", format!("this server gives a command at most {} MiB", rule.memory_mb));
        }
    }
    faults
}

async fn provider_faults(tx: &mut TenantTx, spec: &AgentSpec) -> Result<Vec<FieldError>, Problem> {
    let mut named = vec![("/model/provider".to_owned(), spec.model.provider.clone())];
    for (i, fallback) in spec.model.fallbacks.iter().enumerate() {
        named.push((format!("/model/fallbacks/{i}/provider"), fallback.provider.clone()));
    }
    let names: Vec<String> = named.iter().map(|(_, name)| name.clone()).collect();
    let missing = tx.providers_missing(&names).await?;
    let faults = named.into_iter().filter(|(_, name)| missing.contains(name));
    Ok(faults.map(|(pointer, _)| FieldError::new(pointer, "there is no such provider")).collect())
}

/// Agents that its tools call are there, and may be called.
async fn agent_faults(tx: &mut TenantTx, spec: &AgentSpec) -> Result<Vec<FieldError>, Problem> {
    let mut faults = Vec::new();
    for (i, tool) in spec.tools.iter().enumerate() {
        let Some(called) = &tool.agent else { continue };
        let version = called.agent_version.map(|version| i32::try_from(version).unwrap_or(i32::MAX));
        let (field, words) = match tx.agent_fetch(called.agent_id, None).await? {
            None => ("agent_id", "there is no such agent"),
            Some(newest) if newest.archived_at.is_some() => ("agent_id", "the agent is archived"),
            Some(newest) if version.is_some_and(|version| version > newest.version) => {
                ("agent_version", "the agent has no such version")
            }
            Some(_) => continue,
        };
        faults.push(FieldError::new(format!("/tools/{i}/agent/{field}"), words));
    }
    Ok(faults)
}

/// MCP servers that it takes tools from are there.
async fn mcp_faults(tx: &mut TenantTx, spec: &AgentSpec) -> Result<Vec<FieldError>, Problem> {
    if spec.mcp.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<String> = spec.mcp.iter().map(|entry| entry.server.clone()).collect();
    let missing = tx.mcp_servers_missing(&names).await?;
    let faults = names.iter().enumerate().filter(|(_, name)| missing.contains(name));
    let fault = |i| FieldError::new(format!("/mcp/{i}/server"), "there is no such MCP server");
    Ok(faults.map(|(i, _)| fault(i)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_left_out_has_the_documents_defaults() {
        let agent = with_defaults(json!({"model": {"temperature": null}}));
        assert_eq!(agent["model"], json!({"temperature": null, "max_output_tokens": 1024}));
        for (params, cap) in [
            (json!({"top_p": 1}), 1024),
            (json!({"max_tokens": 300}), 300),
            (json!({"max_completion_tokens": 0}), 1024),
            (json!({"thinking": {"type": "enabled", "budget_tokens": 2000}}), 3024),
            (json!({"thinking": {"type": "adaptive"}}), 1024),
        ] {
            let agent = with_defaults(json!({"model": {"params": params}}));
            assert_eq!(agent["model"]["max_output_tokens"], cap, "{params}");
        }
    }

    #[test]
    fn commands_are_judged_by_what_this_server_runs() {
        let shell = json!({"network": true, "memory_mb": 2048});
        let agent =
            with_defaults(json!({"name": "a", "instructions": "", "model": {"provider": "p", "model": "m"},
            "tools": [{"name": "run_command", "kind": "shell", "shell": shell}]}));
        let spec: AgentSpec = field_error::read(agent).expect("an agent");
        let rule = |refusal: Option<&str>, network, memory_mb| ShellRule {
            refusal: refusal.map(str::to_owned),
            network,
            memory_mb,
        };
        let at = |rule: &ShellRule| -> Vec<String> {
            shell_faults(rule, &spec).into_iter().map(|fault| fault.pointer).collect()
        };
        assert_eq!(at(&rule(None, true, 2048)), [""; 0]);
        assert_eq!(at(&rule(None, false, 2048)), ["/tools/0/shell/network"]);
        assert_eq!(at(&rule(None, true, 2047)), ["/tools/0/shell/memory_mb"]);
        assert_eq!(at(&rule(Some("no bwrap"), true, 2048)), ["/tools/0/kind"]);
    }
}
