//! The inbox: what waits for people, across runs.

use answerable_testkit::ModelReply;
use serde_json::{Value, json};

use crate::harness::{Fits, Run, With, World, rules, seconds_from_now};

/// An agent of the store that asks before each of its two tools, for `pay` a minute long and for `mail` an hour.
async fn agent(world: &World) -> String {
    let policy = rules(&[
        json!({"tool": "pay", "effect": "ask", "expires_ms": 60_000}),
        json!({"tool": "mail", "effect": "ask", "expires_ms": 3_600_000}),
    ]);
    let tools = [world.write("pay").with(json!({"risk": "high"})), world.write("mail")];
    let agent = world.client.post("/v1/agents", &world.agent(&tools).with(policy)).await.is(201);
    agent["id"].as_str().expect("an id").to_owned()
}

/// A run that asks for one call of a tool.
async fn asks<'w>(world: &'w World, tool: &'static str, more: Value) -> Run<'w> {
    world.model.script("m", [ModelReply::calls([(tool, json!({"n": 1}))])]);
    let run = world.client.post("/v1/runs", &json!({"input": "go"}).with(more)).await.is(201);
    let run = world.run(&run);
    run.waiting().await;
    run
}

/// Ids of the approvals in a list.
async fn ids(world: &World, query: &str) -> Vec<String> {
    let list = world.client.get(&format!("/v1/approvals?{query}")).await.ok();
    let ids = list["data"].as_array().expect("a list").iter();
    ids.map(|approval| approval["id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test]
async fn every_filter_leaves_what_it_says() {
    let world = World::shared().await;
    let agent_id = agent(&world).await;
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201);
    let paying = asks(&world, "pay", json!({"agent_id": agent_id, "thread_id": thread["id"]})).await;
    let between = seconds_from_now(0.0);
    let mailing = asks(&world, "mail", json!({"agent_id": agent_id})).await;
    let inline = world.agent(&[world.write("pay").with(json!({"risk": "high"}))]);
    let other = asks(&world, "pay", json!({"agent": inline})).await;
    let (first, second, third) = (paying.pending().await, mailing.pending().await, other.pending().await);
    world.client.get(&format!("/v1/approvals/{first}")).await.fits(&json!({
        "agent_id": agent_id, "thread_id": thread["id"], "replaces": null, "void_reason": null,
    }));
    let by = json!({"decision": "deny"});
    let path = format!("/v1/approvals/{third}/decision");
    world.client.post(&path, &by).header("x-acting-user", "ann").await.ok();
    let thread_id = thread["id"].as_str().expect("an id");
    let soon = seconds_from_now(600.0);
    for (query, wanted) in [
        ("".to_owned(), vec![&third, &second, &first]),
        ("status=pending".into(), vec![&second, &first]),
        ("status=denied&tool_name=pay".into(), vec![&third]),
        (format!("agent_id={agent_id}"), vec![&second, &first]),
        (format!("thread_id={thread_id}"), vec![&first]),
        (format!("run_id={}", mailing.id), vec![&second]),
        ("tool_name=pay".into(), vec![&third, &first]),
        ("risk=high".into(), vec![&third, &first]),
        ("kind=tool_call".into(), vec![&third, &second, &first]),
        ("kind=budget".into(), vec![]),
        (format!("status=pending&expires_before={soon}"), vec![&first]),
        (format!("created_before={between}"), vec![&first]),
        (format!("created_after={between}"), vec![&third, &second]),
        ("decided_by=user:ann".into(), vec![&third]),
        ("decided_by=user:bob".into(), vec![]),
        (format!("agent_id={agent_id}&tool_name=pay&risk=high&status=pending"), vec![&first]),
        ("agent_id=agt_00000000-0000-7000-8000-000000000000".into(), vec![]),
        ("thread_id=nonsense".into(), vec![]),
    ] {
        assert_eq!(ids(&world, &query).await.iter().collect::<Vec<_>>(), wanted, "{query}");
        let counts = world.client.get(&format!("/v1/approvals/counts?{query}")).await;
        counts.fits(&json!({"total": wanted.len(), "more": false, "groups": []}));
    }
    for (query, pointer) in [
        ("status=open", "/query/status"),
        ("kind=call", "/query/kind"),
        ("risk=huge", "/query/risk"),
        ("expires_before=soon", "/query/expires_before"),
        ("run_id=nonsense&status=open", "/query/status"),
        ("who=me", "/query/who"),
    ] {
        for path in ["/v1/approvals", "/v1/approvals/counts"] {
            world.client.get(&format!("{path}?{query}")).await.refused_at(pointer);
        }
    }
    let (_, neighbour) = world.neighbour(&json!({})).await;
    neighbour.get(&format!("/v1/approvals?agent_id={agent_id}")).await.fits(&json!({"data": []}));
    neighbour.get("/v1/approvals/counts?group_by=status").await.fits(&json!({"total": 0, "groups": []}));
}

#[tokio::test]
async fn what_must_be_decided_first_comes_first() {
    let world = World::shared().await;
    let agent_id = agent(&world).await;
    let body = json!({"agent_id": agent_id});
    let (hour, minute) = (asks(&world, "mail", body.clone()).await, asks(&world, "pay", body.clone()).await);
    let later = asks(&world, "pay", body).await;
    let wanted = [minute.pending().await, later.pending().await, hour.pending().await];
    assert_eq!(ids(&world, "status=pending&order=expires").await, wanted);
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/approvals?status=pending&order=expires&limit=1{cursor}");
        let page = world.client.get(&path).await.fits(&json!({"data": {"$len": 1}}));
        seen.push(page["data"][0]["id"].as_str().expect("an id").to_owned());
        let Some(next) = page["next_cursor"].as_str() else { break };
        let elsewhere = format!("/v1/approvals?status=pending&cursor={next}");
        world.client.get(&elsewhere).await.refused_at("/query/cursor");
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, wanted);
    for query in ["order=expires", "order=expires&status=denied", "order=oldest&status=pending"] {
        world.client.get(&format!("/v1/approvals?{query}")).await.refused_at("/query/order");
    }
}

#[tokio::test]
async fn approvals_are_counted_by_what_they_share() {
    let world = World::shared().await;
    let agent_id = agent(&world).await;
    let body = json!({"agent_id": agent_id});
    for tool in ["pay", "mail", "pay"] {
        asks(&world, tool, body.clone()).await;
    }
    let inline = world.agent(&[world.write("pay").with(json!({"risk": "high"}))]);
    let denied = asks(&world, "pay", json!({"agent": inline})).await;
    denied.deny("no").await;
    for (query, groups) in [
        ("group_by=status", json!([{"value": "pending", "count": 3}, {"value": "denied", "count": 1}])),
        ("group_by=kind", json!([{"value": "tool_call", "count": 4}])),
        ("group_by=tool_name", json!([{"value": "pay", "count": 3}, {"value": "mail", "count": 1}])),
        ("group_by=agent_id", json!([{"value": agent_id, "count": 3}, {"value": null, "count": 1}])),
        (
            "status=pending&group_by=risk",
            json!([{"value": "high", "count": 2}, {"value": "low", "count": 1}]),
        ),
    ] {
        let counts = world.client.get(&format!("/v1/approvals/counts?{query}")).await;
        counts.fits(&json!({"total": if query.starts_with("status") { 3 } else { 4 }, "groups": groups}));
    }
    world.client.get("/v1/approvals/counts?group_by=reason").await.refused_at("/query/group_by");
    let reader = world.key(&["runs:read"]).await;
    reader.get("/v1/approvals/counts?status=pending").await.fits(&json!({"total": 3}));
    world.key(&["agents:write"]).await.get("/v1/approvals/counts").await.refused(403, "forbidden");
}

#[tokio::test]
async fn each_of_many_decisions_has_a_result_of_its_own() {
    let world = World::shared().await;
    let agent_id = agent(&world).await;
    let body = json!({"agent_id": agent_id});
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(asks(&world, "pay", body.clone()).await);
    }
    let cancelled = asks(&world, "pay", body.clone()).await;
    let gone = cancelled.pending().await;
    cancelled.cancel().await;
    cancelled.ended().await;
    world.model.script("m", [ModelReply::text("Done."), ModelReply::text("Done.")]);
    let open = [runs[0].pending().await, runs[1].pending().await, runs[2].pending().await];
    let stale = format!("sha256:{}", "0".repeat(64));
    let decisions = json!({"decisions": [
        {"approval_id": open[0], "decision": "approve", "input": [1]},
        {"approval_id": open[0], "decision": "approve"},
        {"approval_id": open[1], "decision": "approve", "input_hash": stale},
        {"approval_id": open[0], "decision": "deny"},
        {"approval_id": "nonsense", "decision": "deny"},
        {"approval_id": gone, "decision": "approve"},
        {"approval_id": open[0], "decision": "approve"},
        {"approval_id": open[2], "decision": "deny", "reason": "not today"},
    ]});
    // Of a body that isn't one nothing is decided at all.
    world.client.post("/v1/approvals/decisions", &decisions).await.refused_at("/decisions/0/input");
    let mut decisions = decisions;
    decisions["decisions"][0]["input"] = json!({"n": "x".repeat(10)});
    decisions["decisions"][0]["remember"] = json!({"scope": "thread", "match": "tool"});
    let wanted = json!({"results": [
        {"approval_id": open[0], "status": 422, "problem": {"errors": [{"pointer": "/remember/scope"}]}},
        {"approval_id": open[0], "status": 200, "approval": {"status": "approved"}},
        {"approval_id": open[1], "status": 409, "problem": {"code": "conflict"}},
        {"approval_id": open[0], "status": 409, "problem": {"code": "already_decided"}},
        {"approval_id": "nonsense", "status": 404},
        {"approval_id": gone, "status": 410, "problem": {"code": "expired"}},
        {"approval_id": open[0], "status": 200, "approval": {"status": "approved"}},
        {"approval_id": open[2], "status": 200, "approval": {"status": "denied"}},
    ]});
    let first = world.client.post("/v1/approvals/decisions", &decisions).once("bulk-1").await;
    first.fits(&wanted);
    let again = world.client.post("/v1/approvals/decisions", &decisions).once("bulk-1").await;
    assert!(again.is_replayed());
    again.fits(&wanted);
    runs[0].ended().await.fits(&json!({"status": "finished"}));
    runs[2].ended().await.fits(&json!({"denied": [{"reason": "~not today"}]}));
    runs[1].now().await.fits(&json!({"status": "waiting_approval", "pending_approvals": [{"votes": []}]}));
    assert_eq!(world.tools.effects("pay"), 1);
    let one = json!({"approval_id": open[1], "decision": "deny"});
    for many in [vec![], vec![one; 101]] {
        let body = json!({"decisions": many});
        world.client.post("/v1/approvals/decisions", &body).await.refused_at("/decisions");
    }
}

