//! Another tenant's ids, in every place that takes one: nothing is found there.

use reqwest::Method;
use serde_json::{Value, json};

use super::operations::{For, Operation};
use super::owner::Owner;
use crate::harness::{Answer, Client, Fits, With, World};

/// Operations that the stranger asks without an id of somebody's in the path: what they are answered is their own.
fn is_own(operation: &Operation) -> bool {
    !operation.names_an_id()
}

#[tokio::test]
async fn in_paths_they_are_not_there() {
    let world = World::shared().await;
    let owner = Owner::new(&world).await;
    let (_, stranger) = world.neighbour(&json!({})).await;
    let before = owner.state().await;
    let mut asked = 0;
    for operation in owner.operations() {
        if !matches!(operation.whose, For::Scopes(_)) || is_own(&operation) {
            continue;
        }
        let sent = format!("{} {}", operation.path, operation.body.clone().unwrap_or(Value::Null));
        for headers in [&[][..], &[("accept", "text/event-stream")], &[("prefer", "wait=1")]] {
            let answer = operation.ask_with(&stranger, headers).await;
            owner.is_not_in(&answer, &sent);
            answer.refused(404, "not_found");
            asked += 1;
        }
    }
    assert!(asked > 150, "{asked}");
    assert_eq!(owner.state().await, before, "a stranger changed something");
    owner.run.cancel().await;
}

#[tokio::test]
async fn names_are_each_tenants_own() {
    let world = World::shared().await;
    let owner = Owner::new(&world).await;
    let (_, stranger) = world.neighbour(&json!({})).await;
    let before = owner.state().await;
    let named: Vec<Operation> = owner.operations().into_iter().filter(Operation::names_a_name).collect();
    assert!(named.len() >= 9, "{named:?}");
    for operation in &named {
        if operation.method != Method::PUT {
            let answer = operation.ask(&stranger).await;
            owner.is_not_in(&answer, &operation.path);
            answer.refused(404, "not_found");
        }
    }
    // The stranger's own, of the same names, come and go beside the owner's.
    for method in [Method::PUT, Method::GET, Method::DELETE, Method::GET] {
        for operation in
            named.iter().filter(|operation| operation.method == method && !operation.path.ends_with("/tools"))
        {
            let answer = operation.ask(&stranger).await;
            owner.is_not_in(&answer, &operation.path);
        }
    }
    assert_eq!(owner.state().await, before, "a stranger changed something");
    owner.run.cancel().await;
}

#[tokio::test]
async fn lists_show_ones_own() {
    let world = World::shared().await;
    let owner = Owner::new(&world).await;
    let (_, stranger) = world.neighbour(&json!({})).await;
    let mut lists = 0;
    for operation in owner.operations() {
        let is_list = matches!(operation.whose, For::Scopes(_))
            && operation.method == Method::GET
            && is_own(&operation);
        if !is_list || operation.names_a_name() {
            continue;
        }
        let answer = operation.ask(&stranger).await;
        assert!(answer.status == 200 || answer.status == 404, "{answer}");
        owner.is_not_in(&answer, "");
        lists += 1;
    }
    assert!(lists > 12, "{lists}");
    owner.run.cancel().await;
}

/// Every parameter of a list that an id or a name of the owner's could stand in, and the cursors of the owner's own lists.
#[tokio::test]
async fn filters_and_cursors_lead_to_ones_own() {
    let world = World::shared().await;
    let owner = Owner::new(&world).await;
    let (_, stranger) = world.neighbour(&json!({})).await;
    let id = |name: &str| owner.id(name).to_owned();
    let mut filters = vec![
        "/v1/runs?metadata.order=owners-word".to_owned(),
        format!("/v1/audit?target={}", id("agent_id")),
        format!("/v1/audit?actor={}", id("key_id")),
    ];
    for operation in owner.operations() {
        let own = matches!(operation.whose, For::Scopes(_)) && is_own(&operation) && operation.pages;
        let by = operation.filters.iter().filter(|_| own);
        filters.extend(by.map(|name| format!("{}?{name}={}", operation.path, id(name))));
    }
    assert!(filters.len() > 9, "{filters:?}");
    for filter in filters {
        let answer = stranger.get(&filter).await;
        owner.is_not_in(&answer, &filter);
        answer.fits(&json!({"data": []}));
    }
    let counts = format!("/v1/approvals/counts?run_id={}", id("run_id"));
    stranger.get(&counts).await.fits(&json!({"total": 0}));
    let mut cursors = 0;
    for operation in owner.operations() {
        let takes_cursors =
            operation.pages && matches!(operation.whose, For::Scopes(_)) && is_own(&operation);
        if !takes_cursors {
            continue;
        }
        let path = format!("{}?limit=1", operation.path);
        let first = world.client.get(&path).await;
        let Some(cursor) = first.body["next_cursor"].as_str() else { continue };
        let path = format!("{}?cursor={cursor}", operation.path);
        let answer = stranger.get(&path).await;
        assert!([200, 422].contains(&answer.status), "{answer}");
        owner.is_not_in(&answer, &path);
        cursors += 1;
    }
    assert!(cursors >= 2, "{cursors}");
    owner.run.cancel().await;
}

