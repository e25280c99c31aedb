//! The request's body.

use answerable_core::model::{ModelRequest, ToolOffer};
use answerable_core::provider::{MaxTokensField, OpenAiChatOptions, StructuredOutput};
use serde_json::{Map, Value, json};

use super::history;
use crate::{strict_schema, system_text, tool_schema};

/// Fields that the runtime alone sets, whether it does or not.
const OWN: [&str; 5] = ["model", "messages", "tools", "stream", "stream_options"];

/// The body of a request under the provider's switches. `params` of the agent fill in what is not set here.
pub(super) fn body(request: &ModelRequest, options: &OpenAiChatOptions) -> Value {
    let mut body = Map::new();
    let mut set = |name: &str, value: Value| body.insert(name.into(), value);
    set("model", request.model.as_str().into());
    set("messages", history::messages(request, &system(request, options), options).into());
    if !request.tools.is_empty() {
        set("tools", request.tools.iter().map(|offer| tool(offer, options.strict_tools)).collect());
        options.parallel_tool_calls.map(|parallel| set("parallel_tool_calls", parallel.into()));
    }
    if let Some(temperature) = request.temperature.filter(|_| options.temperature) {
        set("temperature", json!(temperature));
    }
    if let Some(cap) = request.max_output_tokens {
        let field = match options.max_tokens_field {
            MaxTokensField::MaxTokens => "max_tokens",
            MaxTokensField::MaxCompletionTokens => "max_completion_tokens",
        };
        set(field, cap.into());
    }
    if let Some(format) = response_format(request, options) {
        set("response_format", format);
    }
    if options.stream {
        set("stream", true.into());
        if options.stream_usage {
            set("stream_options", json!({"include_usage": true}));
        }
    }
    add_params(&mut body, request, options);
    Value::Object(body)
}

fn add_params(body: &mut Map<String, Value>, request: &ModelRequest, options: &OpenAiChatOptions) {
    let has_tools = !request.tools.is_empty();
    for (name, value) in &request.params {
        let is_out = match name.as_str() {
            // Some servers know no tool choice, and none takes it without tools.
            "tool_choice" => !(has_tools && options.tool_choice),
            "parallel_tool_calls" => !has_tools,
            // Two caps are refused.
            "max_tokens" | "max_completion_tokens" => request.max_output_tokens.is_some(),
            name => OWN.contains(&name),
        };
        if !is_out && !body.contains_key(name) {
            body.insert(name.clone(), value.clone());
        }
    }
}

/// The schema as the wire tells it natively: only of an object.
fn native_schema<'r>(request: &'r ModelRequest, options: &OpenAiChatOptions) -> Option<&'r Value> {
    let schema = request.output_schema.as_ref()?;
    let is_native = options.structured_output == StructuredOutput::JsonSchema && schema["type"] == "object";
    is_native.then_some(schema)
}

fn response_format(request: &ModelRequest, options: &OpenAiChatOptions) -> Option<Value> {
    let schema = request.output_schema.as_ref()?;
    if let Some(schema) = native_schema(request, options) {
        let format = json!({"name": "answer", "schema": schema, "strict": strict_schema::fits(schema)});
        return Some(json!({"type": "json_schema", "json_schema": format}));
    }
    let is_object = options.structured_output == StructuredOutput::JsonObject && schema["type"] == "object";
    is_object.then(|| json!({"type": "json_object"}))
}

fn system(request: &ModelRequest, options: &OpenAiChatOptions) -> String {
    match &request.output_schema {
        Some(schema) if native_schema(request, options).is_none() => {
            system_text::with_schema(&request.system, schema)
        }
        _ => request.system.clone(),
    }
}

fn tool(offer: &ToolOffer, may_be_strict: bool) -> Value {
    let (parameters, words) = tool_schema::of(&offer.input_schema);
    // What had to be left out can't be kept to strictly.
    let is_strict = may_be_strict && words.is_none() && strict_schema::fits(&parameters);
    let description = tool_schema::described(&offer.description, words);
    let mut function = json!({"name": offer.name, "parameters": parameters});
    if !description.trim().is_empty() {
        function["description"] = description.into();
    }
    if is_strict {
        function["strict"] = true.into();
    }
    json!({"type": "function", "function": function})
}

#[cfg(test)]
mod tests;
