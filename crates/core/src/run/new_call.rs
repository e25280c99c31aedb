//! A call of a reply, made ready for the state machine: its key, and the gate's verdict where it is legal.

use std::collections::BTreeMap;

use serde_json::Value;

use super::event::NewCall;
use crate::id::{CallId, MessageId};
use crate::json::sha256_hex;
use crate::permission::Judgement;
use crate::registry::{Registry, Validation};
use crate::reply::ReadCall;
use crate::template::{Filling, Template, TemplateError};

/// Longest key that goes into a header as it is.
const MAX_KEY: usize = 255;

impl NewCall {
    /// A call that was read. `gate` judges it, if it is legal; `message_id` is for the message that will hold its result, if
    /// it is to stand in the history.
    pub fn of(
        registry: &Registry,
        context: &Value,
        call: ReadCall,
        message_id: MessageId,
        gate: impl FnOnce(&ReadCall) -> Judgement,
    ) -> Self {
        let own = || (call.id.to_string(), false);
        let key = idempotency_key(registry, context, &call.tool_name, &call.input, call.id);
        let (validation, message, key) = match (call.validation, key) {
            (Validation::Ok, Err(error)) => {
                let message = format!("The call's idempotency key can't be made: {error}.");
                (Validation::SchemaViolation, Some(message), own())
            }
            (validation, key) => (validation, call.message.clone(), key.unwrap_or_else(|_| own())),
        };
        Self {
            judgement: (validation == Validation::Ok).then(|| gate(&call)),
            id: call.id,
            model_call_id: call.model_call_id,
            tool_name: call.tool_name,
            input: call.input,
            input_hash: call.input_hash,
            validation,
            message,
            idempotency_key: key,
            message_id: (!call.left_out).then_some(message_id),
        }
    }
}

/// The key of a call, and whether it is the agent's own (contract, "Business keys"). What can't stand in a header goes as
/// its hash.
///
/// # Errors
/// The agent's template asks for something that isn't there.
pub fn idempotency_key(
    registry: &Registry,
    context: &Value,
    tool_name: &str,
    input: &Value,
    call_id: CallId,
) -> Result<(String, bool), TemplateError> {
    let Some(template) = registry.tool(tool_name).and_then(|tool| tool.idempotency_key.as_deref()) else {
        return Ok((call_id.to_string(), false));
    };
    let secrets = BTreeMap::new();
    let with = Filling { input, context, secrets: &secrets, idempotency_key: "" };
    let key = Template::parse(template)?.fill(&with, str::to_owned)?;
    let fits =
        !key.is_empty() && key.len() <= MAX_KEY && key.bytes().all(|byte| (0x21..0x7f).contains(&byte));
    Ok((if fits { key } else { sha256_hex(key.as_bytes()) }, true))
}
