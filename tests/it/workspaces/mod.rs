//! Files of workspaces: shared by the runs of a thread and by clients, with versions, within bounds.

mod conflicts;
mod crashes;
mod files;
mod going;
mod large;
mod shared;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Client, Run};

/// A built-in tool.
fn tool(name: &str) -> Value {
    json!({"name": name, "kind": "workspace"})
}

/// A run's workspace.
async fn workspace(run: &Run<'_>) -> String {
    let shown = run.now().await;
    shown["workspace_root"]
        .as_str()
        .and_then(|uri| uri.strip_prefix("workspace://"))
        .expect("a URI")
        .to_owned()
}

fn path(workspace: &str, file: &str) -> String {
    format!("/v1/workspaces/{workspace}/files/{file}")
}

async fn put(client: &Client, workspace: &str, file: &str, content: &str) -> Answer {
    client.ask(Method::PUT, &path(workspace, file)).raw("text/plain", content.to_owned()).await
}

async fn read(client: &Client, workspace: &str, file: &str) -> String {
    let answer = client.get(&path(workspace, file)).await;
    assert_eq!(answer.status, 200, "{answer}");
    answer.text
}

/// Paths of all files.
async fn paths(client: &Client, workspace: &str) -> Value {
    let listed = client.get(&format!("/v1/workspaces/{workspace}/files")).await.ok();
    listed["data"].as_array().expect("a list").iter().map(|file| file["path"].clone()).collect()
}
