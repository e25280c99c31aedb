//! The request's body.

use answerable_core::message::{Message, MessageCall, Role};
use answerable_core::model::{ModelRequest, ToolOffer};
use serde_json::{Map, Value, json};

use super::WIRE;

/// Fields that the runtime alone sets, whether it does or not.
const OWN: [&str; 5] = ["model", "messages", "tools", "stream", "stream_options"];

/// The body of a request under the provider's switches. `params` of the agent fill in what is not set here.
pub(super) fn body(request: &ModelRequest, options: &Map<String, Value>) -> Value {
    let is_on = |name: &str, otherwise: bool| options.get(name).and_then(Value::as_bool).unwrap_or(otherwise);
    let word = |name: &str, otherwise: &'static str| {
        options.get(name).and_then(Value::as_str).unwrap_or(otherwise).to_owned()
    };
    let mut body = Map::new();
    body.insert("model".into(), request.model.as_str().into());
    let messages = messages(request, &word("system_role", "system"), is_on("send_reasoning", false));
    body.insert("messages".into(), messages.into());
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.iter().map(tool).collect());
        if let Some(parallel) = options.get("parallel_tool_calls").and_then(Value::as_bool) {
            body.insert("parallel_tool_calls".into(), parallel.into());
        }
    }
    if let Some(temperature) = request.temperature {
        body.insert("temperature".into(), json!(temperature));
    }
    if let Some(cap) = request.max_output_tokens {
        body.insert(word("max_tokens_field", "max_tokens"), cap.into());
    }
    if is_on("stream", true) {
        body.insert("stream".into(), true.into());
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    for (name, value) in &request.params {
        if !OWN.contains(&name.as_str()) && !body.contains_key(name) {
            body.insert(name.clone(), value.clone());
        }
    }
    Value::Object(body)
}

fn messages(request: &ModelRequest, system_role: &str, sends_extra: bool) -> Vec<Value> {
    let system =
        (!request.system.is_empty()).then(|| json!({"role": system_role, "content": request.system}));
    let note = request.note.as_ref().map(|note| json!({"role": "user", "content": note}));
    let history = request.messages.iter().filter_map(|message| match message.role {
        Role::System => Some(json!({"role": system_role, "content": message.content})),
        Role::User => Some(json!({"role": "user", "content": message.content})),
        Role::Tool => {
            let id = message.tool_call_id?.to_string();
            Some(json!({"role": "tool", "tool_call_id": id, "content": message.content}))
        }
        Role::Assistant => assistant(message, sends_extra.then_some(request)),
    });
    system.into_iter().chain(history).chain(note).collect()
}

