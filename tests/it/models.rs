//! The model's side: both forms of its answers, its failures, its odd replies.

use std::time::{Duration, Instant};

use answerable_testkit::ModelReply;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Fits, With, World};

#[tokio::test]
async fn answers_come_whole_or_as_a_stream() {
    for is_streaming in [true, false] {
        let world = World::shared().await;
        world.provider(&world.client, json!({"options": {"stream": is_streaming}})).await;
        let call = ModelReply::calls([("look", json!({"at": "дверь"}))]).and_text("I look.");
        world.model.script("m", [call, ModelReply::text("A red door.").usage(100, 7)]);
        let run = world.start(&world.agent(&[world.read("look")])).await;
        run.ended().await.fits(&json!({
            "final_answer": "A red door.", "budgets": {"used": {"input_tokens": 110, "output_tokens": 12}},
        }));
        run.calls().await.fits(&json!([{"input": {"at": "дверь"}, "result": {"status": "succeeded"}}]));
        let asked = &world.model.requests_for("m")[0];
        assert_eq!(asked["stream"] == true, is_streaming, "{asked}");
    }
}

#[tokio::test]
async fn failures_that_pass_are_tried_again() {
    let failures = [
        ModelReply::status(408),
        ModelReply::status(429),
        ModelReply::status(500),
        ModelReply::status(503),
        ModelReply::status(529),
        ModelReply::dropped(),
        ModelReply::text("It is do").cut_after(60),
        ModelReply::raw(200, "text/event-stream", "data: {\"error\": {\"message\": \"overloaded\"}}\n\n"),
        ModelReply::raw(200, "application/json", "{\"choices\": ["),
    ];
    join_all(failures.map(async |failure| {
        let world = World::shared().await;
        world.model.script("m", [failure, ModelReply::text("It is done.")]);
        let run = world.start(&world.agent(&[])).await;
        run.ended().await.fits(&json!({"status": "finished", "final_answer": "It is done."}));
        run.list("steps")
            .await
            .fits(&json!([{"model": {"attempts": 2, "failures": [{"attempt": 1, "error": "*"}]}}]));
        run.list("events").await.fits(&json!({"$any": [{"type": "model.failed", "data": {"attempt": 1}}]}));
    }))
    .await;
}

#[tokio::test]
async fn a_failure_that_stays_ends_the_run() {
    let table = [(ModelReply::status(500), 3), (ModelReply::status(400), 1), (ModelReply::status(401), 1)];
    join_all(table.map(async |(failure, attempts)| {
        let world = World::shared().await;
        world.model.script("m", [failure]);
        world.model.repeat_last("m");
        let run = world.start(&world.agent(&[])).await;
        run.ended()
            .await
            .fits(&json!({"status": "failed", "stop_reason": "model_error", "error": {"step": 1}}));
        assert_eq!(world.model.requests_for("m").len(), attempts);
    }))
    .await;
}

#[tokio::test]
async fn an_unknown_provider_is_refused_or_ends_the_run() {
    let world = World::shared().await;
    let agent = world.agent(&[]).with(json!({"model": {"provider": "nobody"}}));
    let answer = world.client.post("/v1/runs", &json!({"agent": agent, "input": "go"})).await;
    if answer.status == 201 {
        world.run(&answer.body).ended().await.fits(&json!({"stop_reason": "model_error"}));
    } else {
        answer.refused_at("/agent/model/provider");
    }
}

#[tokio::test]
async fn a_given_time_is_waited_for() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::status(429).header("retry-after", "1"), ModelReply::text("Now.")]);
    let begun = Instant::now();
    let run = world.start(&world.agent(&[])).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    assert!(begun.elapsed() >= Duration::from_millis(1000), "{:?}", begun.elapsed());
    run.list("events").await.fits(
        &json!({"$any": [{"type": "model.failed", "data": {"status": 429, "retry_in_ms": {"$ge": 900}}}]}),
    );
}

#[tokio::test]
async fn a_time_beyond_the_budget_is_not_waited_for() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::status(429).header("retry-after", "3600")]);
    let run = world.start(&world.agent(&[])).await;
    run.ended().await.fits(&json!({"stop_reason": "model_error", "error": {"code": "rate_limited"}}));
}

#[tokio::test]
async fn a_slow_attempt_is_given_up_and_counted() {
    let world = World::shared().await;
    world.model.script(
        "m",
        [ModelReply::text("too late").delayed(Duration::from_secs(2)), ModelReply::text("In time.")],
    );
    let agent = world.agent(&[]).with(json!({"model": {"timeout_ms": 250}}));
    let run = world.start(&agent).await;
    run.ended().await.fits(&json!({"final_answer": "In time.", "budgets": {"used": {"steps": 1}}}));
    run.list("steps").await.fits(&json!([{"model": {"attempts": 2}}]));
}

