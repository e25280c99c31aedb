//! The pages behind decision links: they show what is decided, and looking at them decides nothing.

use answerable_testkit::{ModelReply, WebhookReceiver};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Client, Fits, Run, With, World, rules};

/// A run that asks by this rule before it pays 5, and whoever hears of it.
async fn asks(world: &World, rule: Value) -> (Run<'_>, WebhookReceiver) {
    let receiver = WebhookReceiver::start().await.expect("a receiver");
    let body = json!({"url": receiver.url(), "events": ["approval.requested"]});
    world.client.post("/v1/webhooks", &body).await.is(201);
    world
        .model
        .script("m", [ModelReply::calls([("pay", json!({"amount": 5}))]), ModelReply::text("So be it.")]);
    let rule = json!({"tool": "pay", "effect": "ask", "reason": "over the limit"}).with(rule);
    let agent = world.agent(&[world.write("pay").with(json!({"risk": "high"}))]).with(rules(&[rule]));
    (world.start(&agent).await, receiver)
}

/// The path and query of the link in the `n`-th delivery.
async fn link(world: &World, receiver: &WebhookReceiver, n: usize) -> String {
    receiver.received(n).await;
    let url = receiver.deliveries()[n - 1].json()["data"]["decision_url"].clone();
    let url = url.as_str().expect("a decision_url");
    url.strip_prefix(world.server.url()).unwrap_or_else(|| panic!("{url} is not the server's")).to_owned()
}

/// What a browser asks for.
async fn open(client: &Client, link: &str) -> Answer {
    client.get(link).header("accept", "text/html,application/xhtml+xml,*/*;q=0.8").await
}

/// What a browser sends.
async fn send(client: &Client, link: &str, form: &'static str) -> Answer {
    let ask = client.ask(Method::POST, link).header("accept", "text/html");
    ask.raw("application/x-www-form-urlencoded", form).await
}

/// Whether it is a page with this status and these words in it.
#[track_caller]
fn is_page(answer: &Answer, status: u16, words: &[&str]) {
    let is_html = answer.header("content-type").is_some_and(|kind| kind.starts_with("text/html"));
    assert!(answer.status == status && is_html, "{answer}");
    for words in words {
        assert!(answer.text.contains(words), "{words} is not there: {answer}");
    }
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert!(
        answer.header("content-security-policy").is_some_and(|policy| policy.contains("default-src 'none'"))
    );
}

#[tokio::test]
async fn whoever_opens_follows_or_fetches_a_link_decides_nothing() {
    let world = World::shared().await;
    let (run, receiver) = asks(&world, json!({})).await;
    let (link, stranger) = (link(&world, &receiver, 1).await, world.server.stranger());
    let asked = run.waiting().await["pending_approvals"][0].clone();
    let hash = asked["input_hash"].as_str().expect("a hash");
    let shown =
        ["May this call of pay run?", "&quot;amount&quot;: 5", "over the limit", hash, &run.id, "sha256:"];
    is_page(&open(&stranger, &link).await, 200, &shown);
    for more in ["&decision=approve", "&decision=approve&input_hash=x", "#approve"] {
        let ask = stranger.ask(Method::GET, &format!("{link}{more}")).header("accept", "text/html");
        is_page(&ask.raw("text/plain", "").await, 200, &["May this call"]);
    }
    for (name, value) in
        [("sec-purpose", "prefetch;prerender"), ("purpose", "preview"), ("x-moz", "prefetch")]
    {
        assert_eq!(stranger.get(&link).header(name, value).await.status, 200);
    }
    let head = reqwest::Client::builder().no_proxy().build().expect("a client");
    let head = head.head(format!("{}{link}", world.server.url())).send().await.expect("an answer");
    assert_eq!(head.status().as_u16(), 200);
    for method in [Method::OPTIONS, Method::PUT, Method::PATCH, Method::DELETE] {
        let answer = stranger.ask(method.clone(), &link).try_send().await.expect("an answer");
        assert_eq!(answer.status, 405, "{method}");
    }
    // Neither do forms that say something else, or that were shown something else.
    for form in ["", "decision=yes", "decision=approve&decision=deny", "decision=approve&input=%7B%7D"] {
        is_page(&send(&stranger, &link, form).await, 422, &["Nothing was decided"]);
    }
    is_page(
        &send(&stranger, &link, "decision=approve&input_hash=sha256%3A00").await,
        409,
        &["another input"],
    );
    run.now().await.fits(&json!({"status": "waiting_approval", "pending_approvals": [asked]}));
    assert_eq!(world.tools.requests("pay").len(), 0);
    run.deny("enough").await;
    run.ended().await;
}

#[tokio::test]
async fn a_form_decides_with_its_reason_and_a_used_link_tells_what_was_decided() {
    let world = World::shared().await;
    let (run, receiver) = asks(&world, json!({})).await;
    let (link, stranger) = (link(&world, &receiver, 1).await, world.server.stranger());
    let form = "input_hash=&reason=not+before+%3CMonday%3E%0D%0Athe+12th&decision=deny";
    is_page(&send(&stranger, &link, form).await, 200, &["It is denied"]);
    run.ended().await.fits(&json!({"denied": [{"reason": "~not before <Monday>", "decided_by": "link"}]}));
    let used = open(&stranger, &link).await;
    is_page(&used, 200, &["It was denied by link"]);
    assert!(!used.text.contains("<form"), "{used}");
    is_page(&send(&stranger, &link, "decision=deny").await, 200, &["It is denied"]);
    is_page(&send(&stranger, &link, "decision=approve").await, 409, &["decided otherwise"]);
    assert_eq!(world.tools.requests("pay").len(), 0);
}

