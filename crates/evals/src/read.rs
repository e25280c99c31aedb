//! Reading a case.

use serde_json::Value;

use crate::case::{Case, Model, Tools};
use crate::{export, yaml};

/// Why a text is no case: what is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub(crate) String);

/// The form of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// YAML.
    Yaml,
    /// JSON, whose numbers keep all their digits.
    Json,
}

/// Reads a case; `name` is that of one that has none of its own.
///
/// # Errors
/// What is no case's: a key that is not known, a value of the wrong kind, something that contradicts something else.
pub fn read(text: &str, form: Form, name: &str) -> Result<Case, Unreadable> {
    let written: Value = match form {
        Form::Yaml => yaml::to_json(text).map_err(Unreadable)?,
        Form::Json => serde_json::from_str(text).map_err(|fault| Unreadable(fault.to_string()))?,
    };
    from_value(written, name)
}

/// The same of what was read already.
pub(crate) fn from_value(written: Value, name: &str) -> Result<Case, Unreadable> {
    let mut case: Case =
        serde_path_to_error::deserialize(written).map_err(|fault| Unreadable(fault.to_string()))?;
    if case.name.is_empty() {
        name.clone_into(&mut case.name);
    }
    judge(&case).map_err(Unreadable)?;
    if case.expect.is_none() {
        case.expect = Some(export::expected(&case).map_err(Unreadable)?);
    }
    case.put_words();
    case.repeat_steers();
    Ok(case)
}

/// What no single value can be told by.
fn judge(case: &Case) -> Result<(), String> {
    if case.object.as_deref().is_some_and(|object| object != "eval_case") {
        return Err("object: a case is an eval_case".to_owned());
    }
    if let Some(version) = case.version.filter(|version| *version != 1) {
        return Err(format!("version: {version} is not known; this program knows 1"));
    }
    match &case.input {
        Value::String(text) if !text.is_empty() => {}
        Value::Array(messages) if !messages.is_empty() => {}
        _ if case.is_heir() => {
            return Err(
                "input: the run stands on another one and was given no word: make a case of that one"
                    .to_owned(),
            );
        }
        _ => return Err("input: a text is needed, or a list of messages".to_owned()),
    }
    if matches!(&case.model, Model::Replies(replies) if replies.is_empty()) {
        return Err("model: at least one reply is needed".to_owned());
    }
    scripted_tools_exist(case)?;
    fallbacks_exist(case)
}

/// A script for a tool that the agent doesn't have is a slip of the pen.
fn scripted_tools_exist(case: &Case) -> Result<(), String> {
    let Tools::Scripted(scripts) = &case.tools else { return Ok(()) };
    match scripts.keys().find(|name| !case.tool_names().any(|known| known == name.as_str())) {
        Some(name) => Err(format!("tools.{name}: the agent has no such tool")),
        None => Ok(()),
    }
}

fn fallbacks_exist(case: &Case) -> Result<(), String> {
    let named = case.fallback_providers();
    match case.fallbacks.keys().find(|name| !named.contains(&name.as_str())) {
        Some(name) => Err(format!("fallbacks.{name}: the agent's model has no fallback at this provider")),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