#[tokio::test]
async fn a_decision_that_is_broken_spoils_no_other() {
    let world = World::alone().await;
    world.expect_errors("a request failed");
    let agent_id = agent(&world).await;
    let body = json!({"agent_id": agent_id});
    let (broken, whole) = (asks(&world, "pay", body.clone()).await, asks(&world, "pay", body).await);
    world.model.script("m", [ModelReply::text("Done."), ModelReply::text("Done.")]);
    let break_it = "UPDATE runs SET policy = '{\"rules\": 7}' WHERE run_id = $1 RETURNING true";
    assert_eq!(world.sql::<bool>(break_it, &broken.id).await, Some(true));
    let edit = json!({"decision": "approve", "input": {"n": 2}});
    let decisions = json!({"decisions": [
        edit.clone().with(json!({"approval_id": broken.pending().await})),
        edit.with(json!({"approval_id": whole.pending().await})),
    ]});
    let decided = json!({"status": 200, "approval": {"status": "approved", "edited_input": {"n": 2}}});
    let failed = json!({"status": 500, "problem": {"code": "internal"}});
    let send = async || world.client.post("/v1/approvals/decisions", &decisions).once("bulk-1").await;
    send().await.fits(&json!({"results": [failed, decided]}));
    whole.ended().await.fits(&json!({"status": "finished"}));
    broken.now().await.fits(&json!({"pending_approvals": [{"status": "pending", "votes": []}]}));
    assert_eq!(world.tools.effects("pay"), 1);
    // The same request again does the rest: what failed by the server's fault is not what is answered for a day.
    let mend_it = "UPDATE runs SET policy = NULL WHERE run_id = $1 RETURNING true";
    assert_eq!(world.sql::<bool>(mend_it, &broken.id).await, Some(true));
    let again = send().await;
    assert!(!again.is_replayed());
    again.fits(&json!({"results": [decided, decided]}));
    broken.ended().await.fits(&json!({"status": "finished"}));
    assert_eq!(world.tools.effects("pay"), 2);
    let kept = send().await;
    assert!(kept.is_replayed());
    kept.fits(&json!({"results": [decided, decided]}));
}
