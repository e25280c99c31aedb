//! The scripted world does what its scripts say.

use std::time::Duration;

use answerable_testkit::signature::{SignatureFault, verify};
use answerable_testkit::{ModelReply, ScriptedModel, ScriptedTools, ToolAnswer, WebhookReceiver};
use reqwest::{Client, Response};
use serde_json::{Value, json};

fn client() -> Client {
    // Fails where another test was first; either way there is one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().build().expect("a client")
}

async fn ask(model: &ScriptedModel, body: Value) -> reqwest::Result<Response> {
    let url = format!("{}/chat/completions", model.base_url());
    client().post(url).header("content-type", "application/json").body(body.to_string()).send().await
}

async fn json_of(response: Response) -> Value {
    serde_json::from_slice(&response.bytes().await.expect("a body")).expect("JSON")
}

#[tokio::test]
async fn replies_come_in_order_for_each_model() {
    let model = ScriptedModel::start().await.expect("a server");
    model.script(
        "a",
        [ModelReply::calls([("pay", json!({"n": 1}))]).and_text("Paying."), ModelReply::text("Paid.")],
    );
    model.script("b", [ModelReply::text("Other.").usage(7, 3).finish_reason("length")]);
    let first = json_of(ask(&model, json!({"model": "a", "messages": []})).await.expect("an answer")).await;
    let message = &first["choices"][0]["message"];
    assert_eq!(message["content"], "Paying.");
    assert_eq!(message["tool_calls"][0]["function"], json!({"name": "pay", "arguments": "{\"n\":1}"}));
    assert_eq!(first["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(first["usage"]["total_tokens"], 15);
    let other = json_of(ask(&model, json!({"model": "b"})).await.expect("an answer")).await;
    assert_eq!(
        (&other["usage"]["prompt_tokens"], &other["choices"][0]["finish_reason"]),
        (&json!(7), &json!("length"))
    );
    let second = json_of(ask(&model, json!({"model": "a"})).await.expect("an answer")).await;
    assert_eq!(second["choices"][0]["message"]["content"], "Paid.");
    assert_eq!(ask(&model, json!({"model": "a"})).await.expect("an answer").status(), 500);
    assert_eq!((model.overrun("a"), model.overrun("b")), (1, 0));
    model.requests_reached(4).await;
    assert_eq!(model.requests_for("a").len(), 3);
}

#[tokio::test]
async fn a_stream_adds_up_to_the_whole() {
    let model = ScriptedModel::start().await.expect("a server");
    model.script(
        "m",
        [ModelReply::calls([("pay", json!({"to": "Zoë"})), ("look", json!({}))]).and_text("größer 🦀")],
    );
    let asked = json!({"model": "m", "stream": true, "stream_options": {"include_usage": true}});
    let response = ask(&model, asked).await.expect("an answer");
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.expect("a body");
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    let events: Vec<Value> =
        text.split("\n\n").filter_map(|e| serde_json::from_str(e.strip_prefix("data: ")?).ok()).collect();
    let mut content = String::new();
    let mut calls = [(String::new(), String::new()), (String::new(), String::new())];
    for delta in events.iter().filter_map(|event| event["choices"].get(0)).map(|choice| &choice["delta"]) {
        content += delta["content"].as_str().unwrap_or_default();
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let n = usize::try_from(call["index"].as_u64().expect("an index")).expect("small");
            calls[n].0 += call["function"]["name"].as_str().unwrap_or_default();
            calls[n].1 += call["function"]["arguments"].as_str().unwrap_or_default();
        }
    }
    assert_eq!(content, "größer 🦀");
    let wanted = [("pay", "{\"to\":\"Zoë\"}"), ("look", "{}")];
    assert_eq!(calls, wanted.map(|(name, arguments)| (name.to_owned(), arguments.to_owned())));
    assert_eq!(events.last().expect("events")["usage"]["completion_tokens"], 5);
}

#[tokio::test]
async fn errors_cuts_and_keys() {
    let model = ScriptedModel::start().await.expect("a server");
    let late = ModelReply::text("late").delayed(Duration::from_millis(30));
    model.script(
        "m",
        [
            ModelReply::status(503).header("retry-after", "2"),
            ModelReply::dropped(),
            ModelReply::text("a long answer").cut_after(40),
            ModelReply::raw(200, "text/html", "<html>"),
            late,
        ],
    );
    let busy = ask(&model, json!({"model": "m"})).await.expect("an answer");
    assert_eq!((busy.status().as_u16(), &busy.headers()["retry-after"] == "2"), (503, true));
    assert!(ask(&model, json!({"model": "m"})).await.is_err());
    let cut = ask(&model, json!({"model": "m", "stream": true})).await.expect("the beginning of an answer");
    assert!(cut.bytes().await.is_err());
    let odd = ask(&model, json!({"model": "m"})).await.expect("an answer");
    assert_eq!(odd.text().await.expect("a body"), "<html>");
    assert_eq!(ask(&model, json!({"model": "m"})).await.expect("an answer").status(), 200);
    model.require_key("sk-1");
    assert_eq!(ask(&model, json!({"model": "m"})).await.expect("an answer").status(), 401);
    assert_eq!(model.overrun("m"), 0, "a refused request uses no reply up");
}

#[tokio::test]
async fn a_cut_call_has_its_effect_and_a_known_key_has_no_second() {
    let tools = ScriptedTools::start().await.expect("a server");
    tools.script("pay", [ToolAnswer::cut(), ToolAnswer::status(409)]);
    tools.dedupe("pay");
    let pay =
        |key: &'static str| client().post(tools.url("pay")).header("idempotency-key", key).body("{}").send();
    assert!(pay("k-1").await.is_err());
    assert_eq!(tools.effects("pay"), 1);
    assert_eq!(json_of(pay("k-1").await.expect("an answer")).await, json!({"ok": true}));
    assert_eq!(tools.effects("pay"), 1);
    assert_eq!(pay("k-2").await.expect("an answer").status(), 409);
    assert_eq!((tools.effects("pay"), tools.requests("pay").len()), (1, 3));
}

#[tokio::test]
async fn requests_are_recorded_and_held() {
    let tools = ScriptedTools::start().await.expect("a server");
    tools.script("look", [ToolAnswer::text("seen").header("x-odd", "1").held()]);
    let url = tools.url("look") + "/7?q=a%20b&n=3";
    let calls = (client().get(&url).header("X-Run-Id", "run_1").send(), client().get(&url).send());
    let calls = tokio::spawn(async move { tokio::join!(calls.0, calls.1) });
    tools.reached("look", 2).await;
    assert_eq!((tools.at_once("look"), calls.is_finished()), (2, false));
    tools.release("look");
    tools.release("look");
    let (one, _) = calls.await.expect("the calls end");
    let one = one.expect("an answer");
    assert_eq!((one.status().as_u16(), &one.headers()["x-odd"] == "1"), (200, true));
    let requests = tools.requests("look");
    let wanted = [("q", "a b"), ("n", "3")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!((requests[0].method.as_str(), requests[0].path.as_str()), ("GET", "/tool/look/7"));
    assert_eq!(requests[0].query, wanted);
    assert!(requests.iter().any(|request| request.header("x-run-id") == Some("run_1")));
}

#[tokio::test]
async fn webhooks_are_answered_in_order_and_kept() {
    let receiver =
        WebhookReceiver::answering([(500, Duration::ZERO), (200, Duration::ZERO)]).await.expect("a server");
    let post = |kind: &str| client().post(receiver.url()).body(json!({"type": kind}).to_string()).send();
    assert_eq!(post("run.finished").await.expect("an answer").status(), 500);
    assert_eq!(post("run.finished").await.expect("an answer").status(), 200);
    let (approval, _) = tokio::join!(receiver.first_of("approval.requested"), post("approval.requested"));
    assert_eq!(verify(&approval, "whsec_c2VjcmV0"), Err(SignatureFault::Missing("webhook-id")));
    receiver.received(3).await;
    assert_eq!(receiver.types(), ["run.finished", "run.finished", "approval.requested"]);
}
