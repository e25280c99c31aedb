//! Every operation of the document: who may call it, and what a call of it by the owner would look like.

use answerable_testkit::Document;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Client};

/// Who an operation is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum For {
    /// Anybody: the server's own pages.
    Anybody,
    /// The operator.
    Operator,
    /// Keys of a tenant with one of these scopes; `admin` always will do.
    Scopes(Vec<String>),
    /// Whoever has a link, alone.
    Links,
}

/// One operation, with the owner's ids in it.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) method: Method,
    pub(super) template: String,
    pub(super) path: String,
    pub(super) body: Option<Value>,
    pub(super) whose: For,
    /// It can be answered with a stream of events.
    pub(super) streams: bool,
    /// It takes a cursor.
    pub(super) pages: bool,
    /// Its query's parameters that take an id.
    pub(super) filters: Vec<String>,
}

impl Operation {
    /// Whether it is about one thing of a tenant's that has an id.
    pub(super) fn names_an_id(&self) -> bool {
        self.template.contains("_id}")
    }

    /// Whether it is about something that its tenant names itself: others may use the same name.
    pub(super) fn names_a_name(&self) -> bool {
        self.template.contains("{name}")
    }

    /// Asks with a client's key.
    pub(super) async fn ask(&self, client: &Client) -> Answer {
        self.ask_with(client, &[]).await
    }

    /// The same with more headers.
    pub(super) async fn ask_with(&self, client: &Client, headers: &[(&str, &str)]) -> Answer {
        let ask = client.ask(self.method.clone(), &self.path);
        let ask = match &self.body {
            Some(Value::String(text)) => ask.raw("text/plain", text.clone()),
            Some(body) => ask.json(body),
            None => ask,
        };
        headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value)).await
    }

    /// As people read it.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.method, self.template)
    }
}

/// All scopes but `admin`, as the document knows them.
pub(super) fn scopes() -> Vec<String> {
    let all = Document::load().root()["components"]["schemas"]["Scope"]["enum"].as_array().cloned();
    let all = all.expect("scopes").into_iter().map(|scope| scope.as_str().expect("a scope").to_owned());
    all.filter(|scope| scope != "admin").collect()
}

