//! Decision links need no key, so anybody may ask with any: what is made up costs little, and nobody waits for a stranger's body.

use std::time::{Duration, Instant};

use answerable_testkit::{ModelReply, WebhookReceiver};
use futures::future::join_all;
use serde_json::json;
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use crate::harness::{Client, With, World};
use crate::raw::Raw;

/// Less than a body is waited for, and what nothing holds up takes no longer.
const SOON: Duration = Duration::from_secs(7);
/// Ends of links that say that they are good until then, by their form and time.
const TO_COME: &str = "9999999999999";
const PAST: &str = "1000000000000";

/// A link that nobody gave out.
fn made_up(until: &str) -> String {
    format!("/v1/approvals/apr_{}/decision?token={until}.{}", Uuid::now_v7(), "A".repeat(43))
}

async fn status_of(client: Client, link: String) -> (u16, bool) {
    let answer = client.get(&link).await;
    (answer.status, answer.header("retry-after").is_some())
}

/// A run that asks before it pays, and path and query of the link.
async fn link(world: &World) -> String {
    let receiver = WebhookReceiver::start().await.expect("a receiver");
    let body = json!({"url": receiver.url(), "events": ["approval.requested"]});
    world.client.post("/v1/webhooks", &body).await.is(201);
    world.model.script("m", [ModelReply::calls([("pay", json!({"amount": 5}))]), ModelReply::text("Paid.")]);
    let pay = world.write("pay").with(json!({"risk": "high"}));
    world.start(&world.agent(&[pay])).await;
    let told = receiver.first_of("approval.requested").await.json();
    let url = told["data"]["decision_url"].as_str().expect("a decision_url");
    url.strip_prefix(world.server.url()).unwrap_or_else(|| panic!("{url} is not the server's")).to_owned()
}

#[tokio::test]
async fn made_up_links_are_looked_up_few_at_a_time_and_some_never() {
    let world = World::alone().await;
    let stranger = world.server.stranger();
    let real = link(&world).await;
    let mut lock = PgConnection::connect(world.database_url()).await.expect("a connection");
    let mut held = lock.begin().await.expect("a transaction");
    // As if the database took its time with each.
    sqlx::query("LOCK TABLE approvals IN ACCESS EXCLUSIVE MODE").execute(&mut *held).await.expect("a lock");
    let asked = |link: String| tokio::spawn(status_of(stranger.clone(), link));
    let mut answers = join_all((0..100).map(|_| asked(made_up(TO_COME))).collect::<Vec<_>>());
    let begun = Instant::now();
    // Nobody needs a turn to hear this, nor the database.
    let bare = made_up(TO_COME);
    for odd in ["x", "1.", "99.AAAA"] {
        let link = bare.split_once("token=").expect("a token").0.to_owned() + "token=" + odd;
        assert_eq!(status_of(stranger.clone(), link).await, (404, false), "{odd}");
    }
    assert_eq!(status_of(stranger.clone(), format!("{real}0")).await, (404, false));
    assert_eq!(status_of(stranger.clone(), made_up(PAST)).await, (410, false));
    // Tenants are served meanwhile.
    for _ in 0..10 {
        world.client.post("/v1/threads", &json!({})).await.is(201);
    }
    assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
    let early = tokio::time::timeout(Duration::from_millis(1500), &mut answers).await;
    assert!(early.is_err(), "a few wait for the database");
    held.rollback().await.expect("let go");
    let answers: Vec<_> = answers.await.into_iter().map(|answer| answer.expect("an answer")).collect();
    let refused = answers.iter().filter(|answer| **answer == (503, true)).count();
    let unknown = answers.iter().filter(|answer| answer.0 == 404).count();
    assert!(refused >= 90 && unknown >= 1 && refused + unknown == 100, "{answers:?}");
    assert_eq!(status_of(stranger.clone(), made_up(TO_COME)).await, (404, false));
    assert_eq!(status_of(stranger, real).await, (200, false));
}

/// The head of a decision whose body is still to come.
fn head(link: &str, kind: &str, length: usize) -> String {
    format!(
        "POST {link} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Expect: 100-continue\r\nConnection: close\r\n\r\n"
    )
}

#[tokio::test]
async fn nobody_waits_for_the_body_of_whoever_may_not_decide() {
    let world = World::shared().await;
    for kind in ["application/x-www-form-urlencoded", "application/json"] {
        for (link, status) in [(made_up(TO_COME), 404), (made_up(PAST), 410)] {
            let mut raw = Raw::to(&world.server).await;
            raw.send(head(&link, kind, 1000)).await;
            let answer = tokio::time::timeout(SOON, raw.until("\r\n\r\n")).await;
            let answer = answer.expect("it is answered at once");
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_tenant_that_is_suspended_while_the_body_comes_decides_nothing() {
    let world = World::shared().await;
    let link = link(&world).await;
    let tenant = format!("/v1/tenants/{}", world.tenant);
    let form = "decision=approve";
    let json = json!({"decision": "approve"}).to_string();
    for (kind, body) in [("application/x-www-form-urlencoded", form), ("application/json", &json)] {
        let mut raw = Raw::to(&world.server).await;
        raw.send(head(&link, kind, body.len())).await;
        // The link was looked at by then.
        let begun = raw.until("\r\n\r\n").await;
        assert!(begun.starts_with("HTTP/1.1 100"), "{begun}");
        world.server.operator().patch(&tenant, &json!({"suspended": true})).await.ok();
        raw.send(body).await;
        let answer = raw.rest().await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{kind}: {answer}");
        world.server.operator().patch(&tenant, &json!({"suspended": false})).await.ok();
    }
    assert_eq!(world.tools.effects("pay"), 0);
}