/// An assistant's message; one that says nothing is none. Unknown fields go back to whom they came from alone.
fn assistant(message: &Message, back_to: Option<&ModelRequest>) -> Option<Value> {
    if message.content.is_empty() && message.tool_calls.is_empty() {
        return None;
    }
    let content = if message.content.is_empty() { Value::Null } else { message.content.as_str().into() };
    let mut out = Map::from_iter([("role".into(), "assistant".into()), ("content".into(), content)]);
    if !message.tool_calls.is_empty() {
        out.insert("tool_calls".into(), message.tool_calls.iter().map(call).collect());
    }
    if let (Some(request), Some(extra)) = (back_to, &message.extra)
        && (extra.wire.as_str(), &extra.provider, &extra.model) == (WIRE, &request.provider, &request.model)
    {
        for (name, value) in &extra.fields {
            out.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    Some(Value::Object(out))
}

fn call(call: &MessageCall) -> Value {
    let function = json!({"name": call.name, "arguments": call.arguments});
    json!({"id": call.id.to_string(), "type": "function", "function": function})
}

fn tool(offer: &ToolOffer) -> Value {
    let mut parameters = offer.input_schema.clone();
    if let Value::Object(schema) = &mut parameters {
        // Providers want it said; every input is an object anyway.
        schema.entry("type").or_insert_with(|| "object".into());
    }
    let mut function = json!({"name": offer.name, "parameters": parameters});
    if !offer.description.is_empty() {
        function["description"] = offer.description.as_str().into();
    }
    json!({"type": "function", "function": function})
}

#[cfg(test)]
mod tests {
    use super::*;
    use answerable_core::id::{CallId, MessageId};
    use answerable_core::message::ProviderExtra;
    use uuid::Uuid;

    const CALL: CallId = CallId(Uuid::from_u128(5));

    fn message(role: Role, content: &str) -> Message {
        Message {
            id: MessageId(Uuid::from_u128(1)),
            seq: 1,
            role,
            content: content.into(),
            tool_calls: vec![],
            tool_call_id: None,
            step: None,
            extra: None,
        }
    }

    fn calling(content: &str) -> Message {
        let extra = ProviderExtra {
            provider: "main".into(),
            model: "m".into(),
            wire: WIRE.into(),
            fields: json!({"reasoning_content": "hm \u{fffd}", "content": "no"})
                .as_object()
                .expect("fields")
                .clone(),
        };
        let call =
            MessageCall { id: CALL, name: "look".into(), arguments: r#"{"n":12345678901234567890}"#.into() };
        Message { tool_calls: vec![call], extra: Some(extra), ..message(Role::Assistant, content) }
    }

    fn request(messages: Vec<Message>) -> ModelRequest {
        ModelRequest {
            model: "m".into(),
            provider: "main".into(),
            system: "Be brief.".into(),
            messages,
            note: None,
            tools: vec![],
            temperature: None,
            max_output_tokens: None,
            params: Map::new(),
            turn: 0,
            traceparent: None,
        }
    }

    fn rendered(request: &ModelRequest, options: Value) -> Value {
        body(request, options.as_object().expect("options"))
    }

    #[test]
    fn a_whole_history() {
        let result = Message { tool_call_id: Some(CALL), ..message(Role::Tool, "seen") };
        let mut request =
            request(vec![message(Role::User, "go"), calling(""), result, message(Role::Assistant, "")]);
        request.note = Some("Again, please.".into());
        let call = json!({"id": CALL.to_string(), "type": "function",
            "function": {"name": "look", "arguments": r#"{"n":12345678901234567890}"#}});
        let wanted = json!({"model": "m", "stream": true, "stream_options": {"include_usage": true}, "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": CALL.to_string(), "content": "seen"},
            {"role": "user", "content": "Again, please."}]});
        assert_eq!(rendered(&request, json!({})), wanted);
        request.system.clear();
        assert_eq!(rendered(&request, json!({}))["messages"][0]["role"], "user");
    }

    #[test]
    fn switches_and_params() {
        let mut request = request(vec![message(Role::User, "go")]);
        let schema = json!({"properties": {"n": {"type": "integer"}}});
        request.tools =
            vec![ToolOffer { name: "look".into(), description: String::new(), input_schema: schema }];
        request.temperature = Some(0.5);
        request.max_output_tokens = Some(40);
        let params = json!({"model": "x", "messages": [], "tools": [], "stream": true, "stream_options": {},
            "temperature": 1, "max_completion_tokens": 9, "top_p": 0.25});
        request.params = params.as_object().expect("params").clone();
        let options = json!({"stream": false, "system_role": "developer", "parallel_tool_calls": false,
            "max_tokens_field": "max_completion_tokens"});
        let wanted = json!({"model": "m", "temperature": 0.5, "max_completion_tokens": 40,
            "top_p": params["top_p"], "parallel_tool_calls": false,
            "messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "go"}],
            "tools": [{"type": "function", "function": {"name": "look",
                "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}}]});
        assert_eq!(rendered(&request, options), wanted);
    }

    #[test]
    fn unknown_fields_go_back_just_so_or_not_at_all() {
        let mut request = request(vec![calling("Looking.")]);
        let sends = json!({"send_reasoning": true});
        let back = |request: &ModelRequest, options: &Value| {
            rendered(request, options.clone())["messages"][1].clone()
        };
        assert_eq!(back(&request, &json!({})).get("reasoning_content"), None);
        assert_eq!(back(&request, &sends)["reasoning_content"], "hm \u{fffd}");
        assert_eq!(back(&request, &sends)["content"], "Looking.");
        request.model = "other".into();
        assert_eq!(back(&request, &sends).get("reasoning_content"), None);
    }
}
