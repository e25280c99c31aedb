//! The request's body.

use answerable_core::model::{ModelRequest, ToolOffer};
use answerable_core::provider::{OpenAiResponsesOptions, StructuredOutput};
use serde_json::{Map, Value, json};

use super::input;
use crate::{strict_schema, system_text, tool_schema};

/// Fields that the runtime alone sets, whether it does or not: the history is told whole, waited for, and kept nowhere else.
const OWN: [&str; 9] = [
    "model",
    "instructions",
    "input",
    "tools",
    "stream",
    "store",
    "previous_response_id",
    "conversation",
    "background",
];
/// The least cap that the vendor takes.
const LEAST_CAP: u64 = 16;
/// Asks for reasoning that can be sent back.
const SEALED_REASONING: &str = "reasoning.encrypted_content";

/// The body of a request under the provider's switches. `params` of the agent fill in what is not set here.
pub(super) fn body(request: &ModelRequest, options: &OpenAiResponsesOptions) -> Value {
    let mut body = Map::new();
    let mut set = |name: &str, value: Value| body.insert(name.into(), value);
    set("model", request.model.as_str().into());
    set("store", false.into());
    let mut items = input::items(request, options);
    let system = system(request, options);
    if !system.trim().is_empty() && wants_object(request, options) {
        // Only in the input the vendor finds the word JSON, without which it asks for none.
        items.insert(0, input::said("system", system.into()));
    } else if !system.trim().is_empty() {
        set("instructions", system.into());
    }
    set("input", items.into());
    if !request.tools.is_empty() {
        set("tools", request.tools.iter().map(|offer| tool(offer, options.strict_tools)).collect());
        options.parallel_tool_calls.map(|parallel| set("parallel_tool_calls", parallel.into()));
    }
    if let Some(temperature) = request.temperature.filter(|_| options.temperature) {
        set("temperature", json!(temperature));
    }
    if let Some(cap) = request.max_output_tokens {
        set("max_output_tokens", cap.max(LEAST_CAP).into());
    }
    if let Some(format) = format(request, options) {
        set("text", json!({"format": format}));
    }
    if options.send_reasoning {
        set("include", json!([SEALED_REASONING]));
    }
    if options.stream {
        set("stream", true.into());
    }
    add_params(&mut body, request, options);
    Value::Object(body)
}

fn add_params(body: &mut Map<String, Value>, request: &ModelRequest, options: &OpenAiResponsesOptions) {
    for (name, value) in &request.params {
        let is_own = match name.as_str() {
            // Some servers know no tool choice, and none takes it without tools.
            "tool_choice" => !options.tool_choice || request.tools.is_empty(),
            "parallel_tool_calls" => request.tools.is_empty(),
            "stream_options" => !options.stream,
            name => OWN.contains(&name),
        };
        if is_own {
            continue;
        }
        match (body.get_mut(name), value) {
            (None, value) => {
                body.insert(name.clone(), value.clone());
            }
            // How much the model is to say stands beside the form.
            (Some(Value::Object(own)), Value::Object(more)) if name == "text" => {
                for (name, value) in more {
                    own.entry(name.clone()).or_insert_with(|| value.clone());
                }
            }
            (Some(Value::Array(own)), Value::Array(more)) if name == "include" => {
                let new: Vec<Value> = more.iter().filter(|value| !own.contains(value)).cloned().collect();
                own.extend(new);
            }
            _ => {}
        }
    }
}

/// The schema as the wire tells it natively: only of an object.
fn native_schema<'r>(request: &'r ModelRequest, options: &OpenAiResponsesOptions) -> Option<&'r Value> {
    let schema = request.output_schema.as_ref()?;
    let is_native = options.structured_output == StructuredOutput::JsonSchema && schema["type"] == "object";
    is_native.then_some(schema)
}

/// The answer is to be a JSON object, whose schema is told in words.
fn wants_object(request: &ModelRequest, options: &OpenAiResponsesOptions) -> bool {
    let is_object = request.output_schema.as_ref().is_some_and(|schema| schema["type"] == "object");
    is_object && options.structured_output == StructuredOutput::JsonObject
}

fn format(request: &ModelRequest, options: &OpenAiResponsesOptions) -> Option<Value> {
    match native_schema(request, options) {
        Some(schema) => {
            let is_strict = strict_schema::fits(schema);
            Some(json!({"type": "json_schema", "name": "answer", "schema": schema, "strict": is_strict}))
        }
        None => wants_object(request, options).then(|| json!({"type": "json_object"})),
    }
}

fn system(request: &ModelRequest, options: &OpenAiResponsesOptions) -> String {
    match &request.output_schema {
        Some(schema) if native_schema(request, options).is_none() => {
            system_text::with_schema(&request.system, schema)
        }
        _ => request.system.clone(),
    }
}

/// A tool. Where nothing is said of it, the vendor takes it for strict.
fn tool(offer: &ToolOffer, may_be_strict: bool) -> Value {
    let (parameters, words) = tool_schema::of(&offer.input_schema);
    let is_strict = may_be_strict && words.is_none() && strict_schema::fits(&parameters);
    let mut tool =
        json!({"type": "function", "name": offer.name, "parameters": parameters, "strict": is_strict});
    let description = tool_schema::described(&offer.description, words);
    if !description.trim().is_empty() {
        tool["description"] = description.into();
    }
    tool
}

#[cfg(test)]
mod tests;
