//! What was tried, and what it left.

use std::collections::{BTreeMap, BTreeSet};

use answerable_testkit::Document;
use serde_json::Value;

use crate::audit::{actions, entries_after, last};
use crate::harness::{Answer, World};

/// The id of something.
pub(super) fn id(value: &Value) -> String {
    value["id"].as_str().unwrap_or_else(|| panic!("{value} has no id")).to_owned()
}

/// Whether some id is not as the API shows it: without the word for what it is of.
fn has_bare_id(value: &Value) -> bool {
    match value {
        Value::String(text) => text.parse::<uuid::Uuid>().is_ok(),
        Value::Array(items) => items.iter().any(has_bare_id),
        Value::Object(fields) => fields.values().any(has_bare_id),
        _ => false,
    }
}

/// A tenant's operations, and what they leave in its record.
pub(super) struct Book<'w> {
    pub(super) world: &'w World,
    /// The last entry that was looked at.
    seq: i64,
    /// By operation, all that it has left.
    left: BTreeMap<String, BTreeSet<String>>,
}

impl<'w> Book<'w> {
    pub(super) async fn open(world: &'w World) -> Self {
        Self { world, seq: last(&world.client).await, left: BTreeMap::new() }
    }

    /// Does something that must succeed, and looks at the entries that it leaves: actions and targets (`*` is any).
    pub(super) async fn act(
        &mut self,
        operation: &str,
        ask: impl IntoFuture<Output = Answer>,
        wanted: &[(&str, &str)],
    ) -> Value {
        let answer = ask.await;
        let request_id = answer.header("x-request-id").expect("an id").to_owned();
        let body = answer.ok();
        let entries = self.news().await;
        let names: Vec<&str> = wanted.iter().map(|(action, _)| *action).collect();
        assert_eq!(actions(&entries), names, "{operation}");
        for (entry, (action, target)) in entries.iter().zip(wanted) {
            assert!(*target == "*" || entry["target"]["id"] == *target, "{operation}: {entry}");
            assert_eq!(entry["from"]["request_id"], *request_id, "{operation}");
            // Where the operator sits is the operator's own affair.
            let is_operators = operation.contains("/v1/tenants");
            let address = if is_operators { Value::Null } else { "127.0.0.1".into() };
            assert_eq!(entry["from"]["address"], address, "{operation}");
            let kind = if is_operators { "operator" } else { "key" };
            assert_eq!(entry["actor"]["kind"], kind, "{operation}");
            assert!(!has_bare_id(&entry["detail"]), "{operation}: an id that nothing else shows so: {entry}");
            self.note(operation, action);
        }
        self.left.entry(operation.to_owned()).or_default();
        body
    }

    /// The same for what is in the operator's own record.
    pub(super) async fn of_operator(
        &mut self,
        operation: &str,
        ask: impl IntoFuture<Output = Answer>,
        wanted: &str,
    ) {
        let answer = ask.await;
        let request_id = answer.header("x-request-id").expect("an id").to_owned();
        answer.ok();
        let page = self
            .world
            .server
            .operator()
            .get(&format!("/v1/tenants/audit?limit=200&action={wanted}"))
            .await
            .ok();
        // Other tests share the server.
        let own = |entry: &&Value| {
            entry["from"]["request_id"] == *request_id && entry["from"]["address"] == "127.0.0.1"
        };
        let found = page["data"].as_array().into_iter().flatten().filter(own).count();
        assert_eq!(found, 1, "{operation}");
        self.note(operation, wanted);
    }

    /// Passes over what was done beside.
    pub(super) async fn skip(&mut self) {
        self.news().await;
    }

    async fn news(&mut self) -> Vec<Value> {
        let entries = entries_after(&self.world.client, "/v1/audit", self.seq).await;
        self.seq += i64::try_from(entries.len()).expect("few");
        entries
    }

    fn note(&mut self, operation: &str, action: &str) {
        self.left.entry(operation.to_owned()).or_default().insert(action.to_owned());
    }

    /// All that the document says was seen, and nothing else.
    pub(super) fn close(self) {
        let document = Document::load();
        let mut seen = BTreeSet::new();
        for (method, path) in document.operations() {
            let operation = format!("{method} {path}");
            let audit = document.operation(&method, &path).and_then(|operation| operation.get("x-audit"));
            if method == "GET" && audit.is_none() {
                continue;
            }
            let audit = audit.and_then(Value::as_array);
            let audit = audit.unwrap_or_else(|| {
                panic!("{operation}: the document must say what entries it leaves (x-audit)")
            });
            let said: BTreeSet<String> =
                audit.iter().map(|action| action.as_str().expect("a name").to_owned()).collect();
            let left = self.left.get(&operation).cloned().unwrap_or_default();
            assert_eq!(left, said, "{operation}: what it left, and what the document says");
            seen.extend(left);
        }
        // What only a command on the operator's machine does.
        seen.insert("secrets.rewrap".to_owned());
        let known = &document.root()["components"]["schemas"]["AuditEntry"]["properties"]["action"]["enum"];
        let known: BTreeSet<String> = known
            .as_array()
            .expect("a list")
            .iter()
            .map(|name| name.as_str().expect("a name").to_owned())
            .collect();
        assert_eq!(seen, known, "actions that happened, and those of the document");
    }
}
