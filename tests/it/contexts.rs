//! What the model saw and what it did not see, and why; what providers count corrects what is estimated.

use answerable_testkit::ModelReply;
use serde_json::{Value, json};

use crate::harness::{Fits, Run, With, World};

/// A message of some forty tokens.
pub(crate) fn said(role: &str, n: usize) -> Value {
    json!({"role": role, "content": format!("w{n} ").repeat(40)})
}

/// `n` of them, the user and the assistant in turn.
pub(crate) fn talk(n: usize) -> Vec<Value> {
    (1..=n).map(|n| said(if n % 2 == 1 { "user" } else { "assistant" }, n)).collect()
}

pub(crate) async fn step(run: &Run<'_>, number: u32) -> Value {
    run.client().get(&run.path(&format!("/steps/{number}"))).await.ok()
}

/// What was told of a message in a manifest: that it was shown, or why not.
fn why(context: &Value, message: &Value) -> String {
    let is_it = |id: &Value| *id == message["id"];
    if context["included"].as_array().expect("a list").iter().any(is_it) {
        return "included".into();
    }
    let omitted = context["omitted"].as_array().expect("a list").iter();
    let reasons: Vec<&str> =
        omitted.filter(|one| is_it(&one["message_id"])).filter_map(|one| one["reason"].as_str()).collect();
    reasons.join(", ")
}

#[tokio::test]
async fn every_message_was_shown_or_has_a_reason() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("Done.")]);
    let mut input = talk(11);
    input[0]["pinned"] = json!(true);
    let agent = world.agent(&[]).with(json!({"context": {"max_tokens": 200}}));
    let run = world.start_with(&agent, json!({"input": input})).await;
    run.ended().await.fits(&json!({"final_answer": "Done."}));
    let context = step(&run, 1).await["context"].clone();
    let messages = run.list("messages").await;
    let reasons: Vec<String> = (0..11).map(|n| why(&context, &messages[n])).collect();
    assert_eq!(reasons[0], "included", "it is pinned");
    assert_eq!(reasons[10], "included");
    assert!(reasons[1..7].iter().all(|why| why == "over the token budget"), "{reasons:?}");
    context.fits(&json!({"max_tokens": 200, "counter": "estimate", "corrected_by": 1000}));
    let parts = |name: &str| context["parts"][name].as_u64().expect("a number");
    let all = ["instructions", "tools", "output_schema", "summary", "pinned", "history"].map(parts);
    assert_eq!(all.iter().sum::<u64>(), context["tokens"].as_u64().expect("a number"));
    assert!(parts("pinned") > 30 && parts("instructions") > 0 && parts("summary") == 0, "{context:#}");
    let asked = &world.model.requests_for("m")[0];
    assert!(asked.to_string().contains("w1 ") && !asked.to_string().contains("w3 "), "{asked:#}");
}

#[tokio::test]
async fn what_the_provider_counts_corrects_the_next_estimate() {
    let world = World::shared().await;
    world.tools.script("look", [answerable_testkit::ToolAnswer::text("red")]);
    let first = ModelReply::calls([("look", json!({}))]).usage(2_000, 9);
    world.model.script("m", [first, ModelReply::text("Red.").usage(2_100, 5)]);
    let run = world.start_with(&world.agent(&[world.read("look")]), json!({"input": talk(9)})).await;
    run.ended().await.fits(&json!({"final_answer": "Red."}));
    let (one, two) = (step(&run, 1).await, step(&run, 2).await);
    one["context"].fits(&json!({"corrected_by": 1000}));
    let corrected = two["context"]["corrected_by"].as_u64().expect("a number");
    assert!((2_000..3_500).contains(&corrected), "{corrected}");
    let number = |step: &Value, name: &str| step["model"][name].as_u64().expect("a number");
    assert_eq!(number(&one, "estimated_input_tokens"), one["context"]["tokens"].as_u64().expect("a number"));
    assert!(number(&one, "estimated_input_tokens") < 600 && number(&one, "input_tokens") == 2_000);
    let error = number(&two, "input_tokens").abs_diff(number(&two, "estimated_input_tokens"));
    assert!(error < 1_000, "the second estimate is nearer: {two:#}");
}

#[tokio::test]
async fn an_openai_models_tokens_are_counted_as_it_counts_them() {
    let world = World::shared().await;
    world.model.script("gpt-4o-mini", [ModelReply::text("Hello.")]);
    let agent =
        world.agent(&[]).with(json!({"instructions": "hello world", "model": {"model": "gpt-4o-mini"}}));
    let run = world.start_with(&agent, json!({"input": "tiktoken is great!"})).await;
    run.ended().await;
    step(&run, 1).await["context"].fits(&json!({
        "counter": "o200k_base", "tokens": 12, "parts": {"instructions": 2, "history": 10},
    }));
}

#[tokio::test]
async fn a_reply_is_as_long_as_the_money_left_pays_for() {
    let world = World::shared().await;
    let prices = json!({"m": {"input_microusd_per_mtok": 1_000_000, "output_microusd_per_mtok": 10_000_000}});
    world.provider(&world.client, json!({"prices": prices})).await;
    world.model.script("m", [ModelReply::text("Short.").usage(10, 5)]);
    let limits = json!({"budgets": {"max_cost_microusd": 1_000}, "model": {"max_output_tokens": 5_000}});
    let run = world.start(&world.agent(&[]).with(limits)).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    let asked = &world.model.requests_for("m")[0];
    let cap = asked["max_tokens"].as_u64().expect("a cap");
    let estimated = step(&run, 1).await["model"]["estimated_input_tokens"].as_u64().expect("a number");
    assert!(estimated + 10 * cap <= 1_000 && cap > 90, "{cap} after {estimated}");
}

#[tokio::test]
async fn a_model_is_told_what_was_wrong_with_its_answer() {
    let world = World::shared().await;
    world.model.script("m", [r#"{"n": "one"}"#, r#"{"n": 1}"#].map(ModelReply::text));
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let run = world.start(&world.agent(&[]).with(json!({"output_schema": schema}))).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    let asked = world.model.requests_for("m")[1]["messages"].to_string();
    assert!(asked.contains("could not be used: /n: "), "{asked}");
    step(&run, 1).await["model"].fits(&json!({"failures": [
        {"attempt": 1, "error": "output_invalid", "input_tokens": 10, "output_tokens": 5, "duration_ms": "*"},
    ]}));
}
