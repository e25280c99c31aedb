//! The chat-completions wire against a scripted server.

use std::time::Duration;

use answerable_core::model::{FailureKind, Finish};
use answerable_ports::{DeltaSink, ModelProvider, ModelTarget, Patience};
use answerable_testkit::{ModelReply, ScriptedModel};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Heard, ask, ask_within, calls, models, request, target};

struct Deaf;

impl DeltaSink for Deaf {
    fn text(&self, _: &str) {}
}

async fn scripted(replies: impl IntoIterator<Item = ModelReply>) -> (ScriptedModel, ModelTarget) {
    let model = ScriptedModel::start().await.expect("a server");
    model.require_key("sk-secret-1");
    model.script("m", replies);
    let target = target("openai_chat", &model.base_url());
    (model, target)
}

#[tokio::test]
async fn a_reply_is_the_same_streamed_or_not() {
    let reply = || {
        ModelReply::calls([
            ("pay", json!({"to": "Zoë", "id": 1_234_567_890_123_456_789_u64})),
            ("look", json!({})),
        ])
        .and_text("größer 🦀")
        .field("reasoning_content", "it — \"may\"")
        .usage(12, 7)
    };
    let (model, mut target) = scripted([reply(), reply()]).await;
    let (streamed, heard) = ask_within(&target, &request(0), Duration::from_secs(20)).await;
    target.options.insert("stream".into(), false.into());
    let whole = ask(&target, &request(0)).await.expect("a reply");
    assert_eq!(streamed.expect("a reply"), whole);
    assert_eq!((whole.text.as_str(), whole.finish), ("größer 🦀", Finish::Stop));
    let wanted = [
        ("pay".to_owned(), json!({"to": "Zoë", "id": 1_234_567_890_123_456_789_u64})),
        ("look".to_owned(), json!({})),
    ];
    assert_eq!(calls(&whole), wanted);
    assert_eq!(whole.extra["reasoning_content"], "it — \"may\"");
    assert_eq!(whole.usage.map(|usage| (usage.input_tokens, usage.output_tokens)), Some((12, 7)));
    assert!(heard.len() > 1 && heard.concat() == "größer 🦀", "{heard:?}");
    let asked = model.requests_for("m");
    assert_eq!((&asked[0]["stream"], asked[1].get("stream")), (&json!(true), None));
    let messages = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "go"}]);
    assert_eq!((&asked[0]["messages"], &asked[0]["max_tokens"]), (&messages, &json!(900)));
    assert_eq!(model.requests()[0].header("x-desk"), Some("desk-of-ann"));
}

