//! An agent that calls another one: each call is a run of its own, which its caller waits for and pays for.

use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::{Value, json};

use crate::harness::recorded::{replay, same_again};
use crate::harness::{Fits, Run, With, World, client_tool, traces};

/// Stores an agent that asks the model `model`; gives its id.
pub(crate) async fn agent(world: &World, model: &str, tools: &[Value], changes: Value) -> Value {
    let spec = world.agent(tools).with(json!({"name": model, "model": {"model": model}})).with(changes);
    world.client.post("/v1/agents", &spec).await.is(201)["id"].clone()
}

/// A tool that calls an agent.
pub(crate) fn agent_tool(name: &str, agent_id: &Value) -> Value {
    json!({"name": name, "kind": "agent", "agent": {"agent_id": agent_id}})
}

/// The run that the nth call of a run began, as soon as it is there.
pub(crate) async fn child<'w>(run: &Run<'w>, nth: usize) -> Run<'w> {
    for _ in 0..800 {
        let calls = run.calls().await;
        if let Some(id) = calls[nth]["child_run_id"].as_str() {
            return run.world().run(&json!({"id": id}));
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    panic!("call {nth} began no run: {:#}", run.calls().await)
}

fn asks(tool: &str, input: &str) -> ModelReply {
    ModelReply::calls([(tool, json!({"input": input}))])
}

#[tokio::test]
async fn a_call_is_a_run_of_its_own_that_stands_below_its_callers() {
    let world = World::shared().await;
    world.tools.script("look", [ToolAnswer::text("a red door")]);
    let painter = agent(&world, "painter", &[world.read("look")], json!({})).await;
    world.model.script("painter", [ModelReply::calls([("look", json!({}))]), ModelReply::text("It is red.")]);
    world.model.script("m", [asks("ask_painter", "Which colour?"), ModelReply::text("Red, he says.")]);
    let caller = world.agent(&[agent_tool("ask_painter", &painter)]);
    let run = world.start_with(&caller, json!({"context": {"user": "u-1"}})).await;
    let end = run.ended().await;
    end.fits(
        &json!({"status": "finished", "final_answer": "Red, he says.", "parent": null, "uncertain": []}),
    );
    let below = child(&run, 0).await;
    let child_end = below.ended().await;
    let call = run.calls().await[0].clone();
    child_end.fits(&json!({
        "status": "finished", "final_answer": "It is red.", "agent_id": painter, "agent_version": 1, "thread_id": null,
        "parent": {"run_id": run.id, "tool_call_id": call["id"]}, "trace_id": end["trace_id"],
        "workspace_root": end["workspace_root"], "budgets": {"used": {"steps": 2, "tool_calls": 1, "tokens": 30}},
    }));
    call.fits(&json!({"child_run_id": below.id, "result": {"status": "succeeded", "content": "It is red."}}));
    below.list("messages").await.fits(&json!([{"role": "user", "content": "Which colour?"}, {}, {}, {}]));
    assert!(world.model.requests_for("m")[1].to_string().contains("It is red."));
    // What the child used is used; its steps and calls are its own.
    end.fits(&json!({"budgets": {"used": {"steps": 2, "tool_calls": 1, "tokens": 60}}}));
    run.list("ledger").await.fits(&json!([
        {"tool_name": "ask_painter", "status": "succeeded", "side_effect": "committed", "attempts": 1, "id": call["ledger_id"]},
    ]));
    let usage = world.client.get("/v1/usage?group_by=day").await.ok();
    let tokens =
        |row: &Value| row["input_tokens"].as_u64().unwrap_or(0) + row["output_tokens"].as_u64().unwrap_or(0);
    assert_eq!(usage["data"].as_array().expect("a list").iter().map(tokens).sum::<u64>(), 60, "{usage:#}");
    // Its spans hang below the call's.
    let of_call = traces::of(&run).await.into_iter().find(|span| span.name == "tool.call").expect("a span");
    assert_eq!(of_call.get("answerable.tool.child_run_id"), &json!(below.id));
    let root = traces::of(&below).await.into_iter().find(|span| span.name == "agent.run").expect("a span");
    assert_eq!(root.parent.as_ref(), Some(&of_call.id));
    assert!(of_call.began <= root.began && root.ended <= of_call.ended, "{of_call:?} {root:?}");
    let own = traces::of(&run).await.into_iter().find(|span| span.name == "agent.run").expect("a span");
    assert_eq!(own.get("answerable.input_tokens"), &json!(20));
}

#[tokio::test]
async fn the_newest_version_is_pinned_when_the_call_begins() {
    let world = World::shared().await;
    let helper = agent(&world, "one", &[], json!({})).await;
    let newer = world.agent(&[]).with(json!({"model": {"model": "two"}}));
    let old = agent_tool("ask_old", &helper).with(json!({"agent": {"agent_version": 1}}));
    let tools = [agent_tool("ask_new", &helper), old, client_tool("ask_user")];
    world.model.script("one", [ModelReply::text("first")]);
    world.model.script("two", [ModelReply::text("second")]);
    let calls = [("ask_new", json!({"input": "?"})), ("ask_old", json!({"input": "?"}))];
    let replies =
        [ModelReply::calls([("ask_user", json!({}))]), ModelReply::calls(calls), ModelReply::text("Both.")];
    world.model.script("m", replies);
    let run = world.start(&world.agent(&tools)).await;
    let open = run.open_call().await;
    world.client.put(&format!("/v1/agents/{}", helper.as_str().expect("an id")), &newer).await.ok();
    run.submit(&open, "go on").await.ok();
    run.ended().await.fits(&json!({"final_answer": "Both."}));
    let results = run.calls().await;
    results.fits(&json!([{}, {"result": {"content": "second"}}, {"result": {"content": "first"}}]));
    child(&run, 1).await.now().await.fits(&json!({"agent_version": 2}));
    child(&run, 2).await.now().await.fits(&json!({"agent_version": 1}));
}

#[tokio::test]
async fn several_work_at_once_and_share_what_there_is() {
    let world = World::shared().await;
    let helper = agent(&world, "helper", &[], json!({})).await;
    world.model.script(
        "helper",
        [ModelReply::text("a").held(), ModelReply::text("b").held(), ModelReply::text("c").held()],
    );
    let calls: Vec<_> = ["x", "y", "z"].map(|input| ("ask", json!({"input": input}))).into();
    world.model.script("m", [ModelReply::calls(calls), ModelReply::text("Done.")]);
    let tool = agent_tool("ask", &helper).with(json!({"parallel_safe": true, "side_effect": "none"}));
    let budgets = json!({"budgets": {"max_tokens": 30_015, "max_cost_microusd": 900}});
    let run = world.start(&world.agent(&[tool]).with(budgets)).await;
    world.model.requests_reached(4).await;
    run.now()
        .await
        .fits(&json!({"status": "waiting_tool", "pending_tool_calls": [], "pending_approvals": []}));
    for nth in 0..3 {
        let limits = child(&run, nth).await.now().await;
        limits.fits(&json!({"budgets": {"max_tokens": 10_000, "max_cost_microusd": 300}}));
    }
    (0..3).for_each(|_| world.model.release());
    run.ended()
        .await
        .fits(&json!({"status": "finished", "budgets": {"used": {"tokens": 75, "tool_calls": 3}}}));
    run.list("ledger")
        .await
        .fits(&json!([{"side_effect": "none"}, {"side_effect": "none"}, {"side_effect": "none"}]));
    same_again(&run).await;
}

#[tokio::test]
async fn a_child_that_fails_says_what_it_left_behind() {
    let world = World::shared().await;
    // (what the child does, how its call is told, its entry)
    let table = [
        ("spent", json!({"status": "failed", "error_code": "BUDGET_EXHAUSTED"}), ("failed", "none")),
        ("paid", json!({"status": "failed", "error_code": "BUDGET_EXHAUSTED"}), ("failed", "committed")),
        (
            "unsure",
            json!({"status": "uncertain", "error_code": "SIDE_EFFECT_UNCERTAIN"}),
            ("uncertain", "possible"),
        ),
    ];
    for (what, result, (status, side_effect)) in table {
        let tools = [world.write("pay"), world.write("send"), world.read("look")];
        let one_step = json!({"budgets": {"max_steps": 1}});
        let helper = agent(&world, what, &tools, one_step).await;
        world.tools.script("send", [ToolAnswer::cut()]);
        let tool = match what {
            "paid" => "pay",
            "unsure" => "send",
            _ => "look",
        };
        world.model.script(what, [ModelReply::calls([(tool, json!({}))])]);
        let caller = format!("{what}-caller");
        world.model.script(&caller, [asks("ask", "do it"), ModelReply::text("I see.")]);
        let ask = agent_tool("ask", &helper).with(json!({"on_uncertain": "observe"}));
        let run = world.start(&world.agent(&[ask]).with(json!({"model": {"model": caller}}))).await;
        run.ended().await.fits(&json!({"status": "finished", "final_answer": "I see."}));
        run.calls().await.fits(&json!([{"result": result}]));
        let ledger = run.list("ledger").await;
        ledger.fits(&json!([{"status": status, "side_effect": side_effect}]));
        let told = world.model.requests_for(&caller)[1].to_string();
        assert!(told.contains("This run was stopped"), "{told}");
        same_again(&run).await;
    }
}

#[tokio::test]
async fn an_effect_shows_though_its_tool_was_said_to_have_none() {
    let world = World::shared().await;
    let helper = agent(&world, "helper", &[world.write("pay")], json!({"budgets": {"max_steps": 1}})).await;
    world.model.script("helper", [ModelReply::calls([("pay", json!({}))])]);
    world.model.script("m", [asks("ask", "look only"), ModelReply::text("Oh.")]);
    let ask = agent_tool("ask", &helper).with(json!({"side_effect": "none"}));
    let run = world.start(&world.agent(&[ask])).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    run.list("ledger").await.fits(&json!([{"status": "failed", "side_effect": "committed"}]));
}

#[tokio::test]
async fn people_decide_within_a_child_as_anywhere() {
    let world = World::shared().await;
    let helper =
        agent(&world, "helper", &[world.write("pay").with(json!({"risk": "high"}))], json!({})).await;
    world
        .model
        .script("helper", [ModelReply::calls([("pay", json!({"amount": 5}))]), ModelReply::text("Paid.")]);
    world.model.script("m", [asks("ask", "pay"), ModelReply::text("Thanks.")]);
    let run = world.start(&world.agent(&[agent_tool("ask", &helper)])).await;
    let below = child(&run, 0).await;
    let approval = below.pending().await;
    run.now().await.fits(&json!({"status": "waiting_tool", "pending_approvals": []}));
    let inbox = world.client.get("/v1/approvals?status=pending").await.ok();
    inbox.fits(&json!({"data": [{"id": approval, "run_id": below.id}]}));
    below.approve().await;
    run.ended().await.fits(&json!({"status": "finished", "final_answer": "Thanks."}));
    assert_eq!(world.tools.effects("pay"), 1);
}

#[tokio::test]
async fn agents_go_four_deep_and_no_deeper() {
    let world = World::shared().await;
    // Each calls the next; the last one tries to.
    let mut next = agent(&world, "level-5", &[], json!({})).await;
    for level in (1..=4).rev() {
        next = agent(&world, &format!("level-{level}"), &[agent_tool("down", &next)], json!({})).await;
    }
    for level in 1..=4 {
        let said = ModelReply::text(&format!("level {level} is back"));
        world.model.script(&format!("level-{level}"), [asks("down", "further"), said]);
    }
    world.model.script("m", [asks("down", "further"), ModelReply::text("Up again.")]);
    let run = world.start(&world.agent(&[agent_tool("down", &next)])).await;
    run.ended().await.fits(&json!({"final_answer": "Up again.", "budgets": {"used": {"tokens": 150}}}));
    let mut deepest = child(&run, 0).await;
    for _ in 0..3 {
        deepest = child(&deepest, 0).await;
    }
    deepest.ended().await;
    deepest.calls().await.fits(&json!([
        {"child_run_id": null, "ledger_id": null, "result": {"status": "failed", "error_code": "UNAVAILABLE", "content": "~4 deep"}},
    ]));
    assert_eq!(world.model.requests_for("level-5").len(), 0);
    // A replay of it is as deep.
    same_again(&deepest).await;
}

#[tokio::test]
async fn its_limits_are_the_lowest_of_all_and_what_it_uses_is_used() {
    let world = World::shared().await;
    let helper =
        agent(&world, "helper", &[], json!({"budgets": {"max_steps": 7, "max_tool_calls": 9}})).await;
    world.model.script("helper", [ModelReply::text("long").usage(700, 200).held()]);
    world.model.script("m", [asks("ask", "?"), ModelReply::text("never said")]);
    let ask = agent_tool("ask", &helper)
        .with(json!({"agent": {"budgets": {"max_steps": 3, "max_tool_calls": 99}}}));
    let agent = world.agent(&[ask]).with(json!({"budgets": {"max_tokens": 915, "timeout_ms": 50_000}}));
    let run = world.start(&agent).await;
    world.model.requests_reached(2).await;
    let below = child(&run, 0).await;
    // Whoever may raise limits to the agent's may not take more than the caller gave.
    let more = json!({"budgets": {"max_steps": 4}});
    world.key(&["runs:write"]).await.patch(&below.path(""), &more).await.refused(403, "forbidden");
    world.model.release();
    run.ended().await.fits(
        &json!({"status": "failed", "stop_reason": "max_tokens", "budgets": {"used": {"tokens": 915}}}),
    );
    let limits = below.ended().await["budgets"].clone();
    limits.fits(&json!({"max_steps": 3, "max_tool_calls": 9, "max_tokens": 900}));
    assert!(limits["timeout_ms"].as_u64().is_some_and(|ms| (40_000..=50_000).contains(&ms)), "{limits:#}");
}

#[tokio::test]
async fn a_cancel_reaches_all_that_stand_below() {
    let world = World::shared().await;
    world.tools.script("pay", [ToolAnswer::default().held()]);
    let deep = agent(&world, "deep", &[world.write("pay")], json!({})).await;
    let middle = agent(&world, "middle", &[agent_tool("ask_deep", &deep)], json!({})).await;
    world.model.script("deep", [ModelReply::calls([("pay", json!({}))])]);
    world.model.script("middle", [asks("ask_deep", "pay")]);
    world.model.script("m", [asks("ask_middle", "pay")]);
    let run = world.start(&world.agent(&[agent_tool("ask_middle", &middle)])).await;
    world.tools.reached("pay", 1).await;
    let (below, lowest) = (child(&run, 0).await, child(&child(&run, 0).await, 0).await);
    run.cancel().await;
    run.when("its end", |run| run["status"] == "cancelled").await;
    below.when("its end", |run| run["status"] == "cancelled").await;
    lowest.when("its end", |run| run["status"] == "cancelled").await;
    // The write that was out is waited for; then everybody above knows.
    world.tools.release("pay");
    lowest.ledger_where(|ledger| ledger[0]["status"] == "succeeded").await;
    for run in [&below, &run] {
        let ledger = run.ledger_where(|ledger| ledger[0]["side_effect"] == "committed").await;
        ledger.fits(&json!([{"status": "failed", "error_code": "CANCELLED"}]));
    }
    for run in [&run, &below, &lowest] {
        run.ended().await.fits(&json!({"status": "cancelled", "uncertain": []}));
    }
}

#[tokio::test]
async fn a_call_has_its_time() {
    let world = World::shared().await;
    let helper = agent(&world, "helper", &[], json!({})).await;
    world.model.script("helper", [ModelReply::text("too late").held()]);
    world.model.script("m", [asks("ask", "?"), ModelReply::text("Nobody there.")]);
    let ask = agent_tool("ask", &helper).with(json!({"timeout_ms": 500}));
    let run = world.start(&world.agent(&[ask])).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    run.calls().await.fits(&json!([{"result": {"status": "failed", "error_code": "TIMEOUT"}}]));
    run.list("ledger").await.fits(&json!([{"status": "failed", "side_effect": "none"}]));
    child(&run, 0).await.ended().await.fits(&json!({"status": "cancelled"}));
    same_again(&run).await;
}

#[tokio::test]
async fn only_agents_that_are_there_can_be_called() {
    let world = World::shared().await;
    let helper = agent(&world, "helper", &[], json!({})).await;
    let stored = async |tool: Value| {
        let spec = world.agent(&[client_tool("a"), tool]);
        world.client.post("/v1/agents", &spec).await
    };
    let nobody = json!("agt_00000000-0000-7000-8000-000000000000");
    stored(agent_tool("ask", &nobody)).await.refused_at("/tools/1/agent/agent_id");
    let version = agent_tool("ask", &helper).with(json!({"agent": {"agent_version": 2}}));
    stored(version).await.refused_at("/tools/1/agent/agent_version");
    let (_, other) = world.neighbour(&json!({})).await;
    let foreign = world.agent(&[agent_tool("ask", &helper)]);
    other.post("/v1/agents", &foreign).await.refused_at("/tools/0/agent/agent_id");
    let inline = json!({"agent": world.agent(&[agent_tool("ask", &nobody)]), "input": "go"});
    world.client.post("/v1/runs", &inline).await.refused_at("/agent/tools/0/agent/agent_id");
    // One that goes while the run lives.
    let tools = [agent_tool("ask", &helper), client_tool("ask_user")];
    world.model.script(
        "m",
        [ModelReply::calls([("ask_user", json!({}))]), asks("ask", "?"), ModelReply::text("Gone.")],
    );
    let run = world.start(&world.agent(&tools)).await;
    let open = run.open_call().await;
    world.client.delete(&format!("/v1/agents/{}", helper.as_str().expect("an id"))).await.is(204);
    stored(agent_tool("ask", &helper)).await.refused_at("/tools/1/agent/agent_id");
    run.submit(&open, "go on").await.ok();
    run.ended().await.fits(&json!({"final_answer": "Gone."}));
    run.calls().await.fits(
        &json!([{}, {"result": {"status": "failed", "error_code": "NOT_FOUND"}, "child_run_id": null}]),
    );
}

#[tokio::test]
async fn a_replay_plays_what_the_child_said_and_begins_none() {
    let world = World::shared().await;
    let helper = agent(&world, "helper", &[], json!({})).await;
    world.model.script("helper", [ModelReply::text("seven")]);
    world.model.script("m", [asks("ask", "how many?"), ModelReply::text("Seven.")]);
    let run = world.start(&world.agent(&[agent_tool("ask", &helper)])).await;
    run.ended().await;
    let asked = world.model.requests().len();
    let once = same_again(&run).await;
    once.calls().await.fits(&json!([{"result": {"content": "seven"}, "child_run_id": null}]));
    let changed = replay(&run, json!({"agent": world.agent(&[agent_tool("ask", &helper)]).with(json!({"instructions": "Be kind."}))})).await;
    changed.now().await.fits(&json!({"final_answer": "Seven."}));
    assert_eq!(world.model.requests().len(), asked);
    // As a case, the call is one of a tool that its world plays.
    let case = world.client.get(&run.path("/export")).await.ok();
    case.fits(&json!({"tools": [{"tool_name": "ask", "outcome": "succeeded", "content": "seven", "input": {"input": "how many?"}}]}));
}

#[tokio::test]
async fn a_run_goes_with_those_that_it_called() {
    let world = World::shared().await;
    let helper = agent(&world, "helper", &[], json!({})).await;
    world.model.script("helper", [ModelReply::text("seven")]);
    world.model.script("m", [asks("ask", "how many?"), ModelReply::text("Seven.").held()]);
    let run = world.start(&world.agent(&[agent_tool("ask", &helper)])).await;
    world.model.requests_reached(3).await;
    let below = child(&run, 0).await;
    world.client.delete(&run.path("")).await.refused(409, "conflict");
    world.model.release();
    run.ended().await;
    let before = world.client.get("/v1/usage?group_by=day").await.ok();
    world.client.delete(&run.path("")).await.is(204);
    world.client.get(&run.path("")).await.refused(404, "not_found");
    world.client.get(&below.path("")).await.refused(404, "not_found");
    assert_eq!(
        world.client.get("/v1/usage?group_by=day").await.ok()["data"][0]["input_tokens"],
        before["data"][0]["input_tokens"]
    );
}

#[tokio::test]
async fn who_goes_on_from_before_the_call_takes_what_came_of_it() {
    let world = World::shared().await;
    let helper = agent(&world, "helper", &[world.write("pay")], json!({})).await;
    world.model.script("helper", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("paid")]);
    let again = [asks("ask", "pay"), ModelReply::text("Paid.")];
    world.model.script("m", again.clone());
    let run = world.start(&world.agent(&[agent_tool("ask", &helper)])).await;
    run.ended().await;
    world.model.script("m", again);
    let fork = world.client.post(&run.path("/fork"), &json!({"after_step": 0})).await.is(201);
    let fork = world.run(&fork);
    fork.ended().await.fits(&json!({"final_answer": "Paid.", "parent": null}));
    fork.calls()
        .await
        .fits(&json!([{"result": {"status": "succeeded", "content": "paid"}, "child_run_id": null}]));
    assert_eq!((world.model.requests_for("helper").len(), world.tools.effects("pay")), (2, 1));
    // A run that goes on where a child ended is nobody's.
    let below = child(&run, 0).await;
    world.model.script("helper", [ModelReply::text("You are welcome.")]);
    let more = json!({"input": "Thanks."});
    let heir = world.run(&world.client.post(&below.path("/continue"), &more).await.is(201));
    heir.ended().await.fits(&json!({"final_answer": "You are welcome.", "parent": null}));
}