#[tokio::test]
async fn a_browser_is_told_by_a_page_why_a_link_does_not_work() {
    let world = World::shared().await;
    let (run, receiver) = asks(&world, json!({})).await;
    let (link, stranger) = (link(&world, &receiver, 1).await, world.server.stranger());
    is_page(&open(&stranger, &format!("{link}0")).await, 404, &["Not found"]);
    is_page(&send(&stranger, &format!("{link}0"), "decision=approve").await, 404, &["Not found"]);
    let bare = link.split('?').next().expect("a path");
    is_page(&open(&stranger, bare).await, 401, &["A valid key is needed"]);
    // Whoever doesn't ask for a page is told as everywhere; a key is no browser's.
    stranger.get(&format!("{link}0")).await.refused(404, "not_found");
    let keyed = world.client.ask(Method::POST, &format!("{bare}x")).header("accept", "text/html");
    keyed.json(&json!({"decision": "deny"})).await.refused(404, "not_found");
    run.cancel().await;
    run.ended().await;
    is_page(&open(&stranger, &link).await, 410, &["expired or was cancelled"]);
    is_page(&send(&stranger, &link, "decision=approve").await, 410, &["expired or was cancelled"]);
    stranger.get(&link).await.refused(410, "expired");
}

#[tokio::test]
async fn a_page_shows_who_voted_and_how_many_it_takes() {
    let world = World::shared().await;
    let (run, receiver) = asks(&world, json!({"approvals": 2})).await;
    let (link, stranger) = (link(&world, &receiver, 1).await, world.server.stranger());
    is_page(&open(&stranger, &link).await, 200, &["none so far; it takes 2 people who agree"]);
    let path = format!("/v1/approvals/{}/decision", run.pending().await);
    let approve = json!({"decision": "approve"});
    world.client.post(&path, &approve).header("x-acting-user", "<ann>").await.ok();
    // Whoever has the link may be one of those who voted with a key.
    let page = open(&stranger, &link).await;
    let words = ["approve by user:&lt;ann&gt;; it takes 2", "Several people must agree", "value=\"deny\""];
    is_page(&page, 200, &words);
    assert!(!page.text.contains("value=\"approve\""), "{page}");
    is_page(&send(&stranger, &link, "decision=approve").await, 403, &["needs named deciders"]);
    stranger.post(&link, &approve).await.refused(403, "forbidden");
    let answer = json!({"decision": "answer", "content": "done"});
    stranger.post(&link, &answer).await.refused(403, "forbidden");
    world
        .client
        .post(&path, &approve)
        .header("x-acting-user", "bob")
        .await
        .fits(&json!({"status": "approved"}));
    run.ended().await.fits(&json!({"status": "finished"}));
    is_page(&open(&stranger, &link).await, 200, &["It was approved by user:bob", "The call began"]);
}

#[tokio::test]
async fn a_link_does_not_stand_for_somebody_else_than_the_creator() {
    let world = World::shared().await;
    let (run, receiver) = asks(&world, json!({"self_approval": false})).await;
    let (link, stranger) = (link(&world, &receiver, 1).await, world.server.stranger());
    let page = open(&stranger, &link).await;
    is_page(&page, 200, &["a link doesn&#39;t say who you are", "value=\"deny\""]);
    assert!(!page.text.contains("value=\"approve\""), "{page}");
    is_page(&send(&stranger, &link, "decision=approve").await, 403, &["Nothing was decided"]);
    stranger.post(&link, &json!({"decision": "approve"})).await.refused(403, "forbidden");
    run.now().await.fits(&json!({"pending_approvals": [{"votes": []}]}));
    is_page(&send(&stranger, &link, "decision=deny").await, 200, &["It is denied"]);
    run.ended().await.fits(&json!({"denied": [{"decided_by": "link"}]}));
    assert_eq!(world.tools.requests("pay").len(), 0);
}

#[tokio::test]
async fn a_link_to_a_void_approval_leads_nowhere_and_says_why() {
    let world = World::shared().await;
    let (run, receiver) = asks(&world, json!({})).await;
    let (old, stranger) = (link(&world, &receiver, 1).await, world.server.stranger());
    let first = run.pending().await;
    let policy = json!({"rules": [{"tool": "pay", "effect": "ask", "approvals": 2}]});
    world.client.put("/v1/policy", &policy).await.ok();
    stranger.post(&old, &json!({"decision": "approve"})).await.fits(&json!({"status": "approved"}));
    let new = link(&world, &receiver, 2).await;
    let waiting = run.waiting().await;
    let asked = json!({"replaces": first, "required": 2, "status": "pending", "votes": []});
    waiting.fits(&json!({"pending_approvals": [asked]}));
    world.client.get(&format!("/v1/approvals/{first}")).await.fits(&json!({
        "status": "approved", "voided_at": "*", "void_reason": "*", "used_at": null, "replaces": null,
    }));
    let words = ["This approval is void", "newer link", &run.path("/approvals")];
    is_page(&open(&stranger, &old).await, 410, &words);
    is_page(&send(&stranger, &old, "decision=approve").await, 410, &words);
    stranger.post(&old, &json!({"decision": "approve"})).await.refused(410, "expired");
    is_page(&open(&stranger, &new).await, 200, &["Asked anew", "it takes 2 people"]);
    assert_eq!(world.tools.requests("pay").len(), 0);
    is_page(&send(&stranger, &new, "decision=deny").await, 200, &["It is denied"]);
    run.ended().await.fits(&json!({"denied": {"$len": 1}}));
}
