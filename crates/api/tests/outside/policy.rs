//! Policies, their versions, and what they would say of a call.

use serde_json::{Value, json};

use crate::world::{Reply, World};

/// An agent that pays.
fn agent(more: Value) -> Value {
    let schema = json!({"type": "object", "properties": {"amount": {"type": "integer"}}});
    let tools = json!([{"name": "pay", "kind": "client", "risk": "high", "input_schema": schema}]);
    let mut agent = json!({"name": "desk", "instructions": "", "model": {"provider": "main", "model": "m"}, "tools": tools});
    for (name, value) in more.as_object().into_iter().flatten() {
        agent[name] = value.clone();
    }
    agent
}

/// A tenant with a provider.
async fn world() -> World {
    let world = World::start().await;
    let provider = json!({"kind": "scripted", "script": [{"final": "Done."}]});
    assert_eq!(world.tell("PUT", "/v1/providers/main", provider).await.status, 200);
    world
}

/// Checks a call of `pay`.
async fn check(world: &World, more: Value) -> Reply {
    let mut body = json!({"tool_name": "pay", "input": {"amount": 5}});
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    world.tell("POST", "/v1/policy/check", body).await
}

async fn stored(world: &World, agent: Value) -> String {
    let made = world.tell("POST", "/v1/agents", agent).await;
    made.body["id"].as_str().expect("an id").to_owned()
}

