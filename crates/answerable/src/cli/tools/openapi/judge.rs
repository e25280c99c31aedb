//! Whether a tool would be taken, as the server judges it when an agent with it is stored.

use answerable_core::agent::{self, AgentSpec};
use answerable_core::registry::Registry;
use serde_json::{Value, json};

use super::Unmapped;

/// Judges a tool.
pub(super) fn accepts(tool: &Value) -> Result<(), Unmapped> {
    let agent = json!({"name": "import", "model": {"provider": "p", "model": "m"}, "tools": [tool]});
    let agent: AgentSpec = serde_json::from_value(agent).map_err(|error| Unmapped(error.to_string()))?;
    let faults = agent::check(&agent);
    let fault = faults.into_iter().next().or_else(|| Registry::compile(agent).err()?.into_iter().next());
    match fault {
        None => Ok(()),
        Some(fault) => {
            let place = fault.pointer.trim_start_matches("/tools/0/").to_owned();
            Err(Unmapped(format!("the tool would be refused: {place}: {}", fault.message)))
        }
    }
}
