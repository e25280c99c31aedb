//! The tenant, its keys, its model and its agent.

use serde_json::{Value, json};

use super::ask::{Ask, Caller};
use super::{Settings, Unfit};
use crate::world::kinds::{FIND, ToolKind, kind_of};

/// What a quick tool may take, in milliseconds; the world's late answers take longer.
const QUICK_MS: u64 = 1500;
/// What a slow one may take.
const SLOW_MS: u64 = 8000;

/// A tenant that is set up.
#[derive(Clone, Debug)]
pub(super) struct Desk {
    /// Has the tenant's key.
    pub(super) owner: Caller,
    /// People, each with a key of their own.
    pub(super) people: [Caller; 2],
    pub(super) agent_id: String,
}

/// Sets up a tenant; every request is repeated until it is answered.
pub(super) async fn open(settings: &Settings, operator: &Caller) -> Result<Desk, Unfit> {
    let tenant = json!({"name": format!("desk {}", settings.seed)});
    let tenant =
        created(operator, Ask::post("/v1/tenants", tenant).once(format!("tenant-{}", settings.seed))).await?;
    let path = format!("/v1/tenants/{}/keys", text(&tenant, "id")?);
    let mut keys = Vec::new();
    for scopes in [&["admin"][..], &["runs:read", "runs:write", "approvals:decide"], &["admin"]] {
        let key = created(operator, Ask::post(&path, json!({"name": "desk", "scopes": scopes}))).await?;
        keys.push(operator.with_key(text(&key, "secret")?));
    }
    let [owner, first, second] = <[Caller; 3]>::try_from(keys).map_err(|_| Unfit("three keys".into()))?;
    let provider = json!({"kind": "openai_chat", "base_url": settings.model_url, "api_key": "sk-world"});
    created(&owner, Ask::put("/v1/providers/main", provider)).await?;
    let agent = agent(&settings.tools_url);
    let agent =
        created(&owner, Ask::post("/v1/agents", agent).once(format!("agent-{}", settings.seed))).await?;
    Ok(Desk { agent_id: text(&agent, "id")?.to_owned(), owner, people: [first, second] })
}

async fn created(caller: &Caller, ask: Ask) -> Result<Value, Unfit> {
    let answer = caller.ask(&ask).await.filter(super::ask::Answer::is_ok);
    answer.map(|answer| answer.body).ok_or_else(|| Unfit(format!("{ask:?} was refused")))
}

fn text<'v>(value: &'v Value, name: &str) -> Result<&'v str, Unfit> {
    value[name].as_str().ok_or_else(|| Unfit(format!("no {name} in {value}")))
}

/// The agent: one tool for each thing that can go wrong.
fn agent(tools_url: &str) -> Value {
    let http = |name: &str, changes: Value| http_tool(tools_url, name, changes);
    let found = json!({"tool": FIND, "input": {"token": "{{idempotency_key}}"}});
    let tools = [
        http("look", json!({"parallel_safe": true})),
        http("slow_look", json!({})),
        http("pay", json!({"reconcile": found, "on_uncertain": "ask"})),
        http("ship", json!({"on_uncertain": "ask"})),
        http("slow_ship", json!({"on_uncertain": "ask"})),
        http("mail", json!({"on_uncertain": "ask"})),
        http("note", json!({"on_uncertain": "observe"})),
        http("bill", json!({"on_uncertain": "stop"})),
        http("reserve", json!({"idempotency_key": "reserve:{{input.token}}", "on_uncertain": "observe"})),
        http("refund", json!({"risk": "high", "reconcile": found, "on_uncertain": "ask"})),
        http("poison", json!({"timeout_ms": 120_000})),
        http(FIND, json!({})),
        json!({"name": "confirm", "kind": "client", "side_effect": "none"}),
    ];
    json!({
        "name": "order-desk", "instructions": "You keep the order desk.", "tools": tools,
        "model": {"provider": "main", "model": "m", "timeout_ms": 10_000,
                  "retry": {"max_attempts": 8, "backoff_ms": 50}},
        "budgets": {"max_steps": 60, "max_tokens": 1_000_000, "max_tool_calls": 200, "timeout_ms": 1_800_000},
        "loop_guard": {"max_repeated_calls": 20, "max_repeated_errors": 20},
        "policy": {"max_denials": 20},
    })
}

fn http_tool(tools_url: &str, name: &str, changes: Value) -> Value {
    let ToolKind { writes, dedupes, takes_ms, .. } = kind_of(name).unwrap_or(crate::world::kinds::TOOLS[0]);
    let mut tool = json!({
        "name": name, "kind": "http", "http": {"url": format!("{tools_url}/tool/{name}")},
        "input_schema": {"type": "object", "required": ["token"], "properties": {
            "token": {"type": "string"}, "amount": {"type": "integer"}}},
        "side_effect": if writes { "write" } else { "none" }, "idempotent": dedupes,
        "timeout_ms": if takes_ms.1 > 500 { SLOW_MS } else { QUICK_MS },
        // A read, or a write that dedupes, may be asked for as often as servers die; pay's three are for `not_applied`.
        "retry": {"max_attempts": if dedupes || !writes { 50 } else { 3 }, "backoff_ms": 50},
    });
    if let (Value::Object(tool), Value::Object(changes)) = (&mut tool, changes) {
        tool.extend(changes);
    }
    tool
}
