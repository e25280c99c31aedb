//! Runs that stand on other runs: continued and forked.

use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::{Value, json};

use crate::harness::{Answer, Fits, Run, With, World};

async fn go_on(run: &Run<'_>, body: Value) -> Answer {
    run.world().client.post(&run.path("/continue"), &body).await
}

async fn fork(run: &Run<'_>, body: Value) -> Answer {
    run.world().client.post(&run.path("/fork"), &body).await
}

/// A run that looked, paid 5 and said so.
async fn paid(world: &World) -> Run<'_> {
    world.tools.script(
        "pay",
        [ToolAnswer::json(&json!({"receipt": 12})), ToolAnswer::json(&json!({"receipt": 13}))],
    );
    world.model.script(
        "m",
        [
            ModelReply::calls([("look", json!({}))]),
            ModelReply::calls([("pay", json!({"amount": 5}))]),
            ModelReply::text("Paid."),
        ],
    );
    let run = world.start(&world.agent(&[world.read("look"), world.write("pay")])).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    run
}

#[tokio::test]
async fn a_run_that_a_limit_stopped_goes_on_where_it_was() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([("pay", json!({"amount": 5}))]), ModelReply::text("Paid.")]);
    let agent = world.agent(&[world.write("pay")]).with(json!({"budgets": {"max_steps": 1}}));
    let run = world.start_with(&agent, json!({"metadata": {"order": "7"}, "context": {"user": "u-1"}})).await;
    run.ended().await.fits(&json!({"stop_reason": "max_steps"}));
    let answer = go_on(&run, json!({"budgets": {"max_steps": 4}})).await;
    let location = answer.header("location").map(str::to_owned);
    let more = world.run(&answer.is(201));
    assert_eq!(location, Some(more.path("")));
    more.ended().await.fits(&json!({
        "status": "finished", "final_answer": "Paid.", "attempt": 1, "metadata": {"order": "7"},
        "origin": {"kind": "continue", "run_id": run.id, "after_step": 1},
        "budgets": {"max_steps": 4, "used": {"steps": 2, "tool_calls": 1}},
    }));
    more.list("steps")
        .await
        .fits(&json!([{"number": 1, "tool_calls": [{"tool_name": "pay"}]}, {"number": 2}]));
    more.list("messages").await.fits(&json!([
        {"seq": 1, "role": "user"}, {"seq": 2, "role": "assistant"}, {"seq": 3, "role": "tool"}, {"seq": 4, "content": "Paid."},
    ]));
    world.client.get(&more.path("/steps/1")).await.fits(&json!({"number": 1}));
    more.list("ledger").await.fits(&json!([]));
    more.list("checkpoints").await.fits(&json!([{"seq": 0, "step": 1}]));
    assert_eq!(more.event_types().await[0], "run.queued");
    assert_eq!(world.tools.requests("pay").len(), 1);
    run.now().await.fits(&json!({"status": "failed", "origin": null}));
}

#[tokio::test]
async fn what_can_not_be_continued_says_why() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([("pay", json!({"amount": 5}))])]);
    let run = world.start(&world.agent(&[world.write("pay").with(json!({"risk": "high"}))])).await;
    run.waiting().await;
    go_on(&run, json!({})).await.refused(409, "conflict");
    run.cancel().await;
    run.ended().await;
    go_on(&run, json!({"input": "do it"})).await.refused(409, "conflict");
    let done = paid(&world).await;
    go_on(&done, json!({})).await.refused_at("/input");
    go_on(&done, json!({"input": "again", "budgets": {"max_steps": 2}}))
        .await
        .refused_at("/budgets/max_steps");
    go_on(&done, json!({"input": "again", "after_step": 1})).await.refused_at("/after_step");
    let plain = world.key(&["runs:write", "runs:read"]).await;
    let body = |steps: u32| json!({"input": "again", "budgets": {"max_steps": steps}});
    // Twenty are the agent's, and three were used.
    plain.post(&done.path("/continue"), &body(24)).await.refused(403, "forbidden");
    plain.post(&done.path("/continue"), &body(23)).await.is(201);
    for (after_step, pointer) in
        [(json!(3), "/after_step"), (json!(99), "/after_step"), (json!(-1), "/after_step")]
    {
        fork(&done, json!({"after_step": after_step})).await.refused_at(pointer);
    }
    fork(&done, json!({"after_step": 1, "agent": {"name": "x"}})).await.refused_at("/agent/model");
    let (_, stranger) = world.neighbour(&json!({})).await;
    stranger.post(&done.path("/continue"), &json!({"input": "hi"})).await.refused(404, "not_found");
    stranger.post(&done.path("/fork"), &json!({"after_step": 1})).await.refused(404, "not_found");
}