#[tokio::test]
async fn fallbacks_follow_used_up_attempts() {
    for failure in [ModelReply::status(500), ModelReply::status(401), ModelReply::status(404)] {
        let world = World::shared().await;
        world.model.script("m", [failure]);
        world.model.repeat_last("m");
        world.model.script("alt", [ModelReply::text("From the other.")]);
        let agent =
            world.agent(&[]).with(json!({"model": {"fallbacks": [{"provider": "main", "model": "alt"}]}}));
        let run = world.start(&agent).await;
        run.ended().await.fits(&json!({"final_answer": "From the other."}));
        run.list("steps").await.fits(&json!([{"model": {"model": "alt"}}]));
    }
}

#[tokio::test]
async fn a_cut_or_empty_reply_is_asked_for_once_more() {
    let call = || ModelReply::calls([("pay", json!({}))]).finish_reason("length");
    let table = [
        (ModelReply::text("Half a").finish_reason("length"), "reply_truncated"),
        (call(), "reply_truncated"),
        (ModelReply::text(""), "empty_reply"),
    ];
    join_all(table.map(async |(reply, code)| {
        let world = World::shared().await;
        let agent = world.agent(&[world.write("pay")]);
        world.model.script("m", [reply.clone(), ModelReply::text("Whole.")]);
        world.start(&agent).await.ended().await.fits(&json!({
            "final_answer": "Whole.", "budgets": {"used": {"steps": 1, "input_tokens": 20, "output_tokens": 10}},
        }));
        world.model.script("m", [reply.clone(), reply]);
        let run = world.start(&agent).await;
        run.ended().await.fits(&json!({"stop_reason": "model_error", "error": {"code": code}}));
        assert_eq!(world.tools.effects("pay"), 0, "a cut call runs never");
    }))
    .await;
}

#[tokio::test]
async fn a_refusal_is_not_an_answer() {
    let refusals = [
        ModelReply::text("").field("refusal", "I will not."),
        ModelReply::text("I").finish_reason("content_filter"),
    ];
    for refusal in refusals {
        let world = World::shared().await;
        world.model.script("m", [refusal]);
        let run = world.start(&world.agent(&[])).await;
        run.ended().await.fits(&json!({"status": "failed", "stop_reason": "model_refusal"}));
    }
}

#[tokio::test]
async fn a_context_too_large_is_built_smaller_once() {
    let world = World::shared().await;
    let overflow = json!({"error": {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"}});
    let refusal = ModelReply::raw(400, "application/json", overflow.to_string());
    world.model.script("m", [refusal]);
    world.model.repeat_last("m");
    let input: Vec<Value> = (0..40)
        .map(|n| json!({"role": if n % 2 == 0 {"user"} else {"assistant"}, "content": "words ".repeat(50)}))
        .chain([json!({"role": "user", "content": "and now?"})])
        .collect();
    let run = world.start_with(&world.agent(&[]), json!({"input": input})).await;
    run.ended().await.fits(&json!({"status": "failed", "stop_reason": "context_overflow"}));
    let asked = world.model.requests_for("m");
    assert_eq!(asked.len(), 2);
    assert!(asked[1].to_string().len() < asked[0].to_string().len());
    assert!(asked[1].to_string().contains("and now?"));
}

#[tokio::test]
async fn an_answer_has_the_form_that_was_asked_for() {
    let schema =
        json!({"type": "object", "required": ["size"], "properties": {"size": {"enum": ["S", "M"]}}});
    let (bad, good) = (ModelReply::text(r#"{"size": "XXL"}"#), ModelReply::text(r#"{"size": "M"}"#));
    let table = [(vec![bad.clone(), good], "final_answer"), (vec![bad.clone(), bad], "output_invalid")];
    for (replies, reason) in table {
        let world = World::shared().await;
        world.model.script("m", replies);
        let run = world.start(&world.agent(&[]).with(json!({"output_schema": schema}))).await;
        run.ended().await.fits(&json!({"stop_reason": reason}));
        // It is told what was wrong with its answer.
        assert!(world.model.requests_for("m")[1].to_string().contains("this schema"));
    }
}

#[tokio::test]
async fn a_scripted_provider_needs_no_server() {
    let world = World::shared().await;
    let script = json!([{"tool_calls": [{"name": "look", "arguments": {"n": 1}}]}, {"final": "Seen."}]);
    world.client.put("/v1/providers/played", &json!({"kind": "scripted", "script": script})).await.ok();
    let agent = world.agent(&[world.read("look")]).with(json!({"model": {"provider": "played"}}));
    let run = world.start(&agent).await;
    run.ended()
        .await
        .fits(&json!({"final_answer": "Seen.", "budgets": {"used": {"steps": 2, "tool_calls": 1}}}));
    assert_eq!(world.tools.requests("look").len(), 1);
}
