//! Every operation of the document refuses who has no key, and whose key lacks the scope that the document names.

use crate::world::{OPERATOR, World};
use answerable_testkit::Document;
use serde_json::{Value, json};

const SCOPES: [&str; 4] = ["runs:read", "runs:write", "approvals:decide", "agents:write"];
const ID: &str = "00000000-0000-7000-8000-000000000000";

/// The path with ids of the right kind that belong to nothing.
fn path_of(template: &str) -> String {
    let kinds = [
        ("run_id", "run"),
        ("thread_id", "thr"),
        ("agent_id", "agt"),
        ("approval_id", "apr"),
        ("artifact_id", "art"),
        ("webhook_id", "whk"),
        ("delivery_id", "dlv"),
        ("tenant_id", "ten"),
        ("key_id", "key"),
        ("grant_id", "grt"),
        ("ledger_id", "led"),
        ("workspace_id", "wsp"),
        ("schedule_id", "sch"),
    ];
    let path = kinds.iter().fold(template.to_owned(), |path, (name, prefix)| {
        path.replace(&format!("{{{name}}}"), &format!("{prefix}_{ID}"))
    });
    let path = path.replace("{name}", "nothing").replace("{number}", "1").replace("{path}", "a.txt");
    assert!(!path.contains('{'), "{template} names something new");
    path
}

/// Scopes of which any one opens an operation; `None` where it takes no tenant's key.
fn scopes_of(operation: &Value) -> Option<Vec<String>> {
    let mut scopes = Vec::new();
    for requirement in operation["security"].as_array()? {
        let named = requirement.get("tenantKey").and_then(Value::as_array).into_iter().flatten();
        scopes.extend(named.filter_map(Value::as_str).map(str::to_owned));
    }
    (!scopes.is_empty()).then_some(scopes)
}

#[tokio::test]
async fn every_operation_asks_who_is_there() {
    let world = World::start().await;
    let document = Document::load();
    let mut keys = Vec::new();
    for scope in SCOPES {
        keys.push((scope, world.new_key(&world.tenant, &[scope]).await));
    }
    let mut asked = 0;
    for (method, template) in document.operations() {
        let operation = document.operation(&method, &template).expect("an operation");
        let (method, path) = (method.to_uppercase(), path_of(&template));
        if operation["security"] == json!([]) || template.ends_with("/decision") {
            continue;
        }
        asked += 1;
        assert_eq!(world.send(&method, &path, &[], "").await.status, 401, "{method} {path}");
        let Some(scopes) = scopes_of(operation) else {
            assert_eq!(world.tell(&method, &path, Value::Null).await.status, 403, "{method} {path}");
            continue;
        };
        assert_eq!(world.ask(OPERATOR, &method, &path, Value::Null).await.status, 401, "{method} {path}");
        for (scope, key) in &keys {
            let may = scopes.iter().any(|named| named == scope);
            let status = world.ask(key, &method, &path, Value::Null).await.status;
            assert_eq!(status == 403, !may, "{method} {path} with {scope}: {status}");
        }
    }
    assert!(asked > 60, "{asked}");
}