#[tokio::test]
async fn the_same_request_makes_one_heir() {
    let world = World::shared().await;
    let run = paid(&world).await;
    world.model.script("m", [ModelReply::text("Yes.")]);
    let again = || async {
        let request = world.client.post(&run.path("/continue"), &json!({"input": "sure?"}));
        request.once("k-1").header("prefer", "wait=20").await.is(201)
    };
    let (first, second) = (again().await, again().await);
    first.fits(&json!({"status": "finished", "final_answer": "Yes."}));
    assert_eq!(first["id"], second["id"]);
}

#[tokio::test]
async fn an_unclear_effect_is_taken_from_the_ledger() {
    // Still unclear; a person says that it happened; that it didn't.
    for (word, requests, ends) in [
        (None, 1, "side_effect_uncertain"),
        (Some("applied"), 1, "final_answer"),
        (Some("not_applied"), 2, "final_answer"),
    ] {
        let world = World::shared().await;
        world.tools.script("pay", [ToolAnswer::cut(), ToolAnswer::default()]);
        let pay = ModelReply::calls([("pay", json!({"amount": 5}))]);
        world.model.script("m", [pay.clone(), pay, ModelReply::text("Done.")]);
        let run = world.start(&world.agent(&[world.write("pay")])).await;
        let stopped = run.ended().await;
        stopped.fits(&json!({"stop_reason": "side_effect_uncertain"}));
        let entry = stopped["uncertain"][0].as_str().expect("an entry").to_owned();
        let resolve = |state: &str| json!({"state": state});
        if let Some(word) = word {
            world.client.post(&run.path(&format!("/ledger/{entry}/resolve")), &resolve(word)).await.ok();
        }
        let more = world.run(&go_on(&run, json!({"input": "try again"})).await.is(201));
        let end = more.ended().await;
        end.fits(&json!({"stop_reason": ends}));
        assert_eq!(world.tools.requests("pay").len(), requests, "{word:?}");
        if word.is_none() {
            end.fits(&json!({"uncertain": [entry]}));
            more.calls().await.fits(
                &json!([{"ledger_id": entry}, {"ledger_id": entry, "result": {"status": "uncertain"}}]),
            );
            // The entry may be settled from either run.
            world
                .client
                .post(&more.path(&format!("/ledger/{entry}/resolve")), &resolve("applied"))
                .await
                .ok();
            run.now().await.fits(&json!({"uncertain": []}));
        }
    }
}

#[tokio::test]
async fn what_was_told_to_the_model_and_settled_later_is_no_longer_refused() {
    let world = World::shared().await;
    world.tools.script("pay", [ToolAnswer::cut(), ToolAnswer::default()]);
    let pay = ModelReply::calls([("pay", json!({"amount": 5}))]);
    world.model.script("m", [pay.clone(), ModelReply::text("I don't know."), pay, ModelReply::text("Paid.")]);
    let run = world.start(&world.agent(&[world.write("pay").with(json!({"on_uncertain": "observe"}))])).await;
    let entry = run.ended().await["uncertain"][0].as_str().expect("an entry").to_owned();
    let path = run.path(&format!("/ledger/{entry}/resolve"));
    world.client.post(&path, &json!({"state": "not_applied"})).await.ok();
    let more = world.run(&go_on(&run, json!({"input": "pay again"})).await.is(201));
    more.ended().await.fits(&json!({"final_answer": "Paid."}));
    assert_eq!(world.tools.requests("pay").len(), 2);
}

#[tokio::test]
async fn a_fork_takes_effects_once_or_makes_them_again() {
    let pay = || ModelReply::calls([("pay", json!({"amount": 5}))]);
    let world = World::shared().await;
    let run = paid(&world).await;
    // The first is taken from the ledger, the second is one more.
    world.model.script("m", [pay(), pay(), ModelReply::text("Twice.")]);
    let twice = world.run(&fork(&run, json!({"after_step": 1})).await.is(201));
    twice.ended().await.fits(&json!({
        "final_answer": "Twice.", "thread_id": null, "origin": {"kind": "fork", "after_step": 1},
        "budgets": {"used": {"steps": 4, "tool_calls": 2}},
    }));
    twice.calls().await.fits(&json!([
        {"tool_name": "look"},
        {"result": {"status": "succeeded", "content": "~12"}}, {"result": {"status": "succeeded", "content": "~13"}},
    ]));
    assert_eq!(world.tools.requests("pay").len(), 2);
    let ledger = run.list("ledger").await;
    let taken = twice.calls().await[1]["ledger_id"].clone();
    assert!(ledger.as_array().expect("a list").iter().any(|entry| entry["id"] == taken), "{ledger:#}");
    // A fork of the fork, from a step that it shares with the first run: both effects are the fork's own history.
    world.model.script("m", [pay(), pay(), ModelReply::text("None more.")]);
    let again = world.run(&fork(&twice, json!({"after_step": 1})).await.is(201));
    again.ended().await.fits(&json!({"final_answer": "None more."}));
    assert_eq!(world.tools.requests("pay").len(), 2);
    // And one that is told to.
    world.model.script("m", [pay(), ModelReply::text("Anew.")]);
    let anew = world.run(&fork(&run, json!({"after_step": 1, "effects": "repeat"})).await.is(201));
    anew.ended().await.fits(&json!({"final_answer": "Anew."}));
    assert_eq!(world.tools.requests("pay").len(), 3);
}

