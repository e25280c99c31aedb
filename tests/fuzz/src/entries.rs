//! What is fed to each parser of outside input, and what must hold whatever that is. The fuzz targets call these, and so does
//! a test of `answerable-models` over mutated seeds.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::LazyLock;

use answerable_core::FieldError;
use answerable_core::id::{CallId, MessageId};
use answerable_core::message::{Message, MessageCall, ProviderExtra, Role};
use answerable_core::model::{ModelReply, ModelRequest, ToolOffer};
use answerable_core::registry::Registry;
use answerable_core::reply::{self, Reading, ReplyKind};
use answerable_core::schema::{Effort, Schema};
use answerable_core::template::{Filling, Template};
use answerable_core::workspace::{FilePath, MAX_PATH_BYTES, read_prefix};
use answerable_core::{input as core_input, json as core_json, provider};
use answerable_models::fuzzing;
use answerable_ports::ModelTarget;
use serde_json::{Map, Value, json as value};
use uuid::Uuid;

use crate::valid;

/// A secret of the provider, which no reply may show.
const SECRET: &str = "sk-secret-1";
/// More bytes only take longer.
const MOST: usize = 1 << 16;
/// Pieces that bytes come in.
const SIZES: [usize; 3] = [1, 7, 100];

/// Server-sent events are the same in whatever pieces they come.
pub fn events(data: &[u8]) {
    let data = &data[..data.len().min(MOST)];
    let whole = fuzzing::events(data, usize::MAX);
    for size in SIZES {
        assert_eq!(fuzzing::events(data, size), whole, "in pieces of {size}");
    }
}

/// As of [`answer`].
pub fn chat(data: &[u8]) {
    answer("openai_chat", data);
}

/// As of [`answer`].
pub fn responses(data: &[u8]) {
    answer("openai_responses", data);
}

/// As of [`answer`].
pub fn messages(data: &[u8]) {
    answer("anthropic", data);
}

/// An answer comes to the same in whatever pieces, shows no secrets, is fit for storage, and what it becomes in the history
/// is accepted on every wire.
fn answer(wire: &str, data: &[u8]) {
    let data = &data[..data.len().min(MOST)];
    let (target, request) = (target(), request());
    let read = |size| fuzzing::reply(wire, &target, &request, data, size);
    let came = read(usize::MAX);
    for size in SIZES {
        assert_eq!(read(size), came, "in pieces of {size}");
    }
    match came {
        Ok(reply) => check_reply(wire, &reply, &request),
        Err(failure) => assert!(!failure.message.contains(SECRET), "{failure:?}"),
    }
}

fn check_reply(wire: &str, reply: &ModelReply, request: &ModelRequest) {
    let shown = serde_json::to_string(reply).expect("JSON");
    assert!(!shown.contains(SECRET), "{shown}");
    let stored = value!([reply.text, reply.finish_reason, reply.extra]);
    assert_eq!(core_json::find_unfit(&stored), None, "{stored}");
    let mut ids = 0;
    let reading = reply::read(&REGISTRY, reply, 9, None, || {
        ids += 1;
        CallId(Uuid::from_u128(ids))
    });
    if matches!(reading.kind, ReplyKind::Calls | ReplyKind::Final) {
        let request = next(wire, &reading, &reply.extra, request);
        for other in fuzzing::WIRES {
            valid::check(other, &fuzzing::body(other, &request, &Map::new()), wire);
        }
    }
}

/// The history after a reply, as the core makes it.
fn next(wire: &str, reading: &Reading, extra: &Map<String, Value>, request: &ModelRequest) -> ModelRequest {
    let kept = reading.calls.iter().filter(|call| !call.left_out);
    let tool_calls: Vec<MessageCall> = kept
        .map(|call| MessageCall {
            id: call.id,
            name: reply::legal_name(&call.tool_name),
            arguments: call.input.to_string(),
        })
        .collect();
    let results: Vec<Message> = tool_calls
        .iter()
        .map(|call| Message { tool_call_id: Some(call.id), ..message(Role::Tool, "done") })
        .collect();
    let text = if reading.text.trim().is_empty() { "" } else { &reading.text };
    let said =
        Message { tool_calls, extra: Some(kept_of(wire, extra.clone())), ..message(Role::Assistant, text) };
    let mut request = request.clone();
    request.messages.push(said);
    request.messages.extend(results);
    request
}

