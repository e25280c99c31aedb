//! A run that is played again unchanged tells the same story, whatever it went through.

use std::time::Duration;

use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::{Value, json};

use crate::harness::recorded::{journal, same_again};
use crate::harness::{Fits, Run, With, World, client_tool, rules, seconds_from_now};

async fn start<'w>(world: &'w World, agent: &Value) -> Run<'w> {
    world.start_with(agent, json!({"metadata": {"order": "7"}, "context": {"user": "u-1"}})).await
}

#[tokio::test]
async fn a_run_with_refusals_retries_and_denials() {
    let world = World::shared().await;
    world.tools.script("look", [ToolAnswer::status(500), ToolAnswer::text("a red door")]);
    world.tools.script("pay", [ToolAnswer::text("the cart is closed").with_status(409)]);
    world.model.script(
        "m",
        [
            ModelReply::status(503),
            ModelReply::calls([("look", json!({"at": "door"})), ("vanish", json!({})), ("wipe", json!({}))])
                .and_text("Let me see."),
            ModelReply::raw_calls([("look", "{\"at\": ".to_owned()), ("look", "{\"at\": 5}".to_owned())]),
            ModelReply::calls([("pay", json!({"amount": 12_345_678_901_234_567_890_u64}))]),
            ModelReply::text("Closed."),
        ],
    );
    let look = world.read("look").with(json!({"retry": {"max_attempts": 2, "backoff_ms": 5}}));
    let look =
        look.with(json!({"input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}}));
    let tools = [look, world.write("pay"), world.write("wipe").with(json!({"risk": "critical"}))];
    let run = start(&world, &world.agent(&tools)).await;
    run.ended().await.fits(&json!({"final_answer": "Closed."}));
    let replay = same_again(&run).await;
    replay.calls().await[0]
        .fits(&json!({"result": {"status": "succeeded", "content": "a red door"}, "ledger_id": null}));
}

#[tokio::test]
async fn a_run_that_people_decided_on() {
    let world = World::shared().await;
    world.model.script(
        "m",
        [
            ModelReply::calls([("pay", json!({"amount": 500})), ("pay", json!({"amount": 6}))]),
            ModelReply::calls([("pay", json!({"amount": 7})), ("pay", json!({"amount": 8}))]),
            ModelReply::text("Done."),
        ],
    );
    let pay =
        world.write("pay").with(json!({"parallel_safe": true, "idempotency_key": "pay:{{input.amount}}"}));
    let ask = json!({"tool": "pay", "effect": "ask"});
    let input = json!({"required": ["amount"], "properties": {"amount": {"const": 8}}});
    let soon = json!({"tool": "pay", "effect": "ask", "expires_ms": 400, "input": input});
    let agent = world.agent(&[pay]).with(rules(&[ask, soon]));
    let run = start(&world, &agent).await;
    run.waiting().await;
    run.decide(&json!({"decision": "approve", "input": {"amount": 50}, "reason": "less"})).await.ok();
    run.decide(&json!({"decision": "deny", "reason": "no"})).await.ok();
    run.waiting().await;
    run.decide(&json!({"decision": "answer", "content": "paid by hand"})).await.ok();
    // Nobody decides on the last one.
    run.ended().await.fits(&json!({"final_answer": "Done.", "denied": {"$len": 2}}));
    let replay = same_again(&run).await;
    let approvals = replay.list("approvals").await;
    approvals.fits(&json!([
        {"status": "approved", "edited_input": {"amount": 50}, "decided_by": "*", "votes": [{"decision": "approve"}]},
        {"status": "denied", "votes": [{"decision": "deny"}]}, {"status": "approved", "votes": [{"decision": "answer"}]},
        {"status": "expired", "votes": []},
    ]));
    world.client.get("/v1/approvals?status=pending").await.fits(&json!({"data": []}));
}

#[tokio::test]
async fn a_run_with_effects_of_which_nobody_knew() {
    let world = World::shared().await;
    for tool in ["pay", "refund", "ship"] {
        world.tools.script(tool, [ToolAnswer::cut()]);
    }
    world.tools.script("find", [ToolAnswer::json(&json!({"state": "applied", "result": {"parcel": 9}}))]);
    let calls = [("pay", json!({"n": 1})), ("refund", json!({"n": 2})), ("ship", json!({"n": 3}))];
    world.model.script(
        "m",
        [ModelReply::calls(calls), ModelReply::calls([("pay", json!({"n": 1}))]), ModelReply::text("Hm.")],
    );
    let find = json!({"reconcile": {"tool": "find", "input": {"key": "{{idempotency_key}}"}}});
    let tools = [
        world.write("pay").with(json!({"on_uncertain": "observe"})),
        world.write("refund").with(json!({"on_uncertain": "ask"})),
        world.write("ship").with(find),
        world.read("find"),
    ];
    let run = start(&world, &world.agent(&tools)).await;
    run.approve().await;
    run.ended().await.fits(&json!({"final_answer": "Hm.", "uncertain": {"$len": 1}}));
    let replay = same_again(&run).await;
    replay.now().await.fits(&json!({"uncertain": []}));
    replay.list("approvals").await.fits(&json!([{"kind": "uncertain_effect", "status": "approved"}]));
}

#[tokio::test]
async fn a_run_with_clients_steering_and_more_budget() {
    let world = World::shared().await;
    world.model.script(
        "m",
        [
            ModelReply::calls([("ask_user", json!({"q": "size?"}))]),
            ModelReply::calls([("look", json!({}))]),
            ModelReply::text("M."),
        ],
    );
    let agent = world.agent(&[client_tool("ask_user"), world.read("look")]);
    let agent = agent.with(json!({"budgets": {"max_steps": 1, "on_exhausted": "ask"}}));
    let run = start(&world, &agent).await;
    let call = run.open_call().await;
    run.steer("be brief").await.is(201);
    run.submit(&call, "size M").await.ok();
    run.waiting().await;
    world.client.patch(&run.path(""), &json!({"budgets": {"max_steps": 2}})).await.ok();
    let waits = |run: &Value| run["pending_approvals"][0]["kind"] == "budget";
    run.when("the second question", waits).await;
    run.decide(&json!({"decision": "deny"})).await.ok();
    run.ended().await.fits(&json!({"stop_reason": "max_steps"}));
    let replay = same_again(&run).await;
    replay.list("approvals").await.fits(&json!([
        {"kind": "budget", "status": "approved", "decided_by": "*"}, {"kind": "budget", "status": "denied", "votes": [{"decision": "deny"}]},
    ]));
    replay.list("messages").await.fits(&json!({"$any": [{"content": "be brief"}]}));
}

#[tokio::test]
async fn runs_that_were_ended() {
    let world = World::shared().await;
    world.tools.script("pay", [ToolAnswer::default().held()]);
    world.model.script("m", [ModelReply::calls([("pay", json!({}))])]);
    let run = start(&world, &world.agent(&[world.write("pay")])).await;
    world.tools.reached("pay", 1).await;
    run.steer("stop that").await.is(201);
    run.cancel().await;
    run.when("its end", |run| run["status"] == "cancelled").await;
    world.tools.release("pay");
    run.ended().await;
    same_again(&run).await;

    world.model.script("slow", [ModelReply::text("too late").delayed(Duration::from_secs(20))]);
    let agent = world.agent(&[]).with(json!({"model": {"model": "slow"}, "budgets": {"timeout_ms": 300}}));
    let run = start(&world, &agent).await;
    run.ended().await.fits(&json!({"stop_reason": "timeout"}));
    same_again(&run).await;

    let run = world.start_with(&world.agent(&[]), json!({"not_before": seconds_from_now(600.0)})).await;
    run.cancel().await;
    run.ended().await;
    same_again(&run).await;

    world.model.script("odd", [ModelReply::text("hello"), ModelReply::text("still no JSON")]);
    let schema = json!({"type": "object", "required": ["n"]});
    let agent = world.agent(&[]).with(json!({"model": {"model": "odd"}, "output_schema": schema}));
    let run = start(&world, &agent).await;
    run.ended().await.fits(&json!({"stop_reason": "output_invalid"}));
    same_again(&run).await;
}

#[tokio::test]
async fn a_run_whose_server_died() {
    let world = World::alone().await;
    world.tools.script("pay", [ToolAnswer::default().held()]);
    world
        .model
        .script("m", [ModelReply::calls([("pay", json!({"amount": 5}))]), ModelReply::text("Nobody knows.")]);
    let run =
        start(&world, &world.agent(&[world.write("pay").with(json!({"on_uncertain": "observe"}))])).await;
    world.tools.reached("pay", 1).await;
    world.server.kill();
    world.server.start_again().await;
    run.ended().await.fits(&json!({"attempt": 2, "final_answer": "Nobody knows."}));
    let replay = same_again(&run).await;
    replay.now().await.fits(&json!({"attempt": 2}));
    let told = journal(&replay).await;
    assert!(told.events().iter().any(|event| event["Recovered"].is_object()), "{told:#?}");
}

#[tokio::test]
async fn runs_that_stand_on_others() {
    let world = World::shared().await;
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201)["id"].clone();
    let pay = || ModelReply::calls([("pay", json!({"amount": 5}))]);
    world.model.script(
        "m",
        [ModelReply::text("Hello."), pay(), ModelReply::text("Paid."), ModelReply::text("Yes.")],
    );
    let agent = world.agent(&[world.write("pay")]);
    world.start_with(&agent, json!({"thread_id": thread, "input": "hi"})).await.ended().await;
    let run = world.start_with(&agent, json!({"thread_id": thread, "input": "pay"})).await;
    run.ended().await.fits(&json!({"final_answer": "Paid."}));
    let replay = same_again(&run).await;
    replay
        .list("messages")
        .await
        .fits(&json!([{"content": "pay"}, {"role": "assistant"}, {"role": "tool"}, {"content": "Paid."}]));

    let more = world.client.post(&run.path("/continue"), &json!({"input": "sure?"})).await.is(201);
    let more = world.run(&more);
    more.ended().await.fits(&json!({"final_answer": "Yes."}));
    let replay = same_again(&more).await;
    replay.now().await.fits(&json!({"origin": {"after_step": 2}, "budgets": {"used": {"steps": 3}}}));
    replay.list("steps").await.fits(&json!([{"number": 1}, {"number": 2}, {"number": 3}]));

    // The effect of before is taken from the ledger, in the fork and in its replay.
    world.model.script("m", [pay(), ModelReply::text("Paid already.")]);
    let fork = world.client.post(&run.path("/fork"), &json!({"after_step": 0})).await.is(201);
    let fork = world.run(&fork);
    fork.ended().await.fits(&json!({"final_answer": "Paid already."}));
    same_again(&fork).await;
    assert_eq!(world.tools.requests("pay").len(), 1);

    // The thread goes on without the replays.
    world.model.script("m", [ModelReply::text("Bye.")]);
    world.start_with(&agent, json!({"thread_id": thread, "input": "bye"})).await.ended().await;
    let shown = world.model.requests_for("m").pop().expect("a request");
    let users =
        shown["messages"].as_array().expect("messages").iter().filter(|message| message["role"] == "user");
    let said: Vec<&Value> = users.map(|message| &message["content"]).collect();
    assert_eq!(said, ["hi", "pay", "sure?", "bye"]);
}

#[tokio::test]
async fn a_long_output_stays_where_it_was() {
    let world = World::shared().await;
    world.tools.script("read_log", [ToolAnswer::text(&"line ".repeat(100))]);
    world.model.script("m", [ModelReply::calls([("read_log", json!({}))]), ModelReply::text("Read.")]);
    let log = world.read("read_log").with(json!({"output": {"max_chars": 50}}));
    let run = start(&world, &world.agent(&[log])).await;
    run.ended().await;
    let replay = same_again(&run).await;
    replay.list("artifacts").await.fits(&json!([]));
    let artifact = replay.calls().await[0]["result"]["artifact_id"].as_str().expect("an artifact").to_owned();
    let content = world.client.get(&format!("/v1/artifacts/{artifact}/content")).await;
    assert_eq!(content.text, "line ".repeat(100));
}