#[tokio::test]
async fn a_fork_from_the_beginning_may_be_another_agents() {
    let world = World::shared().await;
    let run = paid(&world).await;
    world.model.script("n", [ModelReply::text("I would not.")]);
    let other =
        json!({"name": "careful", "instructions": "Don't.", "model": {"provider": "main", "model": "n"}});
    let fork =
        world.run(&fork(&run, json!({"after_step": 0, "agent": other, "input": "really?"})).await.is(201));
    fork.ended()
        .await
        .fits(&json!({"final_answer": "I would not.", "budgets": {"used": {"steps": 1, "tool_calls": 0}}}));
    world.model.requests_for("n")[0]["messages"].fits(&json!([
        {"role": "system", "content": "Don't."}, {"role": "user", "content": "go"}, {"role": "user", "content": "really?"},
    ]));
}

#[tokio::test]
async fn a_thread_goes_on_with_its_run_and_a_fork_leaves_it() {
    let world = World::shared().await;
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201)["id"].clone();
    let in_thread = |input: &str| json!({"input": input, "thread_id": thread});
    let calls = || ModelReply::calls([("look", json!({"at": "door"}))]);
    world.model.script(
        "m",
        [ModelReply::text("Hello."), calls(), ModelReply::text("Red."), ModelReply::text("Yes, red.")],
    );
    let agent = world.agent(&[world.read("look")]);
    world.start_with(&agent, in_thread("hi")).await.ended().await;
    let run = world.start_with(&agent, in_thread("what colour?")).await;
    run.ended().await;
    let more = world.run(&go_on(&run, json!({"input": "sure?"})).await.is(201));
    more.ended().await.fits(&json!({"thread_id": thread}));
    let all = ["system", "user", "assistant", "user", "assistant", "tool", "assistant", "user"];
    assert_eq!(roles(&world, 3), all);
    world.model.script("m", [ModelReply::text("Blue."), ModelReply::text("Bye.")]);
    let fork = world.run(&fork(&more, json!({"after_step": 1})).await.is(201));
    fork.ended().await.fits(&json!({"thread_id": null, "final_answer": "Blue."}));
    assert_eq!(roles(&world, 4), all[..6]);
    fork.list("messages").await[0].fits(&json!({"content": "what colour?"}));
    // The next of the thread knows nothing of the fork, and of each word once.
    world.start_with(&agent, in_thread("bye")).await.ended().await;
    assert_eq!(roles(&world, 5), [&all[..], &["assistant", "user"]].concat());
}

fn roles(world: &World, request: usize) -> Vec<String> {
    let request = world.model.requests_for("m")[request].clone();
    let roles = request["messages"].as_array().expect("messages").iter();
    roles.map(|message| message["role"].as_str().expect("a role").to_owned()).collect()
}

#[tokio::test]
async fn an_heir_survives_the_death_of_its_server() {
    let world = World::alone().await;
    let run = paid(&world).await;
    world.model.script(
        "m",
        [ModelReply::calls([("pay", json!({"amount": 5}))]), ModelReply::text("Paid already.").held()],
    );
    let fork = world.run(&fork(&run, json!({"after_step": 1})).await.is(201));
    world.model.requests_reached(5).await;
    world.server.kill();
    world.model.script("m", [ModelReply::text("Paid already.")]);
    world.server.start_again().await;
    fork.ended().await.fits(&json!({"final_answer": "Paid already.", "attempt": 2}));
    assert_eq!(world.tools.requests("pay").len(), 1);
    crate::journal::folds(&fork).await;
}

#[tokio::test]
async fn what_was_used_before_is_on_the_bill_once() {
    let world = World::shared().await;
    let run = paid(&world).await;
    world.model.script("m", [ModelReply::text("Yes.")]);
    let more = world.run(&go_on(&run, json!({"input": "sure?"})).await.is(201));
    let used = more.ended().await["budgets"]["used"]["tokens"].as_u64().expect("tokens");
    let usage = world.client.get("/v1/usage").await.ok();
    let day = &usage["data"][0];
    let billed =
        day["input_tokens"].as_u64().expect("a number") + day["output_tokens"].as_u64().expect("a number");
    assert_eq!((billed, &day["steps"], &day["tool_calls"]), (used, &json!(4), &json!(2)), "{usage:#}");
}
