//! A history that outgrows its room is summed up: once, by the agent's own model, for whoever shares it.

use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::{Value, json};

use crate::contexts::{step, talk};
use crate::harness::recorded::same_again;
use crate::harness::{Fits, Run, With, World};

/// A reply whose provider tells no tokens, so that nothing is corrected.
fn reply(text: &str) -> ModelReply {
    ModelReply::text(text).usage_as(Value::Null)
}

fn agent(world: &World) -> Value {
    world.agent(&[]).with(json!({"context": {"max_tokens": 800, "overflow": "summarize"}}))
}

/// A run whose input doesn't fit.
async fn start(world: &World) -> Run<'_> {
    world.start_with(&agent(world), json!({"input": talk(21)})).await
}

fn is_for_a_summary(request: &Value) -> bool {
    request["messages"][0]["content"].as_str().is_some_and(|text| text.starts_with("Sum up"))
}

async fn summaries(run: &Run<'_>) -> Vec<Value> {
    let messages = run.list("messages").await;
    let all = messages.as_array().expect("a list").clone();
    all.into_iter().filter(|message| message["summary"].is_object()).collect()
}

#[tokio::test]
async fn it_is_made_once_and_stands_for_what_it_covers() {
    let world = World::shared().await;
    world.model.script("m", ["Ann counted to twelve.", "Done."].map(reply));
    let run = start(&world).await;
    let shown = run.ended().await;
    shown.fits(&json!({"final_answer": "Done.", "budgets": {"used": {"steps": 1}}}));
    let asked = world.model.requests_for("m");
    assert_eq!(asked.iter().map(is_for_a_summary).collect::<Vec<_>>(), [true, false]);
    asked[0].fits(&json!({"messages": [{"role": "system"}, {"role": "user", "content": "~user: w1 w1"}]}));
    assert!(asked[0]["tools"].is_null(), "nothing can be called: {:#}", asked[0]);
    asked[1]["messages"][1].fits(&json!({"role": "user", "content": "~Summary of the conversation so far:"}));
    assert!(asked[1].to_string().contains("Ann counted to twelve.") && !asked[1].to_string().contains("w3 "));
    let made = summaries(&run).await;
    made[0].fits(&json!({"role": "user", "seq": 22, "step": 1, "summary": {"upto": "~msg_", "version": 1}}));
    let context = step(&run, 1).await["context"].clone();
    let reason = format!("covered by summary {}", made[0]["id"].as_str().expect("an id"));
    context["omitted"][0].fits(&json!({"reason": reason, "summary_id": made[0]["id"]}));
    assert!(context["parts"]["summary"].as_u64() > Some(5), "{context:#}");
    let types = run.event_types().await;
    assert_eq!(
        types[1..6],
        ["run.started", "context.summarizing", "context.summarized", "step.started", "context.built"]
    );
    let used = shown["budgets"]["used"]["input_tokens"].as_u64().expect("a number");
    let of_step = step(&run, 1).await["model"]["input_tokens"].as_u64().expect("a number");
    assert!(used > of_step + 300, "the summary was paid for: {used}, {of_step}");
    same_again(&run).await;
}

#[tokio::test]
async fn a_thread_and_a_continued_run_go_on_from_it() {
    let world = World::shared().await;
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201)["id"].clone();
    let texts = ["So it began.", "One.", "Two.", "Three.", "And so it went.", "Four."];
    world.model.script("m", texts.map(reply));
    let agent = agent(&world);
    let in_thread = |input: Value| world.start_with(&agent, json!({"input": input, "thread_id": thread}));
    in_thread(json!(talk(21))).await.ended().await.fits(&json!({"final_answer": "One."}));
    let second = in_thread(json!("and then?")).await;
    second.ended().await.fits(&json!({"final_answer": "Two."}));
    assert_eq!(summaries(&second).await.len(), 0, "the one of the run before is reused");
    assert!(world.model.requests_for("m")[2].to_string().contains("So it began."));
    let answer = world.client.post(&second.path("/continue"), &json!({"input": "more"})).await;
    let third = world.run(&answer.is(201));
    third.ended().await.fits(&json!({"final_answer": "Three."}));
    assert!(world.model.requests_for("m")[3].to_string().contains("So it began."));
    let fourth = in_thread(json!(talk(15))).await;
    fourth.ended().await.fits(&json!({"final_answer": "Four."}));
    let newer = summaries(&fourth).await;
    newer[0].fits(&json!({"summary": {"version": 2}, "content": "~And so it went."}));
    let asked = &world.model.requests_for("m")[4];
    assert!(is_for_a_summary(asked) && asked.to_string().contains("So it began."), "{asked:#}");
    let context = step(&fourth, 1).await["context"].clone();
    assert!(context.to_string().contains("superseded summary"), "{context:#}");
}