/// Starts a run and gives its id.
async fn run(world: &World, body: Value) -> String {
    let made = world.tell("POST", "/v1/runs", body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.body["id"].as_str().expect("an id").to_owned()
}

fn deny(reason: &str) -> Value {
    json!({"rules": [{"tool": "pay", "effect": "deny", "reason": reason}]})
}

#[tokio::test]
async fn every_version_of_the_policy_is_kept() {
    let world = World::start().await;
    for reason in ["one", "two", "three"] {
        let header = ("x-acting-user", "ann");
        assert_eq!(world.tell_with(header, "PUT", "/v1/policy", deny(reason)).await.status, 200);
    }
    let now = world.tell("GET", "/v1/policy", Value::Null).await.body;
    assert_eq!(
        (&now["version"], &now["updated_by"], &now["rules"][0]["reason"]),
        (&json!(3), &json!("user:ann"), &json!("three"))
    );
    let then = world.tell("GET", "/v1/policy?version=2", Value::Null).await.body;
    assert_eq!((&then["version"], &then["rules"][0]["reason"]), (&json!(2), &json!("two")));
    assert_eq!(world.tell("GET", "/v1/policy?version=4", Value::Null).await.status, 404);
    assert_eq!(world.tell("GET", "/v1/policy?version=0", Value::Null).await.status, 422);
    let page = world.tell("GET", "/v1/policy/versions?limit=2", Value::Null).await.body;
    let numbers = |page: &Value| -> Vec<i64> {
        let rows = page["data"].as_array().expect("rows").iter();
        rows.map(|row| row["version"].as_i64().expect("a number")).collect()
    };
    assert_eq!(numbers(&page), [3, 2]);
    let cursor = page["next_cursor"].as_str().expect("another page");
    let path = format!("/v1/policy/versions?cursor={cursor}");
    assert_eq!(numbers(&world.tell("GET", &path, Value::Null).await.body), [1]);
    let (_, neighbour) = world.new_tenant(json!({})).await;
    let others = world.ask(&neighbour, "GET", "/v1/policy/versions", Value::Null).await;
    assert_eq!(others.body["data"], json!([]));
}

#[tokio::test]
async fn a_check_tells_of_every_policy_and_the_strictest_wins() {
    let world = world().await;
    let rules = json!([{"tool": "pay", "effect": "allow"}, {"tool": "get_*", "effect": "deny"}]);
    let agent = stored(&world, agent(json!({"policy": {"rules": rules}}))).await;
    let told = check(&world, json!({"agent": agent})).await.body;
    assert_eq!(
        (&told["outcome"], &told["policy"], &told["rule"]),
        (&json!("runs"), &json!("agent"), &json!(0))
    );
    assert_eq!(told["policies"].as_array().map(Vec::len), Some(1));
    assert_eq!(told["policies"][0]["rules"][1]["parts"]["tool"]["matched"], false);

    let over = json!({"required": ["amount"], "properties": {"amount": {"minimum": 5}}});
    let ask = json!({"tool": "pay", "input": over, "effect": "ask", "reason": "over 5", "approvals": 2});
    world.tell("PUT", "/v1/policy", json!({"rules": [ask]})).await;
    let told = check(&world, json!({"agent": agent})).await.body;
    assert_eq!((&told["outcome"], &told["reason"]), (&json!("asks"), &json!("over 5")));
    assert_eq!((&told["policy"], &told["policy_version"]), (&json!("tenant"), &json!("1")));
    assert_eq!((&told["approvals"], &told["self_approval"]), (&json!(2), &json!(true)));
    assert_eq!(told["judged_by"].as_array().map(Vec::len), Some(2));
    let less = check(&world, json!({"agent": agent, "input": {"amount": 4}})).await.body;
    assert_eq!(less["outcome"], "runs");
    assert_eq!(less["policies"][1]["rules"][0]["parts"]["input"]["errors"][0]["pointer"], "/amount");

    // A policy that is tried is not stored, and a run's own only tightens.
    let tried = check(&world, json!({"agent": agent, "tenant_policy": {}})).await.body;
    assert_eq!(tried["outcome"], "runs");
    let all = json!({"rules": [{"effect": "allow"}], "default": {"high": "allow", "critical": "allow"}});
    assert_eq!(check(&world, json!({"agent": agent, "policy": all})).await.body["outcome"], "asks");
    let denied = check(&world, json!({"agent": agent, "policy": deny("not in this run")})).await.body;
    assert_eq!((&denied["outcome"], &denied["policy"]), (&json!("denied"), &json!("run")));
    assert_eq!(world.tell("GET", "/v1/policy", Value::Null).await.body["version"], 1);
}

#[tokio::test]
async fn a_check_of_a_runs_call_takes_what_the_run_has() {
    let world = world().await;
    let trial = json!({"required": ["group"], "properties": {"group": {"const": "trial"}}});
    let rules = json!([{"context": trial, "effect": "allow"}, {"tool": "pay", "effect": "ask", "self_approval": false}]);
    let body = json!({"agent": agent(json!({"policy": {"rules": rules}})), "input": "go",
        "context": {"group": "trial"}, "policy": {"max_denials": 1, "on_deny": "stop"}});
    let run = run(&world, body.clone()).await;
    let told = check(&world, json!({"run_id": run})).await.body;
    assert_eq!(
        (&told["outcome"], &told["on_deny"], &told["max_denials"]),
        (&json!("asks"), &json!("stop"), &json!(1))
    );
    assert_eq!(told["policies"][0]["rules"][0]["matched"], true, "the run's context");
    assert_eq!(told["policies"][1]["owner"], "run");
    let other = check(&world, json!({"run_id": run, "context": {}})).await.body;
    assert_eq!(other["policies"][0]["rules"][0]["matched"], false, "another context");
    let shown = world.tell("GET", &format!("/v1/runs/{run}"), Value::Null).await.body;
    assert_eq!(shown["policy"], body["policy"]);
    let other = agent(json!({"policy": deny("another agent")}));
    let told = check(&world, json!({"run_id": run, "agent": other})).await.body;
    assert_eq!((&told["outcome"], &told["reason"]), (&json!("denied"), &json!("another agent")));
}

#[tokio::test]
async fn an_illegal_call_is_rejected_whatever_the_policies_say() {
    let world = world().await;
    let open = agent(json!({"policy": {"rules": [{"effect": "allow"}]}}));
    let told = check(&world, json!({"agent": open, "input": {"amount": "5"}})).await.body;
    assert_eq!((&told["outcome"], &told["effect"]), (&json!("rejected"), &json!("allow")));
    assert_eq!(told["findings"][0]["pointer"], "/amount");
}

#[tokio::test]
async fn what_can_not_be_checked() {
    let world = world().await;
    let plain = agent(json!({}));
    let server = json!({"url": "https://files.example/mcp"});
    assert_eq!(world.tell("PUT", "/v1/mcp_servers/files", server).await.status, 200);
    let mcp = agent(json!({"mcp": [{"server": "files"}]}));
    for (body, pointer) in [
        (json!({"agent": plain, "tool_name": "wipe"}), "/tool_name"),
        (json!({"agent": mcp, "tool_name": "files__read"}), "/tool_name"),
        (json!({"agent": "agt_nothing"}), "/agent"),
        (json!({"agent": "agt_00000000000070008000000000000000"}), "/agent"),
        (
            json!({"agent": agent(json!({"policy": {"rules": [{"effect": "ask", "approvals": 99}]}}))}),
            "/agent/policy/rules/0/approvals",
        ),
        (json!({"run_id": "run_nothing"}), "/run_id"),
        (json!({"agent": plain, "thread_id": "thr_nothing"}), "/thread_id"),
        (
            json!({"agent": plain, "policy": {"rules": [{"effect": "ask", "remind_every_ms": 1}]}}),
            "/policy/rules/0/remind_every_ms",
        ),
        (
            json!({"agent": plain, "tenant_policy": {"rules": [{"effect": "deny", "input": {"type": "x"}}]}}),
            "/tenant_policy/rules/0/input/type",
        ),
        (json!({"agent": plain, "input": [5]}), "/input"),
        (json!({}), ""),
    ] {
        let reply = check(&world, body.clone()).await;
        assert_eq!(reply.status, 422, "{body}: {}", reply.text);
        assert!(reply.pointers().contains(&pointer), "{body}: {}", reply.text);
    }
    let listed = check(&world, json!({"agent": mcp, "tool_name": "files__read"})).await;
    assert!(listed.text.contains("run_id"), "{}", listed.text);
    let (_, neighbour) = world.new_tenant(json!({})).await;
    let run = run(&world, json!({"agent": plain, "input": "go"})).await;
    let body = json!({"tool_name": "pay", "input": {}, "run_id": run});
    assert_eq!(world.ask(&neighbour, "POST", "/v1/policy/check", body).await.pointers(), ["/run_id"]);
}

#[tokio::test]
async fn a_runs_own_policy_must_make_sense() {
    let world = world().await;
    for (policy, pointer) in [
        (
            json!({"rules": [{"effect": "allow", "input": {"properties": {"a": {}}}}]}),
            "/policy/rules/0/input/properties/a",
        ),
        (json!({"rules": [{"effect": "perhaps"}]}), "/policy/rules/0/effect"),
        (json!({"rulez": []}), "/policy/rulez"),
        (json!([]), "/policy"),
        (json!(null), "/policy"),
    ] {
        let body = json!({"agent": agent(json!({})), "input": "go", "policy": policy});
        let refused = world.tell("POST", "/v1/runs", body).await;
        assert_eq!((refused.status, refused.pointers()), (422, vec![pointer]), "{}", refused.text);
    }
}

#[tokio::test]
async fn a_check_with_a_key_is_answered_once() {
    let world = world().await;
    let body = json!({"agent": agent(json!({})), "tool_name": "pay", "input": {}});
    let ask =
        async || world.tell_with(("idempotency-key", "k"), "POST", "/v1/policy/check", body.clone()).await;
    let first = ask().await;
    world.tell("PUT", "/v1/policy", deny("by now")).await;
    let again = ask().await;
    assert_eq!((first.status, again.header("idempotent-replayed")), (200, Some("true")));
    assert_eq!(first.body, again.body);
}
