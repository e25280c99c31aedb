//! The limits of an agent, each at its border: so many are fine, and one more is a fault at the right place.

use serde_json::{Value, json};

use super::{AgentSpec, check};
use crate::registry::Registry;

/// Where an agent with this is at fault, be it its fields or its schemas.
fn faults(name: &str, value: Value) -> Vec<String> {
    let mut agent = json!({"name": "a", "model": {"provider": "p", "model": "m"}});
    let (last, above) = match name.rsplit_once('/') {
        Some((above, last)) => (last, agent.pointer_mut(above).expect("it is there")),
        None => (name, &mut agent),
    };
    above[last] = value;
    let agent: AgentSpec = crate::field_error::read(agent).expect("types");
    let mut found = check(&agent);
    if found.is_empty() {
        found = Registry::compile(agent).err().unwrap_or_default();
    }
    found.into_iter().map(|fault| fault.pointer).collect()
}

fn many(count: usize, one: impl Fn(usize) -> Value) -> Value {
    (0..count).map(one).collect()
}

fn tool(n: usize) -> Value {
    json!({"name": format!("t{n}"), "kind": "client"})
}

fn server(n: usize) -> Value {
    json!({"server": format!("s{n}"), "allow": ["*"]})
}

fn globs(count: usize) -> Value {
    json!([{"server": "s", "allow": many(count, |n| format!("g{n}").into())}])
}

/// A schema of so many bytes as JSON.
fn schema(bytes: usize) -> Value {
    let around = json!({"description": ""}).to_string().len();
    json!({"description": "x".repeat(bytes - around)})
}

#[test]
fn so_many_and_no_more() {
    const KIB: usize = 1024;
    type Made = fn(usize) -> Value;
    let table: [(&str, usize, Made, &str); 10] = [
        ("tools", 128, |n| many(n, tool), "/tools"),
        ("mcp", 32, |n| many(n, server), "/mcp"),
        ("mcp", 200, globs, "/mcp/0/allow"),
        ("instructions", 256 * KIB, |n| "x".repeat(n).into(), "/instructions"),
        ("name", 200, |n| "é".repeat(n).into(), "/name"),
        ("/model/fallbacks", 8, |n| many(n, |_| json!({"provider": "p", "model": "m"})), "/model/fallbacks"),
        ("policy", 256, |n| json!({"rules": many(n, |_| json!({"effect": "allow"}))}), "/policy/rules"),
        ("output_schema", 256 * KIB, schema, "/output_schema"),
        (
            "tools",
            256 * KIB,
            |n| json!([{"name": "t", "kind": "client", "input_schema": schema(n)}]),
            "/tools/0/input_schema",
        ),
        ("trace", 100, |n| json!({"redact": many(n, |n| format!("/{n}").into())}), "/trace/redact"),
    ];
    for (name, most, made, pointer) in table {
        assert_eq!(faults(name, made(most)), [""; 0], "{most} at {pointer}");
        assert_eq!(faults(name, made(most + 1)), [pointer], "one more than {most} at {pointer}");
    }
}

/// All of it together has a limit, too, below what its parts could add up to.
#[test]
fn an_agent_has_so_many_bytes() {
    let tools = |count: usize| {
        let large = |n: usize| {
            tool(n).as_object().map(|tool| {
                let mut tool = tool.clone();
                tool.insert("input_schema".into(), schema(250 * 1024));
                Value::Object(tool)
            })
        };
        many(count, |n| large(n).expect("an object"))
    };
    assert_eq!(faults("tools", tools(16)), [""; 0]);
    assert_eq!(faults("tools", tools(17)), [""]);
}