#[tokio::test]
async fn a_server_that_dies_with_it_leaves_nothing_behind() {
    let world = World::alone().await;
    world.model.script("m", [reply("too late").held(), reply("Ann counted."), reply("Done.")]);
    let run = start(&world).await;
    world.model.requests_reached(1).await;
    run.steer("be brief").await.ok();
    world.server.crash().await;
    run.ended().await.fits(&json!({"final_answer": "Done.", "attempt": 2}));
    let asked = world.model.requests_for("m");
    assert_eq!(asked.iter().map(is_for_a_summary).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(asked[0]["messages"], asked[1]["messages"], "the same is asked again");
    assert!(asked[2].to_string().contains("be brief"), "what was said meanwhile is heard");
    assert_eq!(summaries(&run).await.len(), 1);
}

#[tokio::test]
async fn a_cancel_does_not_wait_for_it() {
    let world = World::shared().await;
    world.model.script("m", [reply("too late").held()]);
    let run = start(&world).await;
    world.model.requests_reached(1).await;
    run.cancel().await;
    run.ended().await.fits(&json!({"status": "cancelled"}));
    assert_eq!(summaries(&run).await.len(), 0);
    world.model.release();
}

#[tokio::test]
async fn where_none_can_be_had_the_oldest_turns_are_left_out() {
    let world = World::shared().await;
    let refused = ModelReply::raw(400, "application/json", r#"{"error": {"message": "no"}}"#);
    world.model.script("m", [ModelReply::status(503), refused, reply("Done.")]);
    let run = start(&world).await;
    run.ended().await.fits(&json!({"final_answer": "Done."}));
    let context = step(&run, 1).await["context"].clone();
    context["omitted"][0].fits(&json!({"reason": "over the token budget"}));
    let events = run.list("events").await;
    let failed = events.as_array().expect("a list").iter();
    let failed: Vec<&Value> = failed.filter(|event| event["type"] == "context.summary_failed").collect();
    failed[0]["data"].fits(&json!({"attempt": 1, "status": 503, "retry_in_ms": "*"}));
    failed[1]["data"].fits(&json!({"attempt": 2, "status": 400}));
    assert!(failed[1]["data"]["retry_in_ms"].is_null() && failed.len() == 2);
    same_again(&run).await;
}

#[tokio::test]
async fn people_are_asked_before_a_history_is_lost() {
    let world = World::shared().await;
    world.model.script("m", ["Ann counted to twelve.", "Done."].map(reply));
    let agent = agent(&world).with(json!({"budgets": {"max_tokens": 500, "on_exhausted": "ask"}}));
    let run = world.start_with(&agent, json!({"input": talk(21)})).await;
    run.waiting().await.fits(&json!({"status": "waiting_approval"}));
    assert_eq!(world.model.requests_for("m").len(), 0);
    world.client.patch(&run.path(""), &json!({"budgets": {"max_tokens": 100_000}})).await.ok();
    run.ended().await.fits(&json!({"final_answer": "Done."}));
    assert_eq!(summaries(&run).await.len(), 1);
}

#[tokio::test]
async fn a_fork_brings_it_along() {
    let world = World::shared().await;
    world.tools.script("look", [ToolAnswer::text("red")]);
    let look = ModelReply::calls([("look", json!({}))]).usage_as(Value::Null);
    world.model.script("m", [reply("Ann counted."), look, reply("Red."), reply("Still red.")]);
    let agent = world.agent(&[world.read("look")]);
    let agent = agent.with(json!({"context": {"max_tokens": 830, "overflow": "summarize"}}));
    let run = world.start_with(&agent, json!({"input": talk(21)})).await;
    run.ended().await.fits(&json!({"final_answer": "Red."}));
    let answer = world.client.post(&run.path("/fork"), &json!({"after_step": 1})).await;
    let fork = world.run(&answer.is(201));
    fork.ended().await.fits(&json!({"final_answer": "Still red."}));
    let asked = world.model.requests_for("m");
    assert_eq!(asked.iter().map(is_for_a_summary).collect::<Vec<_>>(), [true, false, false, false]);
    assert_eq!(asked[2]["messages"], asked[3]["messages"], "the same is shown");
    assert_eq!(summaries(&fork).await, summaries(&run).await);
}

#[tokio::test]
async fn a_script_sums_up_without_an_entry_for_it() {
    let world = World::shared().await;
    let provider =
        json!({"kind": "scripted", "script": [{"final": "Done."}], "options": {"summary": "It was long."}});
    world.client.put("/v1/providers/script", &provider).await.ok();
    let agent = agent(&world).with(json!({"model": {"provider": "script"}}));
    let run = world.start_with(&agent, json!({"input": talk(21)})).await;
    run.ended().await.fits(&json!({"final_answer": "Done."}));
    summaries(&run).await[0].fits(&json!({"content": "Summary of the conversation so far:\nIt was long."}));
}
