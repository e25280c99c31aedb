//! All that a tenant has, to be taken away: whole, without secrets, and cut where it can't go on.

use std::collections::BTreeMap;

use answerable_testkit::{ModelReply, ToolAnswer};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Client, Fits, Run, SOON, With, World, client_tool};
use crate::raw::Raw;

const SECRETS: [&str; 4] = ["canary-secret-1", "canary-header-2", "canary-token-3", "canary-literal-4"];

/// The lines of an export that is whole, by kind.
fn lines(text: &str) -> BTreeMap<String, Vec<Value>> {
    let mut kinds: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut all: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let end = all.pop().expect("an end");
    assert_eq!(end["kind"], "end", "{end}");
    for mut line in all {
        let kind = line["kind"].as_str().expect("a kind").to_owned();
        kinds.entry(kind).or_default().push(line["data"].take());
    }
    let counted: BTreeMap<String, Value> =
        kinds.iter().map(|(kind, rows)| (kind.clone(), json!(rows.len()))).collect();
    assert_eq!(end["counts"], json!(counted));
    kinds
}

async fn put_file(client: &Client, workspace: &str, path: &str, content: &str) {
    let path = format!("/v1/workspaces/{workspace}/files/{path}");
    client.ask(Method::PUT, &path).raw("text/plain", content.to_owned()).await.ok();
}

/// One of each thing, with secrets wherever there may be some. The thread, and a run that waits in it.
async fn fill(world: &World) -> (Value, Run<'_>) {
    let client = &world.client;
    client.put("/v1/secrets/shop", &json!({"value": SECRETS[0]})).await.ok();
    world.provider(client, json!({"headers": {"x-team": SECRETS[1]}})).await;
    let server = json!({"url": "http://127.0.0.1:9/mcp", "headers": {"x-token": SECRETS[2]}});
    client.put("/v1/mcp_servers/files", &server).await.ok();
    client.post("/v1/webhooks", &json!({"url": "http://127.0.0.1:9/", "events": ["*"]})).await.is(201);
    let agent = world.agent(&[]);
    let made = client.post("/v1/agents", &agent).await.is(201);
    let path = format!("/v1/agents/{}", made["id"].as_str().expect("an id"));
    client.put(&path, &agent.with(json!({"instructions": "Help better."}))).await.ok();
    let run = json!({"agent": world.agent(&[]), "input": "go"});
    client.post("/v1/schedules", &json!({"name": "nightly", "cron": "@daily", "run": run})).await.is(201);
    let thread = client.post("/v1/threads", &json!({})).await.is(201);
    let look = world.read("look").with(json!({"output": {"max_chars": 100},
        "http": {"headers": {"authorization": format!("Bearer {}", SECRETS[3]), "x-shop": "{{secret.shop}}"}}}));
    world.tools.script("look", [ToolAnswer::text(&"long ".repeat(100))]);
    let calls = [ModelReply::calls([("look", json!({}))]), ModelReply::calls([("ask_user", json!({}))])];
    world.model.script("m", calls);
    let agent =
        world.agent(&[look, client_tool("ask_user"), world.write("pay").with(json!({"risk": "high"}))]);
    let run = world.start_with(&agent, json!({"thread_id": thread["id"]})).await;
    run.open_call().await;
    (thread, run)
}

#[tokio::test]
async fn all_that_a_tenant_has_is_in_it_and_nothing_that_is_secret() {
    let world = World::shared().await;
    let (thread, run) = fill(&world).await;
    let workspace = thread["workspace_id"].as_str().expect("an id");
    let large = "0123456789abcdef".repeat(40_000);
    put_file(&world.client, workspace, "notes/large.txt", &large).await;
    put_file(&world.client, workspace, "empty.txt", "").await;
    let answer = world.client.get("/v1/export").await;
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let text = answer.ok().as_str().expect("text").to_owned();
    for secret in
        SECRETS.iter().copied().chain([world.provider_key(), world.client.key().expect("a key"), "whsec_"])
    {
        assert!(!text.contains(secret), "{secret} is in the export");
    }
    let kinds = lines(&text);
    let one = |kind: &str| match kinds.get(kind).map(Vec::as_slice) {
        Some([row]) => row.clone(),
        rows => panic!("{kind}: {rows:?}"),
    };
    one("tenant").fits(&json!({"id": world.tenant}));
    one("secret").fits(&json!({"name": "shop", "version": 1}));
    one("provider").fits(&json!({"name": "main", "has_api_key": true, "header_names": ["x-team"]}));
    one("thread").fits(&json!({"id": thread["id"]}));
    one("run").fits(&json!({"id": run.id, "status": "waiting_tool", "thread_id": thread["id"]}));
    one("schedule").fits(&json!({"name": "nightly", "run": {"input": "go"}}));
    assert_eq!(kinds["agent_version"].len(), 2);
    assert_eq!(kinds["call"].len(), 2);
    assert_eq!(kinds["event"].len(), run.list("events").await.as_array().expect("a list").len());
    for kind in [
        "key",
        "mcp_server",
        "webhook",
        "agent",
        "message",
        "step",
        "ledger_entry",
        "delivery",
        "usage_day",
        "audit_entry",
    ] {
        assert!(kinds.contains_key(kind), "{kind} is missing: {:?}", kinds.keys());
    }
    let artifact = one("artifact");
    let content = one("artifact_content");
    content.fits(&json!({"id": artifact["id"], "part": 0, "parts": 1}));
    assert_eq!(
        STANDARD.decode(content["base64"].as_str().expect("text")).expect("base64"),
        "long ".repeat(100).as_bytes()
    );
    let parts = kinds["file_content"].iter().filter(|part| part["path"] == "notes/large.txt");
    let whole: String = parts.map(|part| part["base64"].as_str().expect("text")).collect();
    assert_eq!(STANDARD.decode(whole).expect("base64"), large.as_bytes());
    let empty = kinds["file_content"].iter().find(|part| part["path"] == "empty.txt").expect("a part");
    empty.fits(&json!({"part": 0, "parts": 1, "base64": ""}));
    run.cancel().await;
}

