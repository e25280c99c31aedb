//! The request beside its history: switches, params, thinking, marks.

use answerable_core::message::{Message, Role};
use answerable_core::model::{ModelRequest, Purpose, ToolOffer};
use answerable_core::provider::AnthropicOptions;
use serde_json::{Value, json};

use super::super::request::body;
use super::{call, call_id, extra, message, request, valid};

fn go() -> ModelRequest {
    request(vec![message(1, Role::User, "go")])
}

fn rendered(request: &ModelRequest, options: Value) -> Value {
    let options: AnthropicOptions = serde_json::from_value(options).expect("options");
    let body = body(request, &options);
    valid::check(&body);
    body
}

fn with_params(params: Value) -> ModelRequest {
    ModelRequest { params: params.as_object().expect("params").clone(), ..go() }
}

fn look() -> ToolOffer {
    ToolOffer { name: "look".into(), description: "Looks.".into(), input_schema: json!({}) }
}

#[test]
fn what_is_always_said() {
    let user = json!([{"role": "user", "content": [{"type": "text", "text": "go"}]}]);
    let wanted = json!({"model": "m", "max_tokens": 4096, "messages": user, "stream": true});
    assert_eq!(rendered(&go(), json!({"cache_control": "off"})), wanted);
    let whole = rendered(&go(), json!({"stream": false, "cache_control": "off"}));
    assert_eq!(whole.get("stream"), None);
}

#[test]
fn params_fill_in_and_replace_nothing() {
    let mut request = with_params(
        json!({"model": "x", "messages": [], "tools": [], "system": "x", "stream": false,
        "mcp_servers": [{}], "container": "c", "max_tokens": 77, "temperature": 0.25, "top_k": 4, "metadata": {"user_id": "u"}}),
    );
    let sent = rendered(&request, json!({"cache_control": "off"}));
    let wanted = json!({"model": "m", "max_tokens": 77, "temperature": 0.25, "top_k": 4, "metadata": {"user_id": "u"},
        "stream": true, "messages": sent["messages"]});
    assert_eq!(sent, wanted);
    (request.max_output_tokens, request.temperature) = (Some(40), Some(1.5));
    let sent = rendered(&request, json!({}));
    assert_eq!((&sent["max_tokens"], &sent["temperature"]), (&json!(40), &json!(1.0)));
    assert_eq!(rendered(&request, json!({"temperature": false})).get("temperature"), None);
}

#[test]
fn system_text_stands_at_the_top() {
    let mut request = ModelRequest { system: "Be brief.".into(), ..go() };
    request.messages.insert(0, message(0, Role::System, "Be kind."));
    let sent = rendered(&request, json!({"cache_control": "off"}));
    assert_eq!(sent["system"], json!([{"type": "text", "text": "Be brief.\n\nBe kind."}]));
    assert_eq!(rendered(&go(), json!({})).get("system"), None);
}

#[test]
fn an_answer_schema_natively_or_in_words() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false});
    let other = json!({"type": "json_schema", "schema": {"type": "object", "additionalProperties": false}});
    let mut request = with_params(json!({"output_config": {"effort": "low", "format": other}}));
    request.output_schema = Some(schema.clone());
    let native = rendered(&request, json!({}));
    let wanted = json!({"effort": "low", "format": {"type": "json_schema", "schema": schema}});
    assert_eq!((&native["output_config"], native.get("system")), (&wanted, None));
    let words = rendered(&request, json!({"structured_output": false}));
    assert_eq!(words["output_config"], request.params["output_config"]);
    assert!(words["system"][0]["text"].as_str().is_some_and(|text| text.contains(&schema.to_string())));
    request.params.clear();
    request.output_schema = Some(json!({"type": "array"}));
    let other = rendered(&request, json!({}));
    assert!(other.get("output_config").is_none() && other["system"][0]["text"].is_string());
}

