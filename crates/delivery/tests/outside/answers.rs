//! What endpoints answer, and what follows.

use std::time::Duration;

use answerable_delivery::Limits;
use answerable_testkit::{HookAnswer, WebhookReceiver};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::world::{LIMITS, NO_END, World, is_tried};

/// What the log says of the one try to an endpoint that answers like this, and what the webhook is then.
async fn tried(answer: HookAnswer, limits: Limits) -> (Value, String) {
    let world = World::new().await;
    let receiver = WebhookReceiver::scripted([answer]).await.expect("a receiver");
    let (hook, _) = world.hook(&receiver.url()).await;
    world.tell(hook, &json!({"type": "webhook.test"})).await;
    let _sender = world.sender(limits);
    let row = world.log_when(hook, is_tried).await;
    assert_eq!(receiver.deliveries().len(), 1);
    (row.attempts[0].clone(), row.status)
}

#[tokio::test]
async fn an_answer_is_kept_with_the_try() {
    let (attempt, status) = tried(HookAnswer::status(202).body("taken"), LIMITS).await;
    assert_eq!(status, "delivered");
    assert_eq!(
        (&attempt["status"], &attempt["error"], &attempt["response"]),
        (&json!(202), &Value::Null, &json!("taken"))
    );
    assert!(attempt["duration_ms"].is_u64() && attempt["at"].is_string(), "{attempt}");
    let (attempt, status) = tried(HookAnswer::status(500).body("oh no"), LIMITS).await;
    assert_eq!(status, "pending");
    assert_eq!((&attempt["status"], &attempt["response"]), (&json!(500), &json!("oh no")));
}

#[tokio::test]
async fn no_answer_is_waited_for_just_so_long() {
    let limits = Limits { answer_within: Duration::from_millis(300), ..LIMITS };
    let (attempt, status) = tried(HookAnswer::never(), limits).await;
    assert_eq!((status.as_str(), &attempt["status"]), ("pending", &Value::Null));
    assert_eq!(attempt["error"], "no answer in 0.3 s");
}

#[tokio::test]
async fn a_redirect_is_a_failure() {
    let trap = WebhookReceiver::start().await.expect("a receiver");
    let (attempt, status) = tried(HookAnswer::status(307).header("location", &trap.url()), LIMITS).await;
    assert_eq!((status.as_str(), &attempt["status"]), ("pending", &json!(307)));
    assert!(trap.deliveries().is_empty());
}

#[tokio::test]
async fn of_a_body_without_end_the_first_kib_is_read() {
    let (attempt, status) = tried(HookAnswer::status(200).endless("spam "), LIMITS).await;
    assert_eq!(status, "delivered");
    assert_eq!(attempt["response"].as_str().map(str::len), Some(1024));
    // Were its end waited for, nothing would be written down before the test is over.
    let (attempt, status) = tried(HookAnswer::status(200).stuck("well"), NO_END).await;
    assert_eq!((status.as_str(), &attempt["response"]), ("delivered", &json!("well")));
}

#[tokio::test]
async fn a_secret_that_is_echoed_is_masked() {
    let world = World::new().await;
    let receiver = WebhookReceiver::start().await.expect("a receiver");
    let (hook, secret) = world.hook(&receiver.url()).await;
    let echo = WebhookReceiver::scripted([HookAnswer::status(400).body(format!("checked with {secret}\0"))]);
    let echo = echo.await.expect("a receiver");
    let change = answerable_store::WebhookChange { url: Some(echo.url()), ..Default::default() };
    let mut tx = world.tx().await;
    tx.webhook_update(hook, &change).await.expect("changed");
    tx.commit().await.expect("committed");
    world.tell(hook, &json!({})).await;
    let _sender = world.sender(LIMITS);
    let row = world.log_when(hook, is_tried).await;
    assert_eq!(row.attempts[0]["response"], "checked with ***\u{fffd}");
}

#[tokio::test]
async fn an_endpoint_that_is_gone_is_switched_off() {
    let world = World::new().await;
    let receiver = WebhookReceiver::scripted([HookAnswer::status(410)]).await.expect("a receiver");
    let (hook, _) = world.hook(&receiver.url()).await;
    for _ in 0..3 {
        world.tell(hook, &json!({})).await;
    }
    let _sender = world.sender(LIMITS);
    world.log_when(hook, |row| row.status == "failed").await;
    assert!(world.log(hook).await.iter().all(|row| row.status == "failed"));
    let shown = world.tx().await.webhook_fetch(hook).await.expect("read").expect("a webhook");
    assert_eq!(shown.disabled_reason.as_deref(), Some("gone"));
    assert_eq!(receiver.deliveries().len(), 1, "one endpoint that is new has one try");
}

#[tokio::test]
async fn retry_after_is_honoured_for_all_that_is_sent_there() {
    let world = World::new().await;
    let busy = HookAnswer::status(503).header("retry-after", "3600");
    let receiver = WebhookReceiver::scripted([busy]).await.expect("a receiver");
    let (hook, _) = world.hook(&receiver.url()).await;
    let first = world.tell(hook, &json!({})).await;
    world.tell(hook, &json!({})).await;
    let sender = world.sender(LIMITS);
    receiver.received(1).await;
    // What is out is let finish, so the try is written down; then another server looks.
    sender.stop().await;
    let other = world.sender(LIMITS);
    let row = world.log(hook).await.into_iter().find(|row| row.delivery_id == first.0).expect("the first");
    let wait = row.next_attempt_at.expect("it is tried again") - chrono::Utc::now();
    assert!((3_500..=3_700).contains(&wait.num_seconds()), "{wait}");
    let live = WebhookReceiver::start().await.expect("a receiver");
    let (other_hook, _) = world.hook(&live.url()).await;
    world.tell(other_hook, &json!({})).await;
    live.received(1).await;
    other.stop().await;
    assert_eq!(receiver.deliveries().len(), 1, "the second one waits, too");
}

#[tokio::test]
async fn connections_that_fail_say_how() {
    let world = World::new().await;
    let plain = WebhookReceiver::start().await.expect("a receiver");
    let https = plain.url().replace("http://", "https://");
    let odd = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = |listener: &TcpListener| format!("http://{}/", listener.local_addr().expect("an address"));
    let (odd_url, closed) = (at(&odd), TcpListener::bind("127.0.0.1:0").await.expect("a port"));
    let closed_url = at(&closed);
    drop(closed);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = odd.accept().await {
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(b"220 mail.example ESMTP\r\n").await;
        }
    });
    let _sender = world.sender(LIMITS);
    for (url, wanted) in [
        (https.as_str(), "no connection by TLS: "),
        (odd_url.as_str(), "the connection was cut, or the answer is no HTTP"),
        (closed_url.as_str(), "no connection"),
        ("http://10.0.0.1/", "the address is not public and not on the operator's list"),
    ] {
        let (hook, _) = world.hook(url).await;
        world.tell(hook, &json!({})).await;
        let row = world.log_when(hook, is_tried).await;
        let error = row.attempts[0]["error"].as_str().expect("an error").to_owned();
        assert!(error.starts_with(wanted), "{url}: {error}");
        assert_eq!((row.status.as_str(), &row.attempts[0]["status"]), ("pending", &Value::Null));
        let shown = world.tx().await.webhook_fetch(hook).await.expect("read").expect("a webhook");
        assert!(shown.failing_since.is_some(), "{url}");
    }
}
