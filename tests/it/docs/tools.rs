//! docs/tools.md.

use super::follow;

async fn follow(heading: &str) {
    follow::follow("tools.md", heading, ["9000", "3001"]).await;
}

#[tokio::test]
async fn http() {
    follow("HTTP tools").await;
}

#[tokio::test]
async fn client() {
    follow("Client tools").await;
}

#[tokio::test]
async fn openapi() {
    follow("Tools from an OpenAPI document").await;
}

#[tokio::test]
async fn mcp() {
    follow("MCP servers").await;
}

#[tokio::test]
async fn workspace() {
    follow("Workspace tools").await;
}

#[tokio::test]
async fn shell() {
    if !crate::commands::are_tried() {
        return;
    }
    follow("Shell").await;
}

#[tokio::test]
async fn agent() {
    follow("Agents as tools").await;
}