/// All operations, with these ids in their paths and bodies.
pub(super) fn operations(ids: &[(&'static str, String)]) -> Vec<Operation> {
    let document = Document::load();
    let mut all = Vec::new();
    for (method, template) in document.operations() {
        let written = document.operation(&method, &template).expect("an operation");
        let fill = |path: String, (name, id): &(&str, String)| path.replace(&format!("{{{name}}}"), id);
        let path = ids.iter().fold(template.clone(), fill);
        assert!(!path.contains('{'), "let owner.rs give {template} its ids");
        let streams = written["responses"]["200"].to_string().contains("text/event-stream");
        let pages = written["parameters"].to_string().contains("#/components/parameters/Cursor");
        let filters = filters(written, ids);
        let body = written.get("requestBody").map(|_| body_for(&method, &template, ids));
        let method = method.parse().expect("a method");
        all.push(Operation { method, whose: whose(written), template, path, body, streams, pages, filters });
    }
    assert!(all.len() > 90, "{} operations", all.len());
    all
}

/// Parameters of the query that are named as an id of the owner's is.
fn filters(operation: &Value, ids: &[(&'static str, String)]) -> Vec<String> {
    let all = operation["parameters"].as_array().into_iter().flatten();
    let named =
        all.filter(|parameter| parameter["in"] == "query").filter_map(|parameter| parameter["name"].as_str());
    let takes_id = |name: &&str| name.ends_with("_id") && ids.iter().any(|(known, _)| known == name);
    named.filter(takes_id).map(str::to_owned).collect()
}

/// What the document's `security` says.
fn whose(operation: &Value) -> For {
    let ways = operation["security"].as_array().expect("every operation says who may call it");
    if ways.is_empty() {
        return For::Anybody;
    }
    if ways.iter().any(|way| way.get("operatorKey").is_some()) {
        assert_eq!(ways.len(), 1, "the operator's and nobody else's");
        return For::Operator;
    }
    let scopes: Vec<String> = ways
        .iter()
        .filter_map(|way| way["tenantKey"].as_array())
        .flatten()
        .map(|scope| scope.as_str().expect("a scope").to_owned())
        .collect();
    if scopes.is_empty() { For::Links } else { For::Scopes(scopes) }
}

/// A body that would be accepted from the owner. `PUT` of a file takes text.
fn body_for(method: &str, template: &str, ids: &[(&'static str, String)]) -> Value {
    let id =
        |name: &str| ids.iter().find(|(known, _)| *known == name).map(|(_, id)| id.clone()).expect("an id");
    let spec = json!({"name": "mine", "instructions": "x", "model": {"provider": "main", "model": "m"}});
    let hook = json!({"url": "http://127.0.0.1:9/hook", "events": ["run.failed"]});
    match (method, template) {
        ("POST", "/v1/runs") => {
            json!({"agent_id": id("agent_id"), "thread_id": id("thread_id"), "input": "go"})
        }
        ("PATCH", "/v1/runs/{run_id}") => json!({"metadata": {"owner": "b"}}),
        ("POST", "/v1/runs/{run_id}/messages") => json!({"content": "pay me"}),
        ("POST", "/v1/runs/{run_id}/continue") => json!({"input": "once more"}),
        ("POST", "/v1/runs/{run_id}/fork") => json!({"after_step": 0}),
        ("POST", "/v1/runs/{run_id}/replay") => json!({"tools": "recorded"}),
        ("POST", "/v1/runs/{run_id}/tool_results") => {
            json!({"tool_call_id": id("call_id"), "status": "succeeded", "content": "a lie"})
        }
        ("POST", "/v1/runs/{run_id}/ledger/{ledger_id}/resolve") => json!({"state": "applied"}),
        ("POST", "/v1/approvals/{approval_id}/decision") => json!({"decision": "approve"}),
        ("POST", "/v1/approvals/decisions") => {
            json!({"decisions": [{"approval_id": id("approval_id"), "decision": "approve"}]})
        }
        ("POST", "/v1/agents") | ("PUT", "/v1/agents/{agent_id}") => spec,
        ("PUT", "/v1/workspaces/{workspace_id}/files/{path}") => json!("a lie"),
        ("PUT", "/v1/providers/{name}") => {
            json!({"kind": "openai_chat", "base_url": "http://127.0.0.1:9/v1"})
        }
        ("PUT", "/v1/mcp_servers/{name}") => json!({"url": "http://127.0.0.1:9/mcp"}),
        ("PUT", "/v1/secrets/{name}") => json!({"value": "another"}),
        ("PUT", "/v1/policy") => json!({"rules": []}),
        ("POST", "/v1/policy/check") => json!({"policy": {"rules": []}, "run_id": id("run_id")}),
        ("POST", "/v1/webhooks") | ("PATCH", "/v1/webhooks/{webhook_id}") => hook,
        ("POST", "/v1/schedules") => {
            json!({"name": "s", "cron": "@yearly", "run": {"agent_id": id("agent_id"), "input": "go"}})
        }
        ("PATCH", "/v1/schedules/{schedule_id}") => json!({"name": "renamed"}),
        ("POST", "/v1/tenants") => json!({"name": "brief"}),
        ("PATCH", "/v1/tenants/{tenant_id}") => json!({"name": "renamed"}),
        ("POST", "/v1/tenants/{tenant_id}/keys") => json!({"name": "k", "scopes": ["admin"]}),
        // Bodies that may be left out, and commands without any.
        _ => {
            let required = Document::load().operation(method, template).expect("an operation");
            let required = required["requestBody"]["required"] == true;
            assert!(!required, "give {method} {template} a body that its owner could send");
            json!({})
        }
    }
}
