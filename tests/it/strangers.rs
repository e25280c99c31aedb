//! Nobody sees or changes what is another's.

use answerable_testkit::{Document, ModelReply, ToolAnswer};
use serde_json::{Value, json};

use crate::harness::{Fits, Run, With, World};

/// A tenant that has one of everything, and its ids by the names that paths have for them.
async fn one_of_everything(world: &World) -> (Run<'_>, Vec<(&'static str, String)>) {
    let id = |value: &Value| value["id"].as_str().expect("an id").to_owned();
    let hook = json!({"url": world.tools.url("hook"), "events": ["run.finished"]});
    let hook = world.client.post("/v1/webhooks", &hook).await.is(201);
    world.client.put("/v1/secrets/shop", &json!({"value": "s-1"})).await.ok();
    let delivery = world.client.post(&format!("/v1/webhooks/{}/test", id(&hook)), &json!({})).await.is(202);
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201);
    world.tools.script("read_log", [ToolAnswer::text(&"line ".repeat(100))]);
    let tools = [
        world.read("read_log").with(json!({"output": {"max_chars": 50}})),
        world.write("pay").with(json!({"risk": "high"})),
    ];
    let agent = world.client.post("/v1/agents", &world.agent(&tools)).await.is(201);
    world
        .model
        .script("m", [ModelReply::calls([("read_log", json!({}))]), ModelReply::calls([("pay", json!({}))])]);
    world.model.script("m", [ModelReply::text("Not paid.")]);
    let body = json!({"agent_id": agent["id"], "thread_id": thread["id"], "input": "go"});
    let run = world.client.post("/v1/runs", &body).await.is(201);
    let run = world.run(&run);
    let approval = run.pending().await;
    let grant = granted(world, &world.agent(&tools[1..])).await;
    let (ledger, artifacts) = (run.list("ledger").await, run.list("artifacts").await);
    let server = json!({"url": world.tools.url("mcp")});
    world.client.put("/v1/mcp_servers/shop", &server).await.ok();
    let workspace = thread["workspace_id"].as_str().expect("an id").to_owned();
    let file = world.client.ask(reqwest::Method::PUT, &format!("/v1/workspaces/{workspace}/files/a.txt"));
    file.raw("text/plain", "mine").await.ok();
    let ids = vec![
        ("run_id", run.id.clone()),
        ("thread_id", id(&thread)),
        ("agent_id", id(&agent)),
        ("approval_id", approval),
        ("artifact_id", id(&artifacts[0])),
        ("ledger_id", id(&ledger[0])),
        ("webhook_id", id(&hook)),
        ("delivery_id", id(&delivery)),
        ("grant_id", grant),
        ("workspace_id", workspace),
        ("path", "a.txt".to_owned()),
        ("number", "1".to_owned()),
        ("name", "shop".to_owned()),
    ];
    (run, ids)
}

/// A grant, of a run of its own.
async fn granted(world: &World, agent: &Value) -> String {
    world.model.script("n", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("Paid.")]);
    let run = world.start(&agent.clone().with(json!({"model": {"provider": "main", "model": "n"}}))).await;
    run.decide(&json!({"decision": "approve", "remember": {"scope": "run", "match": "tool"}})).await.ok();
    run.ended().await;
    let grants = world.client.get("/v1/grants").await.ok();
    grants["data"][0]["id"].as_str().expect("an id").to_owned()
}

/// A path with its ids; `None` where it has none or is the operator's.
fn filled(template: &str, ids: &[(&str, String)]) -> Option<String> {
    let is_ours = template.contains('{') && !template.starts_with("/v1/tenants");
    let fill = |path: String, (name, id): &(&str, String)| path.replace(&format!("{{{name}}}"), id);
    let path = ids.iter().fold(template.to_owned(), fill);
    assert!(!is_ours || !path.contains('{'), "no id for {template}");
    is_ours.then_some(path)
}

#[tokio::test]
async fn another_tenants_ids_are_not_there() {
    let world = World::shared().await;
    let (run, ids) = one_of_everything(&world).await;
    let (_, stranger) = world.neighbour(&json!({})).await;
    let shown = run.now().await;
    let mut seen = 0;
    for (method, template) in Document::load().operations() {
        let Some(path) = filled(&template, &ids) else { continue };
        // What a tenant names itself is in nobody's way; and a link's page wants a link, not a key.
        let is_named = template.contains("{name}") && (method != "GET" || template.contains("providers"));
        if is_named || (method.as_str(), template.as_str()) == ("GET", "/v1/approvals/{approval_id}/decision")
        {
            continue;
        }
        if method == "GET"
            && template != "/v1/runs/{run_id}/wait"
            && template != "/v1/artifacts/{artifact_id}/content"
            && template != "/v1/mcp_servers/{name}/tools"
        {
            world.client.get(&path).await.ok();
        }
        let method: reqwest::Method = method.parse().expect("a method");
        let body = body_for(&template, &ids);
        let ask = stranger.ask(method.clone(), &path);
        let ask = if method == "GET" || method == "DELETE" { ask } else { ask.json(&body) };
        ask.await.refused(404, "not_found");
        seen += 1;
    }
    assert!(seen > 30, "{seen} operations");
    let stream = stranger.get(&run.path("/events")).header("accept", "text/event-stream").await;
    stream.refused(404, "not_found");
    assert_eq!(run.now().await, shown, "a stranger changed something");
    run.deny("no").await;
    run.ended().await.fits(&json!({"status": "finished", "metadata": {}}));
}

