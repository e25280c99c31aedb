//! What servers say of their tools' nature: for people to look at. Nothing goes by it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::{Risk, SideEffect, ToolSpec};

/// A tool of which its server says something else than the agent: for people to look at, nothing goes by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suggested {
    /// `SERVER__TOOL`.
    pub tool: String,
    /// What the server's words come to.
    pub nature: Nature,
}

/// What a tool is by its server's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nature {
    /// As [`ToolSpec::risk`].
    pub risk: Risk,
    /// As [`ToolSpec::side_effect`].
    pub side_effect: SideEffect,
    /// As [`ToolSpec::idempotent`].
    pub idempotent: bool,
}

/// What a tool's annotations suggest; `None`: they say nothing of its nature.
pub fn nature(annotations: &Value) -> Option<Nature> {
    let hint = |name: &str| annotations.get(name).and_then(Value::as_bool);
    let (reads, destroys, again) = (hint("readOnlyHint"), hint("destructiveHint"), hint("idempotentHint"));
    if [reads, destroys, again].iter().all(Option::is_none) {
        return None;
    }
    if reads == Some(true) {
        return Some(Nature { risk: Risk::Low, side_effect: SideEffect::None, idempotent: false });
    }
    // A tool that writes is taken to destroy unless its server says that it doesn't.
    let risk = if destroys == Some(false) { Risk::Medium } else { Risk::High };
    Some(Nature { risk, side_effect: SideEffect::Write, idempotent: again == Some(true) })
}

impl Nature {
    /// What an agent says of a tool.
    pub(super) fn of(tool: &ToolSpec) -> Self {
        Self { risk: tool.risk, side_effect: tool.side_effect, idempotent: tool.idempotent }
    }
}