/// Refusals say what they mean without secrets, whatever their body is.
pub fn refusal(data: &[u8]) {
    let data = &data[..data.len().min(MOST)];
    for status in [307, 400, 401, 413, 429, 500] {
        let failure = fuzzing::refusal(&target(), &request(), status, data);
        assert!(!failure.message.contains(SECRET) && failure.message.chars().count() < 1000, "{failure:?}");
        assert_eq!(core_json::find_unfit(&failure.message.into()), None);
    }
}

/// JSON is parsed without loss, mended, and written in one canonical form.
pub fn json(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(&data[..data.len().min(MOST)]) else { return };
    let Ok(parsed) = core_json::parse(text) else { return };
    let again = core_json::parse(&parsed.to_string()).expect("what was written is read");
    assert_eq!(again, parsed);
    let _ = core_json::find_unfit(&parsed);
    let clean = core_json::clean(parsed);
    assert_eq!(core_json::find_unfit(&clean), None);
    let canonical = core_json::canonical(&clean);
    let read = core_json::parse(&canonical).expect("the canonical form is JSON");
    assert_eq!(core_json::canonical(&read), canonical);
    assert_eq!(core_json::input_hash(&read), core_json::input_hash(&clean));
}

/// Templates are read or refused, and what they are filled with is never read as one.
pub fn template(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(&data[..data.len().min(MOST)]) else { return };
    let Ok(template) = Template::parse(text) else { return };
    assert!(template.slots().count() <= text.matches("{{").count());
    let (input, context) = (value!({"a": "{{secret.x}}", "b": [1.50]}), value!({"a": true}));
    let secrets: BTreeMap<String, String> =
        template.secrets().map(|name| (name.to_owned(), SECRET.into())).collect();
    let with = Filling { input: &input, context: &context, secrets: &secrets, idempotency_key: "k" };
    if let Ok(filled) = template.fill(&with, str::to_owned) {
        let is_plain = template.slots().next().is_none();
        assert!(!is_plain || filled == text, "text without places stays as it is");
        assert!(template.secrets().next().is_some() || !filled.contains(SECRET) || text.contains(SECRET));
    }
}

/// A run's input is read or refused, with the place of what is wrong.
pub fn input(data: &[u8]) {
    let Some(value) = parsed(data) else { return };
    match core_input::read_input(&value) {
        Ok(messages) => assert!(messages.len() <= core_input::MAX_MESSAGES),
        Err(fault) => assert!(fault.pointer.is_empty() || fault.pointer.starts_with('/'), "{fault:?}"),
    }
    if let Err(fault) = core_input::read_content(&value) {
        assert!(fault.pointer.is_empty() || fault.pointer.starts_with('/'), "{fault:?}");
    }
}

/// A provider's switches are read or refused; with those that are taken, requests are what their wire accepts.
pub fn options(data: &[u8]) {
    let Some(Value::Object(options)) = parsed(data) else { return };
    for wire in fuzzing::WIRES {
        if provider::check_options(wire, &options).is_ok() {
            valid::check(wire, &fuzzing::body(wire, &request(), &options), wire);
        }
    }
}

/// Whatever was kept of a reply, a request is made of it.
pub fn kept(data: &[u8]) {
    let Some(Value::Object(fields)) = parsed(data) else { return };
    for wire in fuzzing::WIRES {
        let mut request = request();
        let call = MessageCall { id: CallId(Uuid::from_u128(1)), name: "pay".into(), arguments: "{}".into() };
        let said = Message { tool_calls: vec![call.clone()], ..message(Role::Assistant, "Höh. Hi.") };
        request.messages.push(Message { extra: Some(kept_of(wire, fields.clone())), ..said });
        request.messages.push(Message { tool_call_id: Some(call.id), ..message(Role::Tool, "done") });
        let body = fuzzing::body(
            wire,
            &request,
            &value!({"send_reasoning": true}).as_object().cloned().unwrap_or_default(),
        );
        let told = body.to_string();
        assert!(told.contains("Höh.") && told.contains("done"), "{wire} {told}");
    }
}