#[test]
fn tools_and_their_choice() {
    let mut request = with_params(json!({"tool_choice": {"type": "any"}}));
    assert_eq!(
        rendered(&request, json!({"parallel_tool_calls": false})).get("tool_choice"),
        None,
        "no tools"
    );
    request.tools = vec![look()];
    let sent = rendered(&request, json!({"parallel_tool_calls": false, "cache_control": "off"}));
    assert_eq!(
        sent["tools"],
        json!([{"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}])
    );
    assert_eq!(sent["tool_choice"], json!({"type": "any", "disable_parallel_tool_use": true}));
    assert_eq!(rendered(&request, json!({"tool_choice": false})).get("tool_choice"), None);
    request.tools.clear();
    request.messages = looped(vec![said(2, 1, None)]);
    let sent = rendered(&request, json!({"cache_control": "off"}));
    assert_eq!((&sent["tools"][0]["name"], &sent["tool_choice"]), (&json!("look"), &json!({"type": "none"})));
}

/// A message that calls once.
fn said(seq: u64, n: u64, thinking: Option<&str>) -> Message {
    let blocks = |thought: &str| json!([{"type": "thinking", "thinking": thought, "signature": "c2ln"}, {"type": "text", "bytes": 3}, {"type": "tool_use"}]);
    let extra = thinking.and_then(|thought| extra(blocks(thought)));
    Message { tool_calls: vec![call(n, "{}")], extra, ..message(seq, Role::Assistant, "hm.") }
}

/// These messages, each with its result; words of the user's before and where a message says so.
fn looped(said: Vec<Message>) -> Vec<Message> {
    let mut out = vec![message(1, Role::User, "go")];
    for message_of_call in said {
        let id = message_of_call.tool_calls.first().map(|call| call.id);
        let seq = message_of_call.seq;
        out.push(message_of_call);
        out.extend(id.map(|id| Message { tool_call_id: Some(id), ..message(seq, Role::Tool, "ok") }));
    }
    out
}

#[test]
fn thinking_with_a_budget_goes_out_where_the_open_row_of_calls_allows_it() {
    let steer = message(9, Role::User, "mind the dog");
    let own = |seq, n| said(seq, n, Some("A"));
    let foreign = |seq, n| said(seq, n, None);
    for (what, history, goes) in [
        ("nothing yet", looped(vec![]), true),
        ("its own", looped(vec![own(2, 1)]), true),
        ("the row goes on without", looped(vec![own(2, 1), foreign(3, 2)]), true),
        ("begun by another", looped(vec![foreign(2, 1)]), false),
        ("begun by another, then its own", looped(vec![foreign(2, 1), own(3, 2)]), false),
        ("words part the row", looped(vec![own(2, 1), steer.clone(), own(3, 2)]), true),
        ("another after words", looped(vec![own(2, 1), steer.clone(), foreign(3, 2)]), false),
        (
            "another long ago",
            looped(vec![foreign(2, 1), message(3, Role::Assistant, "So."), steer.clone()]),
            true,
        ),
        ("words last", looped(vec![foreign(2, 1), steer]), false),
    ] {
        let mut request = with_params(json!({"thinking": {"type": "enabled", "budget_tokens": 2000}}));
        request.temperature = Some(0.5);
        request.messages = history;
        let sent = rendered(&request, json!({}));
        assert_eq!(sent.get("thinking").is_some(), goes, "{what}");
        assert_eq!(sent.get("temperature").is_none(), goes, "{what}");
        assert!(goes || !sent["messages"].to_string().contains("thinking"), "{what}");
    }
}

#[test]
fn other_thinking_goes_out_as_it_is() {
    let thinks = |params: Value, history: Vec<Message>| {
        let request = ModelRequest { temperature: Some(0.5), messages: history, ..with_params(params) };
        let sent = rendered(&request, json!({}));
        (
            sent["thinking"]["type"].clone(),
            sent.get("temperature").is_some(),
            sent["messages"].to_string().contains("c2ln"),
        )
    };
    let own = || looped(vec![said(2, 1, Some("A"))]);
    let adaptive = json!({"thinking": {"type": "adaptive"}});
    assert_eq!(thinks(adaptive.clone(), looped(vec![said(2, 1, None)])), (json!("adaptive"), false, false));
    assert_eq!(thinks(adaptive, own()), (json!("adaptive"), false, true));
    assert_eq!(thinks(json!({"thinking": {"type": "disabled"}}), own()), (json!("disabled"), true, false));
    assert_eq!(thinks(json!({}), own()), (json!(null), true, true), "some think unasked");
}

#[test]
fn a_budget_stays_under_the_cap() {
    for (cap, budget, wanted) in [
        (None, 10_000, Some((14_096, 10_000))),
        (Some(20_000), 10_000, Some((20_000, 10_000))),
        (Some(10_000), 10_000, Some((10_000, 5000))),
        (Some(3000), 10_000, Some((3000, 1500))),
        (Some(2000), 10_000, None),
        (Some(1), 10_000, None),
    ] {
        let mut request = with_params(json!({"thinking": {"type": "enabled", "budget_tokens": budget}}));
        request.max_output_tokens = cap;
        let sent = rendered(&request, json!({}));
        let thinking =
            sent.get("thinking").map(|thinking| thinking["budget_tokens"].as_u64().expect("a budget"));
        assert_eq!(thinking.map(|budget| (sent["max_tokens"].as_u64().expect("a cap"), budget)), wanted);
    }
}

/// Where marks stand: `tools`, `system`, or the message and block.
fn marks(body: &Value) -> Vec<String> {
    let is_marked = |block: &&Value| block.get("cache_control").is_some();
    let top = ["tools", "system"]
        .iter()
        .filter(|name| body[**name].as_array().into_iter().flatten().any(|b| is_marked(&b)));
    let mut out: Vec<String> = top.map(|name| (*name).to_owned()).collect();
    for (at, message) in body["messages"].as_array().expect("messages").iter().enumerate() {
        let blocks = message["content"].as_array().expect("blocks").iter().enumerate();
        out.extend(blocks.filter(|(_, block)| is_marked(block)).map(|(n, _)| format!("{at}.{n}")));
    }
    out
}

#[test]
fn what_is_marked_as_worth_caching() {
    let mut request = go();
    assert_eq!(marks(&rendered(&request, json!({}))), ["0.0"]);
    request.tools = vec![look()];
    assert_eq!(marks(&rendered(&request, json!({}))), ["tools", "0.0"]);
    request.system = "Be brief.".into();
    let before = rendered(&request, json!({"cache_control": "1h"}));
    assert_eq!(before["system"][0]["cache_control"], json!({"type": "ephemeral", "ttl": "1h"}));
    request.messages = looped(vec![said(2, 1, Some("A")), said(3, 2, None), said(4, 3, None)]);
    request.messages.push(Message { tool_call_id: Some(call_id(9)), ..message(5, Role::User, "and?") });
    request.note = Some("Again.".into());
    let sent = rendered(&request, json!({}));
    assert_eq!(marks(&sent), ["system", "4.0", "6.1"], "the note passes, so it is behind the mark");
    assert_eq!(marks(&rendered(&request, json!({"cache_control": "off"}))), [""; 0]);
    request.purpose = Purpose::Summary;
    assert_eq!(marks(&rendered(&request, json!({}))), ["system"], "a summary is asked for once");
}

#[test]
fn a_request_begins_as_the_one_before_it_did() {
    let unmarked = |mut body: Value| {
        for message in body["messages"].as_array_mut().expect("messages") {
            for block in message["content"].as_array_mut().expect("blocks") {
                block.as_object_mut().expect("a block").remove("cache_control");
            }
        }
        body["messages"].as_array().expect("messages").clone()
    };
    let history = looped(vec![said(2, 1, Some("A")), said(3, 2, None), said(4, 3, Some("B"))]);
    let mut before: Vec<Value> = Vec::new();
    for end in [1, 3, 5, 7] {
        let request = ModelRequest {
            messages: history[..end].to_vec(),
            ..with_params(json!({"thinking": {"type": "adaptive"}}))
        };
        let sent = unmarked(rendered(&request, json!({})));
        assert!(sent.starts_with(&before), "{sent:?}");
        before = sent;
    }
}