#[tokio::test]
async fn who_asks_for_the_head_alone_is_told_no_length() {
    let world = World::shared().await;
    let of_tenant = format!("/v1/tenants/{}/export", world.tenant);
    let nobody = "/v1/tenants/ten_0192f0c1-2345-7890-abcd-ef0123456789/export";
    let operators = world.server.operator_key();
    for (path, key, status) in [
        ("/v1/export", world.client.key().expect("a key"), 200),
        (&of_tenant, operators, 200),
        (nobody, operators, 404),
    ] {
        let mut raw = Raw::to(&world.server).await;
        let ask = format!("HEAD {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n");
        raw.send(ask + "Connection: close\r\n\r\n").await;
        let head = raw.rest().await;
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status}")) && head.ends_with("\r\n\r\n"),
            "{path}: {head}"
        );
        assert!(status != 200 || !head.contains("content-length"), "{path}: {head}");
    }
}

#[tokio::test]
async fn the_operator_takes_the_same_and_both_are_recorded() {
    let world = World::shared().await;
    let (_, run) = fill(&world).await;
    let (other, stranger) = world.neighbour(&json!({})).await;
    let path = format!("/v1/tenants/{}/export", world.tenant);
    let text = world.server.operator().get(&path).await.ok().as_str().expect("text").to_owned();
    assert_eq!(lines(&text)["run"].len(), 1);
    assert!(!text.contains(&other));
    stranger.get(&path).await.refused(403, "forbidden");
    world
        .key(&["runs:read", "runs:write", "agents:write"])
        .await
        .get("/v1/export")
        .await
        .refused(403, "forbidden");
    world
        .server
        .operator()
        .get("/v1/tenants/ten_0192f0c1-2345-7890-abcd-ef0123456789/export")
        .await
        .refused(404, "not_found");
    world.client.get("/v1/export").await.ok();
    let audit = world.client.get("/v1/audit?action=tenant.export").await.ok();
    audit.fits(&json!({"data": [{"actor": {"kind": "key"}}, {"actor": {"kind": "operator"}, "from": {"address": null}}]}));
    run.cancel().await;
}

/// An export that has begun and is larger than all buffers on the way: nothing goes on until more of it is taken.
struct Begun {
    response: reqwest::Response,
    text: Vec<u8>,
}

impl Begun {
    async fn with(world: &World, client: &Client) -> Self {
        let thread = client.post("/v1/threads", &json!({})).await.is(201);
        let workspace = thread["workspace_id"].as_str().expect("an id");
        for number in 0..10 {
            let content = format!("{number:08}").repeat(400_000);
            put_file(client, workspace, &format!("{number}.txt"), &content).await;
        }
        let url = format!("{}/v1/export", world.server.url());
        let request = reqwest::Client::new().get(url).bearer_auth(client.key().expect("a key"));
        let mut response = request.send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        let text = response.chunk().await.expect("a beginning").expect("some of it").to_vec();
        Self { response, text }
    }

    /// Returns when it has ended, in a way that nobody takes for whole.
    async fn breaks_off(mut self) {
        let rest = async {
            loop {
                match self.response.chunk().await {
                    Ok(Some(chunk)) => self.text.extend_from_slice(&chunk),
                    ended => break ended,
                }
            }
        };
        let ended = tokio::time::timeout(SOON, rest).await.expect("it ends");
        assert!(ended.is_err(), "it looks whole");
        assert!(!String::from_utf8_lossy(&self.text).contains("\"kind\":\"end\""));
    }
}

#[tokio::test]
async fn an_export_of_a_tenant_that_goes_is_cut() {
    let world = World::shared().await;
    let (tenant, client) = world.neighbour(&json!({})).await;
    let begun = Begun::with(&world, &client).await;
    world.server.operator().delete(&format!("/v1/tenants/{tenant}")).await.is(204);
    begun.breaks_off().await;
}

#[tokio::test]
async fn an_export_ends_with_the_key_that_asked_for_it() {
    let world = World::shared().await;
    let (operator, keys) = (world.server.operator(), format!("/v1/tenants/{}/keys", world.tenant));
    let made = operator.post(&keys, &json!({"name": "k", "scopes": ["admin"]})).await.is(201);
    let client = world.client.with_key(made["secret"].as_str().expect("a secret"));
    let begun = Begun::with(&world, &client).await;
    operator.delete(&format!("{keys}/{}", made["id"].as_str().expect("an id"))).await.is(204);
    client.get("/v1/export").await.refused(401, "unauthorized");
    begun.breaks_off().await;
    // The tenant is as it was.
    world.client.get("/v1/export").await.ok();
}

#[tokio::test]
async fn the_command_writes_it_out() {
    let world = World::shared().await;
    let (_, run) = fill(&world).await;
    let key = world.client.key().expect("a key").to_owned();
    let url = world.server.url();
    let output = world.server.command(&["export", "--url", url, "--api-key", &key]).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(lines(&String::from_utf8(output.stdout).expect("UTF-8"))["run"].len(), 1);
    let (operator, tenant) = (world.server.operator_key().to_owned(), world.tenant.clone());
    let output =
        world.server.command(&["export", "--url", url, "--api-key", &operator, "--tenant", &tenant]).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = world.server.command(&["export", "--url", url, "--api-key", "nonsense"]).await;
    assert_eq!(output.status.code(), Some(1));
    run.cancel().await;
}