/// A schema from outside is compiled or refused, and what is judged by it comes to an end, with the places of what is wrong.
/// Fed with a schema, or with a list of one and values to judge.
pub fn schema(data: &[u8]) {
    let Some(value) = parsed(data) else { return };
    let (schema, instances) = match value {
        Value::Array(mut items) if !items.is_empty() => (items.remove(0), items),
        schema => (schema.clone(), vec![schema]),
    };
    let is_place = |fault: &FieldError| {
        assert!(fault.pointer.is_empty() || fault.pointer.starts_with('/'), "{fault:?}");
        assert!(!fault.message.is_empty() && fault.message.chars().count() <= 400, "{fault:?}");
    };
    match Schema::compile(&schema) {
        Err(fault) => is_place(&fault),
        Ok(schema) => {
            for instance in &instances {
                let findings = schema.findings(instance, &Effort::of_one());
                findings.iter().for_each(is_place);
                assert!(
                    findings.iter().all(|fault| instance.pointer(&fault.pointer).is_some()),
                    "{findings:?}"
                );
                assert_eq!(schema.fits(instance), findings.is_empty(), "{findings:?}");
            }
        }
    }
}

/// Whatever is a path of a workspace's file leads to one place below its root, and is read back the same.
pub fn paths(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(&data[..data.len().min(MOST)]) else { return };
    if let Ok(prefix) = read_prefix(text) {
        assert!(!prefix.starts_with('/') && !prefix.contains(['\\', '\0', '\n']), "{prefix:?}");
    }
    let Ok(path) = FilePath::parse(text) else { return };
    let plain = path.as_str();
    assert_eq!(FilePath::parse(plain).as_ref(), Ok(&path));
    assert_eq!(FilePath::parse(&format!("/{plain}")).as_ref(), Ok(&path));
    assert!(plain.len() <= MAX_PATH_BYTES && text.ends_with(plain), "{plain:?}");
    let names = Path::new(plain).components().map(|part| match part {
        Component::Normal(name) => name.to_str().expect("it was text"),
        other => panic!("{other:?} in {plain:?}"),
    });
    assert_eq!(names.collect::<Vec<_>>().join("/"), plain, "no other spelling of it");
    for folder in path.folders() {
        assert!(plain.starts_with(folder) && FilePath::parse(folder).is_ok(), "{folder:?} of {plain:?}");
    }
}

fn parsed(data: &[u8]) -> Option<Value> {
    core_json::parse(std::str::from_utf8(&data[..data.len().min(MOST)]).ok()?).ok()
}

fn message(role: Role, text: &str) -> Message {
    Message::text(MessageId(Uuid::nil()), 1, role, text)
}

fn kept_of(wire: &str, fields: Map<String, Value>) -> ProviderExtra {
    ProviderExtra { provider: "main".into(), model: "m".into(), wire: wire.into(), fields }
}

fn target() -> ModelTarget {
    ModelTarget { name: "main".into(), api_key: Some(SECRET.into()), ..ModelTarget::default() }
}

fn request() -> ModelRequest {
    let schema = value!({"properties": {"to": {"type": "string"}}});
    ModelRequest {
        model: "m".into(),
        provider: "main".into(),
        system: "Be brief.".into(),
        messages: vec![message(Role::User, "go")],
        tools: vec![ToolOffer { name: "pay".into(), description: "Pays.".into(), input_schema: schema }],
        max_output_tokens: Some(900),
        ..ModelRequest::default()
    }
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let tools = value!([{"name": "pay", "kind": "client"}]);
    let spec = value!({"name": "a", "model": {"provider": "p", "model": "m"}, "tools": tools});
    Registry::compile(serde_json::from_value(spec).expect("an agent")).expect("compiles")
});