/// A body that would be accepted from the owner.
fn body_for(template: &str, ids: &[(&str, String)]) -> Value {
    let id = |name: &str| ids.iter().find(|(known, _)| *known == name).map(|(_, id)| id.clone());
    match template {
        "/v1/runs/{run_id}" => json!({"metadata": {"owner": "b"}}),
        "/v1/runs/{run_id}/messages" => json!({"content": "pay me"}),
        "/v1/runs/{run_id}/tool_results" => {
            json!({"tool_call_id": "tc_00000000-0000-7000-8000-000000000000", "status": "succeeded", "content": "a lie"})
        }
        "/v1/runs/{run_id}/ledger/{ledger_id}/resolve" => json!({"state": "applied"}),
        "/v1/approvals/{approval_id}/decision" => json!({"decision": "approve"}),
        "/v1/agents/{agent_id}" => {
            json!({"name": "mine", "instructions": "x", "model": {"provider": "main", "model": "m"}})
        }
        "/v1/runs/{run_id}/fork" => json!({"after_step": 0}),
        "/v1/runs/{run_id}/replay" => json!({"tools": "recorded"}),
        "/v1/webhooks/{webhook_id}" => json!({"events": ["run.failed"]}),
        _ => {
            assert!(id("run_id").is_some());
            json!({})
        }
    }
}

#[tokio::test]
async fn lists_show_ones_own() {
    let world = World::shared().await;
    let (run, ids) = one_of_everything(&world).await;
    let (_, stranger) = world.neighbour(&json!({})).await;
    for list in ["runs", "agents", "threads", "approvals", "grants", "webhooks", "secrets", "mcp_servers"] {
        stranger.get(&format!("/v1/{list}")).await.fits(&json!({"data": []}));
    }
    let id =
        |name: &str| ids.iter().find(|(known, _)| *known == name).map(|(_, id)| id.clone()).expect("an id");
    for filter in [
        format!("/v1/runs?thread_id={}", id("thread_id")),
        format!("/v1/runs?agent_id={}", id("agent_id")),
        format!("/v1/approvals?run_id={}", id("run_id")),
    ] {
        stranger.get(&filter).await.fits(&json!({"data": []}));
        world.client.get(&filter).await.fits(&json!({"data": {"$len": 1}}));
    }
    stranger.get("/v1/usage").await.fits(&json!({"data": {"$none": {"tokens": {"$ge": 1}}}}));
    run.cancel().await;
}

#[tokio::test]
async fn another_tenants_ids_in_a_body_are_unknown() {
    let world = World::shared().await;
    let (run, ids) = one_of_everything(&world).await;
    let (tenant, stranger) = world.neighbour(&json!({})).await;
    let id =
        |name: &str| ids.iter().find(|(known, _)| *known == name).map(|(_, id)| id.clone()).expect("an id");
    let own = json!({"agent": world.agent(&[]), "input": "go"});
    let table = [
        ("/agent_id", json!({"agent_id": id("agent_id"), "input": "go"})),
        ("/thread_id", own.clone().with(json!({"thread_id": id("thread_id")}))),
        ("/tenant_id", own.with(json!({"tenant_id": tenant}))),
    ];
    for (pointer, body) in table {
        stranger.post("/v1/runs", &body).await.refused_at(pointer);
    }
    stranger.get("/v1/runs").await.fits(&json!({"data": []}));
    run.cancel().await;
}

#[tokio::test]
async fn what_never_was_sounds_the_same() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("Done.")]);
    let run = world.start(&world.agent(&[])).await;
    run.ended().await;
    let (_, stranger) = world.neighbour(&json!({})).await;
    let ask = |path: String| stranger.get(&path).header("x-request-id", "same").send();
    let theirs = ask(run.path("")).await.refused(404, "not_found");
    let never =
        ask("/v1/runs/run_00000000-0000-7000-8000-000000000000".to_owned()).await.refused(404, "not_found");
    assert_eq!(theirs, never);
}
