//! One try of a delivery.

use std::time::{Duration, Instant};

use answerable_store::{AfterTry, DELIVERY_LIVES, Outgoing, Store, Tried};
use answerable_tools::{Fault, GuardedClient, Mask, egress, retry_after, signature};
use chrono::{DateTime, Utc};
use reqwest::{Method, RequestBuilder, Response};
use secrecy::ExposeSecret;
use serde_json::Value;

use crate::backoff::{LONGEST, pause};
use crate::excerpt;

/// Tries once and writes down what came of it.
pub(crate) async fn attempt(store: &Store, client: &GuardedClient, outgoing: Outgoing, within: Duration) {
    let (at, began) = (store.clock().utc(), Instant::now());
    let found = match request(client, &outgoing, at, within) {
        Ok(request) => heard(request.send().await, &outgoing, within).await,
        Err(fault) => Found::nothing(fault),
    };
    let now = store.clock().utc();
    let (then, rest_until) = follows(&found, &outgoing, now);
    let tried = Tried {
        at,
        status: found.status,
        error: found.error,
        duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        response: found.response,
        then,
        rest_until,
    };
    if let Err(error) = store.delivery_tried(&outgoing, &tried).await {
        // Its claim runs out, and it is tried again under the same id.
        tracing::warn!(delivery_id = %outgoing.delivery_id, %error, "what came of a delivery is not stored");
    }
}

/// What an endpoint made of a try.
struct Found {
    status: Option<u16>,
    error: Option<String>,
    response: Option<String>,
    /// It wants to be left alone for so long.
    retry_after: Option<Duration>,
}

impl Found {
    fn nothing(error: impl Into<String>) -> Self {
        Self { status: None, error: Some(error.into()), response: None, retry_after: None }
    }
}

/// The signed request.
fn request(
    client: &GuardedClient,
    outgoing: &Outgoing,
    at: DateTime<Utc>,
    within: Duration,
) -> Result<RequestBuilder, String> {
    let (id, timestamp) = (outgoing.delivery_id.to_string(), at.timestamp());
    // Without a secret that can be opened there is no signature.
    let signature = signature::sign(&outgoing.secrets, &id, timestamp, outgoing.body.as_bytes())
        .map_err(|_| "the signing secret can't be opened")?;
    let request = client.request(Method::POST, &outgoing.url).map_err(|refused| refused.to_string())?;
    Ok(request
        .header("content-type", "application/json")
        .header("webhook-id", id)
        .header("webhook-timestamp", timestamp)
        .header("webhook-signature", signature)
        .timeout(within)
        .body(outgoing.body.clone()))
}

/// 2xx is an arrival; a redirect isn't followed and is a failure like any other.
async fn heard(sent: Result<Response, reqwest::Error>, outgoing: &Outgoing, within: Duration) -> Found {
    let answer = match sent {
        Ok(answer) => answer,
        Err(error) => return Found::nothing(cause(&error, within)),
    };
    let status = answer.status().as_u16();
    let error = match status {
        200..=299 => None,
        410 => Some("the endpoint is gone; it is switched off"),
        300..=399 => Some("it answers with a redirect, which is not followed"),
        _ => Some("not accepted"),
    };
    let retry_after = retry_after::read(answer.headers()).map(Duration::from_millis);
    let response = excerpt::read(answer, &mask(outgoing)).await;
    Found { status: Some(status), error: error.map(str::to_owned), response, retry_after }
}

/// What an endpoint that echoes a delivery must not have shown: whoever reads the log may have no right to decide.
fn mask(outgoing: &Outgoing) -> Mask {
    let body: Value = serde_json::from_str(&outgoing.body).unwrap_or_default();
    let link = body["data"]["decision_url"].as_str().unwrap_or_default();
    let token = link.split_once("token=").map(|(_, token)| token);
    // Without the moment of its end, too.
    let mac = token.and_then(|token| token.split_once('.')).map(|(_, mac)| mac);
    Mask::new(outgoing.secrets.iter().map(ExposeSecret::expose_secret).chain(token).chain(mac))
}

fn cause(error: &reqwest::Error, within: Duration) -> String {
    if let Some(fault) = egress::tls_fault(error) {
        return format!("no connection by TLS: {fault}");
    }
    match Fault::from(error) {
        Fault::Refused(refused) => refused.to_string(),
        _ if error.is_timeout() && !error.is_connect() => format!("no answer in {} s", within.as_secs_f32()),
        Fault::NotConnected => "no connection".into(),
        Fault::Cut => "the connection was cut, or the answer is no HTTP".into(),
    }
}