#[tokio::test]
async fn what_a_refusal_means() {
    use FailureKind::{CapOverWindow, ContextOverflow, Passing, Refused, Unusable};
    let error = |status: u16, message: &str| {
        ModelReply::raw(status, "application/json", json!({"error": {"message": message}}).to_string())
    };
    let echo = "Incorrect API key provided: sk-secret-1 of desk-of-ann";
    let table = [
        (ModelReply::status(429).header("retry-after", "2"), Passing, Some(429), Some(2000)),
        (ModelReply::status(429).header("retry-after", "86400000"), Passing, Some(429), Some(86_400_000_000)),
        (ModelReply::status(429).header("retry-after", "-7"), Passing, Some(429), None),
        (ModelReply::status(503), Passing, Some(503), None),
        (ModelReply::status(529), Passing, Some(529), None),
        (ModelReply::status(408), Passing, Some(408), None),
        (ModelReply::status(409), Passing, Some(409), None),
        (error(401, echo), Unusable, Some(401), None),
        (ModelReply::status(404), Unusable, Some(404), None),
        (ModelReply::status(307).header("location", "http://127.0.0.1:9/"), Unusable, Some(307), None),
        (ModelReply::status(400), Refused, Some(400), None),
        (ModelReply::status(422), Refused, Some(422), None),
        (error(400, "This model's maximum context length is 4096 tokens."), ContextOverflow, Some(400), None),
        (error(400, "`max_tokens` exceed context limit: 7500 + 900 > 8192"), CapOverWindow, Some(400), None),
        (ModelReply::raw(200, "text/html", "<html>hello</html>"), Passing, Some(200), None),
        (ModelReply::raw(200, "application/json", r#"{"choices": [{"mess"#), Passing, Some(200), None),
        (error(200, "overloaded"), Passing, Some(200), None),
        (ModelReply::dropped(), Passing, None, None),
        (ModelReply::text("Half an answer").cut_after(200), Passing, Some(200), None),
    ];
    let (model, target) = scripted(table.iter().map(|row| row.0.clone())).await;
    for (n, (_, kind, status, after)) in table.iter().enumerate() {
        let failure = ask(&target, &request(0)).await.expect_err("a failure");
        assert_eq!(
            (failure.kind, failure.status, failure.retry_after_ms),
            (*kind, *status, *after),
            "{n}: {failure:?}"
        );
        assert!(
            !failure.message.contains("sk-secret") && !failure.message.contains("desk-of"),
            "{failure:?}"
        );
        assert!(!failure.message.contains("127.0.0.1"), "{failure:?}");
    }
    assert_eq!(model.requests().len(), table.len(), "nothing is tried again here");
}

#[tokio::test]
async fn addresses_that_are_not_called() {
    for base_url in
        ["http://10.0.0.1/v1", "http://[::1]:9/v1", "http://user@127.0.0.1:9/v1", "ftp://8.8.8.8", "", "v1"]
    {
        let failure = ask(&target("openai_chat", base_url), &request(0)).await.expect_err("a failure");
        assert_eq!((failure.kind, failure.status), (FailureKind::Unusable, None), "{base_url}");
        assert!(!failure.message.contains("10.0.0.1"), "{failure:?}");
    }
    let nobody =
        ask(&target("openai_chat", "http://127.0.0.1:9/v1"), &request(0)).await.expect_err("a failure");
    assert_eq!(nobody.kind, FailureKind::Passing);
    let mut odd = target("openai_chat", "http://127.0.0.1:9/v1");
    odd.api_key = Some("sk-with\nline".into());
    let failure = ask(&odd, &request(0)).await.expect_err("a failure");
    assert_eq!(failure.kind, FailureKind::Unusable);
    assert!(!failure.message.contains("sk-with"), "{failure:?}");
}

#[tokio::test]
async fn a_kind_that_nobody_knows() {
    let failure = ask(&target("smoke", "http://127.0.0.1:9/v1"), &request(0)).await.expect_err("a failure");
    assert_eq!(failure.kind, FailureKind::Unusable);
    assert!(failure.message.contains("smoke"), "{failure:?}");
}

/// A server that begins to stream, says `events`, and then `more` again and again for as long as it is listened to.
async fn endless(events: Vec<Value>, more: &'static str) -> (ModelTarget, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let base_url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let _ = stream.read(&mut [0; 4096]).await;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let said: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let _ = stream.write_all(format!("{head}{said}").as_bytes()).await;
        while keeps_on(&mut stream, more).await {}
    });
    (target("openai_chat", &base_url), task)
}

async fn keeps_on(stream: &mut TcpStream, more: &str) -> bool {
    tokio::time::sleep(Duration::from_millis(5)).await;
    stream.write_all(more.as_bytes()).await.is_ok()
}

fn half() -> Vec<Value> {
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 1});
    vec![json!({"choices": [{"index": 0, "delta": {"content": "Half a reply"}}], "usage": usage})]
}

#[tokio::test]
async fn keep_alives_do_not_keep_a_request_alive() {
    let (target, task) = endless(half(), ": keep-alive\n\n").await;
    let (result, heard) = ask_within(&target, &request(0), Duration::from_millis(300)).await;
    let failure = result.expect_err("a failure");
    assert_eq!((failure.kind, failure.status), (FailureKind::Passing, None));
    assert_eq!(failure.usage.map(|usage| usage.input_tokens), Some(9), "what was told is not lost");
    assert_eq!(heard, ["Half a reply"]);
    tokio::time::timeout(Duration::from_secs(5), task).await.expect("hung up").expect("no fault");
}

