//! Signatures, as the reference of Standard Webhooks sees them.

use answerable_testkit::{RecordedRequest, WebhookReceiver, signature};
use answerable_tools::signature::sign;
use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::ExposeSecret as _;
use serde_json::json;
use standardwebhooks::Webhook;

use crate::world::{LIMITS, World, is_tried};

fn headers(request: &RecordedRequest) -> HeaderMap {
    let header = |(name, value): &(String, String)| {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        (name, HeaderValue::from_str(value).expect("a value"))
    };
    request.headers.iter().map(header).collect()
}

fn accepts(secret: &str, request: &RecordedRequest) -> bool {
    Webhook::new(secret).expect("a secret").verify(&request.body, &headers(request)).is_ok()
}

#[tokio::test]
async fn the_reference_takes_what_is_sent_and_nothing_else() {
    let world = World::new().await;
    let receiver = WebhookReceiver::start().await.expect("a receiver");
    let (hook, secret) = world.hook(&receiver.url()).await;
    let (_, strange) = world.hook(&receiver.url()).await;
    let id = world.tell(hook, &json!({"type": "webhook.test", "data": {"name": "Zoë \u{1f980}"}})).await;
    let _sender = world.sender(LIMITS);
    receiver.received(1).await;
    let sent = receiver.deliveries().remove(0);
    assert_eq!(sent.header("webhook-id"), Some(id.to_string().as_str()));
    assert!(accepts(&secret, &sent));
    assert!(!accepts(&strange, &sent));
    for changed in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let mut forged = sent.clone();
        let value = forged.headers.iter_mut().find(|(name, _)| name == changed).expect("it is there");
        // The last character of base64 may say nothing.
        let first = value.1.find(',').map_or(0, |comma| comma + 1);
        let other = if value.1.as_bytes()[first] == b'1' { "2" } else { "1" };
        value.1.replace_range(first..=first, other);
        assert!(!accepts(&secret, &forged), "{changed}");
    }
    let forged = RecordedRequest { body: b"{}".to_vec().into(), ..sent };
    assert!(!accepts(&secret, &forged));
}

#[tokio::test]
async fn after_a_rotation_both_secrets_serve() {
    let world = World::new().await;
    let receiver = WebhookReceiver::start().await.expect("a receiver");
    let (hook, old) = world.hook(&receiver.url()).await;
    let mut tx = world.tx().await;
    let (_, new) = tx.webhook_rotate(hook).await.expect("rotated").expect("a webhook");
    tx.commit().await.expect("committed");
    world.tell(hook, &json!({})).await;
    let _sender = world.sender(LIMITS);
    world.log_when(hook, is_tried).await;
    let sent = receiver.deliveries().remove(0);
    assert!(accepts(&old, &sent) && accepts(new.expose_secret(), &sent));
    assert_eq!(sent.header("webhook-signature").map(|both| both.split(' ').count()), Some(2));
}

#[test]
fn what_the_reference_signs_is_what_we_sign() {
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let reference = Webhook::new(secret).expect("a secret");
    for body in ["", "{}", "{\"a\":\"é\u{1f980}\"}", &"x".repeat(100_000)] {
        let ours = sign(&[secret.into()], "dlv_1", 1_700_000_000, body.as_bytes()).expect("a signature");
        assert_eq!(ours, reference.sign("dlv_1", 1_700_000_000, body.as_bytes()).expect("a signature"));
    }
    // The judge of all other tests agrees with it, too.
    let at = std::time::SystemTime::now();
    let seconds = at.duration_since(std::time::UNIX_EPOCH).expect("a time").as_secs();
    let signed = reference.sign("dlv_1", seconds.try_into().expect("a number"), b"{}").expect("a signature");
    let header = |name: &str, value: String| (name.to_owned(), value);
    let request = RecordedRequest {
        method: "POST".into(),
        path: "/".into(),
        query: vec![],
        headers: vec![
            header("webhook-id", "dlv_1".into()),
            header("webhook-timestamp", seconds.to_string()),
            header("webhook-signature", signed),
        ],
        body: b"{}".to_vec().into(),
        at: std::time::Instant::now(),
        wall_time: at,
    };
    assert_eq!(signature::verify(&request, secret), Ok(()));
}
