//! MCP servers, and the lists of tools that are written beside a run's commits.

use std::collections::BTreeMap;

use answerable_core::agent::{McpTool, ToolDefaults, ToolSpec};
use answerable_core::catalog::hash;
use answerable_core::run::Record;
use answerable_ports::commit::{CommitOutcome, Release};
use answerable_ports::{McpPlace, McpServers, RunStore};
use answerable_store::McpServerPut;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use uuid::Uuid;

use crate::world::{World, first_step};

fn tool(name: &str) -> ToolSpec {
    let at = McpTool { server: "files".into(), tool: name.into() };
    ToolDefaults::default().tool(format!("files__{name}"), "does it".into(), json!({"type": "object"}), at)
}

fn put(url: &str, key: &str) -> McpServerPut {
    let headers = BTreeMap::from([("authorization".to_owned(), SecretString::from(key))]);
    McpServerPut { place: McpPlace::Url { url: url.into(), headers }, timeout_ms: 5_000 }
}

#[tokio::test]
async fn a_list_is_written_with_its_commit_or_not_at_all() {
    let world = World::new().await;
    let run = world.start(|_| ()).await.expect("a run");
    let lease = world.claim(run).await;
    let events = first_step(world.now().await, Vec::new()).into_iter().take(1).collect();
    let (seq, commit) = world.draft(lease, events, Release::Keep).await;
    let with = |tools: Vec<ToolSpec>| {
        let mut commit = commit.clone();
        commit.records.push(Record::ToolsListed { hash: hash(&tools), tools });
        commit
    };
    let loaded = || async { world.engine.load(lease).await.expect("an answer").expect("the lease").tools };
    assert!(loaded().await.is_empty());
    let stale = world.engine.commit(lease, seq + 5, with(vec![tool("old")]), Uuid::now_v7()).await;
    assert_eq!(stale.expect("an answer"), CommitOutcome::LeaseLost);
    assert!(loaded().await.is_empty(), "what isn't stored leaves nothing beside it");
    let (first, id) = (with(vec![tool("read"), tool("a b/c")]), Uuid::now_v7());
    for _ in 0..2 {
        // The answer to the first may be lost.
        let sent = world.engine.commit(lease, seq, first.clone(), id).await;
        assert_eq!(sent.expect("an answer"), CommitOutcome::Stored);
    }
    assert_eq!(loaded().await, [tool("read"), tool("a b/c")]);
    let next = world.engine.commit(lease, seq + 1, with(vec![tool("write")]), Uuid::now_v7()).await;
    assert_eq!(next.expect("an answer"), CommitOutcome::Stored);
    assert_eq!(loaded().await, [tool("write")]);
}

#[tokio::test]
async fn settings_make_a_version_and_secrets_are_filled_in() {
    let world = World::new().await;
    let store = |value: &'static str, key: &'static str| {
        let world = &world;
        async move {
            let mut tx = world.tx().await;
            tx.secret_put("files", &value.into()).await.expect("a secret");
            tx.mcp_server_put("files", &put("https://mcp.example", key)).await.expect("a server");
            tx.commit().await.expect("commit");
            world.store.mcp_target(world.tenant, "files").await.expect("an answer").expect("a server")
        }
    };
    let header = |target: &answerable_ports::McpTarget| match &target.place {
        McpPlace::Url { headers, .. } => headers["authorization"].expose_secret().to_owned(),
        McpPlace::Stdio { .. } => panic!("it has an address"),
    };
    let first = store("one", "Bearer {{secret.files}}").await;
    assert_eq!((header(&first).as_str(), first.timeout_ms), ("Bearer one", 5_000));
    let mut tx = world.tx().await;
    tx.secret_put("files", &"two".into()).await.expect("a secret");
    tx.commit().await.expect("commit");
    let second = world.store.mcp_target(world.tenant, "files").await.expect("an answer").expect("a server");
    assert_eq!(header(&second), "Bearer two");
    assert_ne!(first.version, second.version, "another secret makes other settings");
    let third = store("two", "Bearer {{secret.files}}").await;
    assert_ne!(second.version, third.version);
    let secrets: Vec<&str> = third.secrets.iter().map(ExposeSecret::expose_secret).collect();
    assert_eq!((secrets, &third.missing), (vec!["two"], &None));
    assert!(!format!("{third:?}").contains("two") && !third.version.contains("two"));
    assert!(world.store.mcp_target(world.tenant, "nobodys").await.expect("an answer").is_none());
    let stranger = world.another_tenant().await;
    assert!(world.store.mcp_target(stranger, "files").await.expect("an answer").is_none());
}

#[tokio::test]
async fn a_server_whose_headers_name_a_secret_that_is_gone_can_not_be_called() {
    let world = World::new().await;
    let target = || async {
        world.store.mcp_target(world.tenant, "files").await.expect("an answer").expect("a server")
    };
    let mut tx = world.tx().await;
    tx.secret_put("there", &"canary".into()).await.expect("a secret");
    tx.secret_put("gone", &"canary".into()).await.expect("a secret");
    tx.mcp_server_put("files", &put("https://mcp.example", "{{secret.there}}:{{secret.gone}}"))
        .await
        .expect("a server");
    tx.commit().await.expect("commit");
    let before = target().await;
    assert_eq!((before.missing, before.secrets.len()), (None, 2));
    let mut tx = world.tx().await;
    assert!(tx.secret_delete("gone").await.expect("an answer"));
    tx.commit().await.expect("commit");
    let after = target().await;
    assert_eq!(after.missing.as_deref(), Some("gone"));
    assert!(matches!(after.place, McpPlace::Url { headers, .. } if headers.is_empty()));
}
