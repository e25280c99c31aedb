//! An agent as it comes in a request, stored or inline: what the document's schemas can't judge is judged here.

use answerable_core::agent::{self, AgentSpec, ToolKind};
use answerable_core::registry::Registry;
use answerable_core::{FieldError, field_error};
use answerable_store::TenantTx;
use serde_json::{Map, Value};

use crate::problem::Problem;
use crate::state::AppState;

/// Reads an agent that stands at `prefix` of a body which fits the document.
///
/// # Errors
/// 422 with every fault of the first kind that it has: its sense, its schemas and policy, its addresses, its providers.
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
    let spec = Registry::compile(spec).map_err(refuse)?.spec;
    let faults = [address_faults(state, &spec), provider_faults(tx, &spec).await?].concat();
    if faults.is_empty() { Ok(spec) } else { Err(refuse(faults)) }
}

/// Tokens of a reply where nobody says.
const DEFAULT_CAP: u64 = 1024;
/// Most tokens of thinking that are added to that.
const MOST_THINKING: u64 = 1_000_000;

/// Defaults of the document that the core's types leave open.
fn with_defaults(mut agent: Value) -> Value {
    let default = |object: Option<&mut Map<String, Value>>, name: &str, value: Value| {
        if let Some(object) = object {
            object.entry(name).or_insert(value);
        }
    };
    default(agent["model"].as_object_mut(), "temperature", 0.into());
    let cap = default_cap(&agent["model"]["params"]);
    default(agent["model"].as_object_mut(), "max_output_tokens", cap);
    for tool in agent.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten() {
        default(tool.as_object_mut(), "kind", "http".into());
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_left_out_has_the_documents_defaults() {
        let agent = with_defaults(
            json!({"model": {"temperature": null}, "tools": [{"name": "a"}, {"kind": "client"}]}),
        );
        assert_eq!(agent["model"], json!({"temperature": null, "max_output_tokens": 1024}));
        assert_eq!(agent["tools"], json!([{"name": "a", "kind": "http"}, {"kind": "client"}]));
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
}