/// What follows, and until when the endpoint is left alone: one that says it is too busy speaks of all deliveries.
fn follows(found: &Found, outgoing: &Outgoing, now: DateTime<Utc>) -> (AfterTry, Option<DateTime<Utc>>) {
    if found.error.is_none() {
        return (AfterTry::Delivered, None);
    }
    if found.status == Some(410) {
        return (AfterTry::Gone, None);
    }
    let again = pause(outgoing.tries + 1, found.retry_after, rand::random()).map(|pause| now + pause);
    let in_time = again.filter(|again| *again <= outgoing.queued_at + DELIVERY_LIVES);
    let then = in_time.map_or(AfterTry::Failed, AfterTry::Again);
    let busy = matches!(found.status, Some(429 | 503));
    (then, found.retry_after.filter(|_| busy).map(|asked| now + asked.min(LONGEST)))
}

#[cfg(test)]
mod tests {
    use answerable_core::id::{DeliveryId, TenantId, WebhookId};
    use answerable_store::Health;
    use uuid::Uuid;

    use super::*;

    fn outgoing(tries: usize, queued_at: DateTime<Utc>) -> Outgoing {
        Outgoing {
            tenant_id: TenantId(Uuid::nil()),
            delivery_id: DeliveryId(Uuid::nil()),
            webhook_id: WebhookId(Uuid::nil()),
            health: Health::New,
            url: "https://hooks.example/".into(),
            secrets: Vec::new(),
            body: "{}".into(),
            tries,
            queued_at,
            lease_until: queued_at,
        }
    }

    fn found(status: u16, retry_after_s: Option<u64>) -> Found {
        let error = (!(200..=299).contains(&status)).then(|| "not accepted".to_owned());
        Found {
            status: Some(status),
            error,
            response: None,
            retry_after: retry_after_s.map(Duration::from_secs),
        }
    }

    #[test]
    fn what_follows_an_answer() {
        let now = Utc::now();
        let after = |found: &Found, tries| follows(found, &outgoing(tries, now), now);
        assert_eq!(after(&found(204, None), 0), (AfterTry::Delivered, None));
        assert_eq!(after(&found(410, Some(9)), 0), (AfterTry::Gone, None));
        assert_eq!(after(&found(500, None), 8), (AfterTry::Failed, None));
        for (status, asked, rests) in [
            (302, None, false),
            (400, None, false),
            (500, Some(60), false),
            (503, Some(60), true),
            (429, Some(60), true),
            (503, None, false),
        ] {
            let (then, rest) = after(&found(status, asked), 0);
            let AfterTry::Again(at) = then else { panic!("{status}: {then:?}") };
            assert!(at >= now + Duration::from_secs(asked.unwrap_or(4)), "{status}");
            assert_eq!(rest, rests.then(|| now + Duration::from_secs(60)), "{status}");
        }
        let (_, rest) = after(&found(503, Some(9_999_999)), 0);
        assert_eq!(rest, Some(now + LONGEST));
    }

    #[test]
    fn no_try_is_planned_for_a_time_when_it_is_over() {
        let now = Utc::now();
        let after = |asked, queued_s| {
            let queued_at = now - Duration::from_secs(queued_s);
            follows(&found(500, asked), &outgoing(0, queued_at), now).0
        };
        assert!(matches!(after(None, 35 * 3600), AfterTry::Again(_)));
        assert_eq!(after(None, 36 * 3600), AfterTry::Failed);
        assert_eq!(after(Some(2 * 3600), 35 * 3600), AfterTry::Failed);
    }

    #[test]
    fn an_echo_of_the_body_shows_no_link_that_decides() {
        let link = "https://a.example/v1/approvals/apr_1/decision?token=1790000000000.MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let body =
            serde_json::json!({"data": {"decision_url": link, "approval": {"id": "apr_1"}}}).to_string();
        let mask = mask(&Outgoing { body: body.clone(), ..outgoing(0, Utc::now()) });
        let seen = [body.clone(), body.replace('/', "\\/"), "mac=MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into()];
        for echo in seen {
            let shown = mask.text(&echo);
            assert!(shown.contains("***") && !shown.contains("MfKQ"), "{shown}");
        }
        assert!(mask.text(&body).contains("decision?token=***"));
        assert_eq!(
            self::mask(&outgoing(0, Utc::now())).longest(),
            0,
            "without a link there is nothing to hide"
        );
    }
}
