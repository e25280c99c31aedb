//! MCP servers, as they are stored and shown.

use answerable_core::id::TenantId;
use answerable_ports::{ListedTool, McpFault, ToolSource};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::world::World;

/// Servers that offer nothing.
pub(crate) struct Shelf;

#[async_trait]
impl ToolSource for Shelf {
    async fn list(&self, _: TenantId, _: &str) -> Result<Vec<ListedTool>, McpFault> {
        Ok(Vec::new())
    }

    fn changes(&self, _: TenantId, _: &str) -> u64 {
        0
    }
}

#[tokio::test]
async fn a_server_is_stored_shown_and_deleted() {
    let world = World::start().await;
    let body = json!({"url": "https://mcp.example/files", "headers": {"Authorization": "Bearer canary"}});
    let put = world.tell("PUT", "/v1/mcp_servers/files", body).await;
    assert_eq!(
        (put.status, put.body["headers"]["authorization"].as_str()),
        (200, Some("***")),
        "{}",
        put.text
    );
    let local =
        world.tell("PUT", "/v1/mcp_servers/local", json!({"stdio": "local-files", "timeout_ms": 500})).await;
    assert_eq!(
        (&local.body["stdio"], &local.body["url"]),
        (&json!("local-files"), &Value::Null),
        "{}",
        local.text
    );
    let list = world.tell("GET", "/v1/mcp_servers?limit=1", Value::Null).await;
    let cursor = list.body["next_cursor"].as_str().expect("a cursor");
    let rest = world.tell("GET", &format!("/v1/mcp_servers?cursor={cursor}"), Value::Null).await;
    assert_eq!(
        (&list.body["data"][0]["name"], &rest.body["data"][0]["name"]),
        (&json!("local"), &json!("files"))
    );
    assert!(![put.text, list.text, rest.text].iter().any(|text| text.contains("canary")));
    let (_, stranger) = world.new_tenant(json!({})).await;
    assert_eq!(world.ask(&stranger, "GET", "/v1/mcp_servers/files", Value::Null).await.status, 404);
    assert_eq!(world.ask(&stranger, "DELETE", "/v1/mcp_servers/files", Value::Null).await.status, 404);
    assert_eq!(world.ask(&stranger, "GET", "/v1/mcp_servers/files/tools", Value::Null).await.status, 404);
    assert_eq!(world.tell("DELETE", "/v1/mcp_servers/files", Value::Null).await.status, 204);
    assert_eq!(world.tell("GET", "/v1/mcp_servers/files", Value::Null).await.status, 404);
}

#[tokio::test]
async fn what_can_not_be_called_is_refused() {
    let world = World::start().await;
    let url = "https://mcp.example/files";
    let with = |name: &str, value: &str| json!({"url": url, "headers": {name: value}});
    for (body, pointer) in [
        (json!({"url": "http://10.0.0.1/mcp"}), "/url"),
        (json!({"url": "file:///etc/passwd"}), "/url"),
        (json!({"uri": url}), "/uri"),
        (json!({"url": url, "timeout_ms": 1}), "/timeout_ms"),
        (json!({"stdio": "nobodys"}), "/stdio"),
        (with("host", "x"), "/headers/host"),
        (with("Mcp-Session-Id", "x"), "/headers/Mcp-Session-Id"),
        (with("x-a", "{{input.a}}"), "/headers/x-a"),
        (with("x-a", "{{secret.nobodys}}"), "/headers/x-a"),
        (with("x-a", "a\r\nb: c"), "/headers/x-a"),
        (with("x-a", "a\u{7f}"), "/headers/x-a"),
        (with("Content-Encoding", "gzip"), "/headers/Content-Encoding"),
        (with("expect", "100-continue"), "/headers/expect"),
        (json!({"url": url, "headers": {"X-Key": "a", "x-key": "b"}}), "/headers/X-Key"),
        (json!({"url": url, "headers": {"X-Key": "a", "x-key": "b"}}), "/headers/x-key"),
    ] {
        let refused = world.tell("PUT", "/v1/mcp_servers/odd", body.clone()).await;
        assert!(refused.pointers().contains(&pointer), "{body}: {}", refused.text);
    }
    for body in [
        json!({}),
        json!({"url": url, "stdio": "local-files"}),
        json!({"stdio": "local-files", "headers": {"a": "b"}}),
    ] {
        assert_eq!(world.tell("PUT", "/v1/mcp_servers/odd", body.clone()).await.status, 422, "{body}");
    }
    assert_eq!(
        world.tell("PUT", "/v1/mcp_servers/a%20b", json!({"url": url})).await.pointers(),
        ["/path/name"]
    );
}

#[tokio::test]
async fn an_agent_names_servers_that_are_there() {
    let world = World::start().await;
    let provider = json!({"kind": "scripted", "script": [{"final": "x"}]});
    world.tell("PUT", "/v1/providers/main", provider).await;
    world.tell("PUT", "/v1/mcp_servers/files", json!({"url": "https://mcp.example/files"})).await;
    let agent = |servers: &[&str]| {
        let mcp: Vec<Value> = servers.iter().map(|name| json!({"server": name, "allow": ["*"]})).collect();
        json!({"name": "a", "instructions": "x", "model": {"provider": "main", "model": "m"}, "mcp": mcp})
    };
    let refused = world.tell("POST", "/v1/agents", agent(&["files", "nowhere"])).await;
    assert_eq!(refused.pointers(), ["/mcp/1/server"]);
    let made = world.tell("POST", "/v1/agents", agent(&["files", "files"])).await;
    assert_eq!((made.status, &made.body["mcp"][0]["required"]), (201, &Value::Null), "{}", made.text);
}