/// Each of the three times ends a reply that doesn't come, and pings stop none of them.
#[tokio::test]
async fn first_word_next_word_and_whole() {
    let (long, short) = (Duration::from_secs(30), Duration::from_millis(150));
    let whole = Patience { total: short, first: long, idle: long };
    let first = Patience { total: long, first: short, idle: long };
    let next = Patience { total: long, first: long, idle: short };
    for (events, patience, said) in [
        (vec![], whole, "no whole reply within 150 ms"),
        (half(), whole, "no whole reply within 150 ms"),
        (vec![], first, "no first word within 150 ms"),
        (half(), next, "nothing more within 150 ms"),
    ] {
        let (target, task) = endless(events, ": keep-alive\n\n").await;
        let failure = models().ask(&target, &request(0), patience, &Heard::default()).await;
        let failure = failure.expect_err("a failure");
        assert_eq!(
            (failure.kind, failure.status, failure.message.as_str()),
            (FailureKind::Passing, None, said)
        );
        tokio::time::timeout(Duration::from_secs(5), task).await.expect("hung up").expect("no fault");
    }
    let (mut target, task) = endless(vec![], " ").await;
    target.options.insert("stream".into(), false.into());
    let patience = Patience { total: 4 * short, first: short, idle: short };
    let failure =
        models().ask(&target, &request(0), patience, &Heard::default()).await.expect_err("a failure");
    assert_eq!(failure.message, "no whole reply within 600 ms", "an answer in one piece has no first word");
    task.await.expect("no fault");
}

/// What a reply that broke off had said was taken, whether the provider told of it or not.
#[tokio::test]
async fn words_of_a_broken_reply_count() {
    let untold = vec![json!({"choices": [{"index": 0, "delta": {"content": "Half of a reply"}}]})];
    for (events, told) in [(untold, (1, true)), (half(), (9, true))] {
        let (target, task) = endless(events, "data: {\n\n").await;
        let failure = ask(&target, &request(0)).await.expect_err("a failure");
        let usage = failure.usage.expect("usage");
        assert!(
            usage.input_tokens >= told.0 && usage.output_tokens >= 3 && usage.estimated == told.1,
            "{usage:?}"
        );
        task.await.expect("no fault");
    }
}

#[tokio::test]
async fn a_provider_that_fails_again_and_again_is_left_alone() {
    let (model, target) = scripted((0..30).map(|_| ModelReply::status(503))).await;
    let (models, request) = (models(), request(0));
    let asked = || models.ask(&target, &request, Patience::total(Duration::from_secs(20)), &Deaf);
    let mut held = None;
    for _ in 0..11 {
        held = Some(asked().await.expect_err("a failure"));
    }
    let held = held.expect("a failure");
    assert_eq!((held.kind, held.status), (FailureKind::Held, None), "{held:?}");
    assert!(held.retry_after_ms.is_some_and(|ms| (1..=5_000).contains(&ms)), "{held:?}");
    assert_eq!(model.requests().len(), 10, "nobody was asked");
}

#[tokio::test]
async fn the_address_and_the_key_go_where_the_switches_say() {
    let (model, mut target) = scripted([ModelReply::text("Fine.")]).await;
    target.base_url = format!("{}?api-version=2024-10-21", model.base_url().trim_end_matches("/v1"));
    target.options.insert("path".into(), "v1/chat/completions".into());
    target.options.insert("key_header".into(), "api-key".into());
    target.headers.insert("authorization".into(), "Bearer sk-secret-1".into());
    assert_eq!(ask(&target, &request(0)).await.expect("a reply").text, "Fine.");
    assert_eq!(model.requests()[0].header("api-key"), Some("sk-secret-1"));
}

#[tokio::test]
async fn a_dropped_request_hangs_up() {
    let (target, task) = endless(half(), ": keep-alive\n\n").await;
    let asking = tokio::spawn(async move {
        let heard = Heard::default();
        models().ask(&target, &request(0), Patience::total(Duration::from_secs(60)), &heard).await
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    asking.abort();
    tokio::time::timeout(Duration::from_secs(5), task).await.expect("hung up").expect("no fault");
}

#[tokio::test]
async fn a_stream_that_goes_on_after_its_end_is_not_waited_for() {
    let end = json!({"choices": [{"index": 0, "delta": {"content": "All."}, "finish_reason": "stop"}]});
    let (target, task) = endless(vec![end], "data: [DONE]\n\n").await;
    let reply = ask(&target, &request(0)).await.expect("a reply");
    assert_eq!(reply.text, "All.");
    tokio::time::timeout(Duration::from_secs(5), task).await.expect("hung up").expect("no fault");
}