#[tokio::test]
async fn in_bodies_they_are_unknown() {
    let world = World::shared().await;
    let owner = Owner::new(&world).await;
    let (tenant, stranger) = world.neighbour(&json!({})).await;
    let (before, id) = (owner.state().await, |name: &str| json!(owner.id(name)));
    let own = json!({"agent": world.agent(&[]), "input": "go"});
    let file =
        |artifact: &Value| json!([{"role": "user", "content": [{"type": "file", "artifact_id": artifact}]}]);
    let child =
        world.agent(&[json!({"name": "ask", "kind": "agent", "agent": {"agent_id": id("agent_id")}})]);
    let listed = world.agent(&[]).with(json!({"mcp": [{"server": "shop"}]}));
    let scheduled = |run: Value| json!({"name": "s", "cron": "@yearly", "run": run});
    let table = [
        ("/v1/runs", "/agent_id", json!({"agent_id": id("agent_id"), "input": "go"})),
        ("/v1/runs", "/thread_id", own.clone().with(json!({"thread_id": id("thread_id")}))),
        ("/v1/runs", "/tenant_id", own.clone().with(json!({"tenant_id": tenant}))),
        ("/v1/runs", "/workspace_id", own.clone().with(json!({"workspace_id": id("workspace_id")}))),
        (
            "/v1/runs",
            "/input/0/content/0/artifact_id",
            own.clone().with(json!({"input": file(&id("artifact_id"))})),
        ),
        ("/v1/agents", "/tools/0/agent/agent_id", child),
        ("/v1/agents", "/mcp/0/server", listed),
        ("/v1/agents", "/model/provider", world.agent(&[]).with(json!({"model": {"provider": "shop"}}))),
        ("/v1/schedules", "/run/agent_id", scheduled(json!({"agent_id": id("agent_id"), "input": "go"}))),
        (
            "/v1/schedules",
            "/run/thread_id",
            scheduled(own.clone().with(json!({"thread_id": id("thread_id")}))),
        ),
        (
            "/v1/policy/check",
            "/agent_id",
            json!({"agent_id": id("agent_id"), "calls": [{"tool_name": "pay", "input": {}}]}),
        ),
    ];
    for (path, pointer, body) in table {
        let answer = stranger.post(path, &body).await;
        owner.is_not_in(&answer, &body.to_string());
        answer.refused_at(pointer);
    }
    stranger.get("/v1/runs").await.fits(&json!({"data": []}));
    let bulk = json!({"decisions": [{"approval_id": id("approval_id"), "decision": "approve"}]});
    let decided = stranger.post("/v1/approvals/decisions", &bulk).await;
    owner.is_not_in(&decided, &bulk.to_string());
    decided.fits(&json!({"results": [{"approval_id": id("approval_id"), "problem": {"code": "not_found"}}]}));
    assert_eq!(owner.state().await, before, "a stranger changed something");
    owner.run.cancel().await;
}

/// Keys of requests, keys of runs that shut each other out, and business keys are each tenant's own.
#[tokio::test]
async fn words_that_two_tenants_use_are_two_words() {
    let world = World::shared().await;
    let owner = Owner::new(&world).await;
    let (_, stranger) = world.neighbour(&json!({})).await;
    world.model.script("m", [answerable_testkit::ModelReply::text("Done.")]);
    let thread = |client: &Client| client.post("/v1/threads", &json!({})).once("the-same-key");
    let (theirs, ours) = (thread(&world.client).await, thread(&stranger).await);
    assert!(!ours.is_replayed(), "another tenant's answer: {ours}");
    owner.is_not_in(&ours, "");
    assert_ne!(theirs.is(201)["id"], ours.is(201)["id"]);
    // The owner's run waits, and holds its key.
    let body = json!({"agent": world.agent(&[]), "input": "go", "concurrency_key": "owners-word"});
    let run = stranger.post("/v1/runs", &body).await.is(201);
    let run = world.run(&run).through(&stranger);
    run.ended().await.fits(&json!({"status": "finished"}));
    owner.run.cancel().await;
}

#[tokio::test]
async fn what_never_was_sounds_the_same() {
    let world = World::shared().await;
    let owner = Owner::new(&world).await;
    let (_, stranger) = world.neighbour(&json!({})).await;
    let bare = |answer: Answer| {
        let mut body = answer.body.clone();
        if let Some(fields) = body.as_object_mut() {
            fields.remove("request_id");
        }
        (answer.status, body)
    };
    let mut compared = 0;
    for operation in owner.operations() {
        if !matches!(operation.whose, For::Scopes(_)) || is_own(&operation) {
            continue;
        }
        let mut never = operation.clone();
        for (_, id) in owner.ids.iter().filter(|(name, _)| name.ends_with("_id")) {
            let (kind, _) = id.split_once('_').expect("an id");
            never.path = never.path.replace(id, &format!("{kind}_00000000-0000-7000-8000-000000000000"));
        }
        assert_eq!(
            bare(operation.ask(&stranger).await),
            bare(never.ask(&stranger).await),
            "{}",
            operation.name()
        );
        compared += 1;
    }
    assert!(compared > 50, "{compared}");
    owner.run.cancel().await;
}
