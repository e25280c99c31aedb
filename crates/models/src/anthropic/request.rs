//! The request's body.

use answerable_core::message::Role;
use answerable_core::model::{ModelRequest, Purpose};
use answerable_core::provider::AnthropicOptions;
use serde_json::{Map, Value, json};

use super::turns::{self, Turn};
use super::{answer_schema, cache, thinking, tools};
use crate::system_text;

/// Fields that the runtime alone sets, whether it does or not. With the last two the provider would run tools by itself,
/// which nobody has allowed.
const OWN: [&str; 10] = [
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "temperature",
    "stream",
    "mcp_servers",
    "container",
];
/// Most tokens of a reply where nobody says: the wire wants it said.
const DEFAULT_CAP: u64 = 4096;

/// The body of a request under the provider's switches. `params` of the agent fill in what is not set here.
pub(super) fn body(request: &ModelRequest, options: &AnthropicOptions) -> Value {
    let asked = request.params.get("thinking").unwrap_or(&Value::Null);
    let cap = cap(request, asked);
    let schema = request.output_schema.as_ref();
    let native = schema.filter(|_| options.structured_output).and_then(answer_schema::of_answer);
    let mut system = system(request, native.is_some());
    let (mut tools, may_be_called) = tools::of_request(request);
    let mut turns = turns::of_history(request, options);
    let thinking = thinking::of_request(asked, cap, &mut turns);
    if let Some(mark) = cache::mark(options.cache_control) {
        // Tools come first on the wire, so a mark on the system text covers both.
        cache::set(system.last_mut().or(tools.last_mut()), &mark);
        // What is summed up is shown but once.
        if request.purpose == Purpose::Turn {
            cache::set_in_turns(&mut turns, &mark);
        }
    }
    turns::end(&mut turns, request.note.as_deref());
    let temperature = temperature(request, options).filter(|_| !thinks(thinking.as_ref()));
    let choice = request.params.get("tool_choice").filter(|_| options.tool_choice);
    let choice =
        tools::choice(choice, may_be_called, options.parallel_tool_calls).filter(|_| !tools.is_empty());
    let fields = [
        ("model", Some(request.model.as_str().into())),
        ("max_tokens", Some(cap.into())),
        ("system", (!system.is_empty()).then(|| system.into())),
        ("messages", Some(turns.into_iter().map(Turn::into_message).collect())),
        ("tools", (!tools.is_empty()).then(|| tools.into())),
        ("tool_choice", choice),
        ("thinking", thinking),
        ("temperature", temperature),
        ("output_config", native.map(|schema| output_config(request, schema))),
        ("stream", options.stream.then_some(Value::Bool(true))),
    ];
    let set = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    with_params(set.collect(), request)
}

fn with_params(mut body: Map<String, Value>, request: &ModelRequest) -> Value {
    for (name, value) in &request.params {
        if !OWN.contains(&name.as_str()) && !body.contains_key(name) {
            body.insert(name.clone(), value.clone());
        }
    }
    Value::Object(body)
}

/// Most tokens of the reply, thinking included.
fn cap(request: &ModelRequest, thinking: &Value) -> u64 {
    let of_params = || request.params.get("max_tokens").and_then(Value::as_u64).filter(|cap| *cap > 0);
    let asked = request.max_output_tokens.or_else(of_params);
    asked.unwrap_or_else(|| DEFAULT_CAP.saturating_add(thinking::budget(thinking).unwrap_or(0)))
}

/// The instructions, what the history has of the kind, and the schema of the answer where the wire can't tell it.
fn system(request: &ModelRequest, is_native: bool) -> Vec<Value> {
    let later = request.messages.iter().filter(|message| message.role == Role::System);
    let texts = [request.system.as_str()].into_iter().chain(later.map(|message| message.content.as_str()));
    let texts: Vec<&str> = texts.filter(|text| !text.trim().is_empty()).collect();
    let text = texts.join("\n\n");
    let text = match &request.output_schema {
        Some(schema) if !is_native => system_text::with_schema(&text, schema),
        _ => text,
    };
    super::kept::text_block(&text).into_iter().collect()
}

/// The sampling temperature, within what the vendor takes.
fn temperature(request: &ModelRequest, options: &AnthropicOptions) -> Option<Value> {
    if !options.temperature {
        return None;
    }
    let set = request.temperature.map(|temperature| json!(temperature.min(1.0)));
    set.or_else(|| request.params.get("temperature").cloned())
}

/// A model that thinks takes no temperature.
fn thinks(thinking: Option<&Value>) -> bool {
    thinking.is_some_and(|thinking| thinking["type"] != "disabled")
}

/// The schema, among what else `params` say of the output.
fn output_config(request: &ModelRequest, schema: Value) -> Value {
    let mut config =
        request.params.get("output_config").and_then(Value::as_object).cloned().unwrap_or_default();
    config.insert("format".into(), json!({"type": "json_schema", "schema": schema}));
    Value::Object(config)
}
