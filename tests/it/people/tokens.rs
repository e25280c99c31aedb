//! Which tokens are good, and for how long.

use std::sync::Arc;
use std::time::Duration;

use answerable_testkit::issuer::{token, token_by_secret, token_with};
use answerable_testkit::{Document, ModelReply, ScriptedIssuer, SigningKey, TestDatabase};
use reqwest::Method;
use serde_json::{Value, json};

use super::{People, now};
use crate::harness::{Server, World};

/// Longer than a brief token is good, on a machine that is busy with other tests; shorter than a wait.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_token_does_what_its_scopes_say_in_its_own_tenant() {
    let people = People::start().await;
    let (other, others) = people.world.neighbour(&json!({})).await;
    let requests: [(&str, Method, &str, Value); 4] = [
        ("runs:read", Method::GET, "/v1/runs", Value::Null),
        ("runs:write", Method::POST, "/v1/threads", json!({})),
        ("agents:write", Method::POST, "/v1/agents", people.world.agent(&[])),
        ("admin", Method::PUT, "/v1/secrets/shop", json!({"value": "s-1"})),
    ];
    for scopes in
        [&[][..], &["runs:read"], &["runs:write"], &["agents:write"], &["approvals:decide"], &["admin"]]
    {
        let client = people.person("ann", scopes);
        for (needed, method, path, body) in &requests {
            let ask = client.ask(method.clone(), path);
            let answer = if body.is_null() { ask.await } else { ask.json(body).await };
            if scopes.contains(needed) || scopes.contains(&"admin") {
                answer.ok();
            } else {
                answer.refused(403, "forbidden");
            }
        }
        client.get("/v1/tenants").await.refused(403, "forbidden");
    }
    // The token alone says which tenant.
    let secrets = people.person("ann", &["admin"]).get("/v1/secrets/shop").await;
    secrets.ok();
    let stranger = people.but(json!({"answerable_tenant": other}));
    stranger.get("/v1/secrets/shop").await.refused(404, "not_found");
    others.get("/v1/secrets/shop").await.refused(404, "not_found");
}

#[tokio::test]
async fn a_token_that_is_not_good_opens_nothing() {
    let people = People::start().await;
    let good = people.claims("ann", &["admin"]);
    let mine = SigningKey::p256("k1");
    let shown = SigningKey::rsa("k0").jwk()["n"].as_str().expect("n").to_owned();
    let header = |alg: &str, kid: &str| json!({"alg": alg, "kid": kid, "typ": "JWT"});
    people.with(&good).get("/v1/runs").await.ok();
    let genuine = token(&people.key, &good);
    let mut bad = vec![
        token(&mine, &good),
        token_with(&people.key, &header("none", "k1"), &good),
        token_with(&people.key, &header("ES256", "k0"), &good),
        token_with(&people.key, &header("ES256", "k2"), &good),
        token_by_secret(shown.as_bytes(), &header("HS256", "k0"), &good),
        token_by_secret(shown.as_bytes(), &header("RS256", "k0"), &good),
        format!("{genuine}.{}", genuine.rsplit_once('.').expect("parts").1),
        genuine.rsplit_once('.').expect("parts").0.to_owned() + ".",
        "a.b.c".to_owned(),
        "..".to_owned(),
    ];
    for changes in [
        json!({"iss": "https://id.example"}),
        json!({"aud": "another"}),
        json!({"aud": null}),
        json!({"exp": now() - 61}),
        json!({"exp": null}),
        json!({"nbf": now() + 120}),
        json!({"email": null}),
        json!({"email": "a".repeat(129)}),
        json!({"email_verified": false}),
        json!({"answerable_tenant": null}),
        json!({"answerable_tenant": "ten_00000000-0000-7000-8000-000000000000"}),
        json!({"answerable_tenant": "00000000-0000-7000-8000-000000000000"}),
        json!({"padding": "x".repeat(15_000)}),
    ] {
        bad.push(people.but(changes).key().expect("a token").to_owned());
    }
    for text in bad {
        let client = people.world.client.with_key(&text);
        for path in ["/v1/runs", "/v1/tenants"] {
            let answer = client.get(path).await;
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{}", &text[..text.len().min(200)]);
            answer.refused(401, "unauthorized");
        }
    }
    // Tokens of RSA keys are as good.
    let rsa = SigningKey::rsa("k0");
    for alg in ["RS256", "PS512"] {
        let text = token_with(&rsa, &header(alg, "k0"), &good);
        people.world.client.with_key(&text).get("/v1/runs").await.ok();
    }
    assert_eq!(people.issuer.asked(), 1, "no request asks the provider");
}

#[tokio::test]
async fn no_operation_opens_for_a_token_that_is_not_good() {
    let people = People::start().await;
    let expired = people.but(json!({"exp": now() - 61}));
    for (method, template) in Document::load().operations() {
        if template.starts_with("/v1/") {
            let path = template.replace("{number}", "1").replace(['{', '}'], "");
            let method: Method = method.parse().expect("a method");
            expired.ask(method, &path).await.refused(401, "unauthorized");
        }
    }
}

#[tokio::test]
async fn a_tenant_that_is_gone_or_suspended_has_no_people() {
    let people = People::start().await;
    let (other, _) = people.world.neighbour(&json!({})).await;
    let stranger = people.but(json!({"answerable_tenant": other}));
    stranger.get("/v1/runs").await.ok();
    people.world.server.operator().delete(&format!("/v1/tenants/{other}")).await.is(204);
    stranger.get("/v1/runs").await.refused(401, "unauthorized");
}

#[tokio::test]
async fn people_and_keys_share_the_tenants_rate() {
    let people = People::start().await;
    let (other, client) = people.world.neighbour(&json!({"max_requests_per_minute": 6})).await;
    let ann = people.but(json!({"answerable_tenant": other}));
    let mut answered = 0;
    for nth in 0..20 {
        let answer = if nth % 2 == 0 { ann.get("/v1/runs").await } else { client.get("/v1/runs").await };
        if answer.status == 429 {
            break;
        }
        answer.ok();
        answered += 1;
    }
    assert!((3..=6).contains(&answered), "{answered}");
    ann.get("/v1/runs").await.refused(429, "rate_limited");
    client.get("/v1/runs").await.refused(429, "rate_limited");
}

#[tokio::test]
async fn streams_and_waits_end_with_the_token() {
    let people = People::start().await;
    let world = &people.world;
    world.model.script("m", [ModelReply::text("Done.").held()]);
    let run = world.start(&world.agent(&[])).await;
    // A minute is the clocks' own: it is good for ten seconds more.
    let brief = people.but(json!({"exp": now() - 50}));
    let path = run.path("/wait?timeout=60");
    let waiting = tokio::spawn({
        let brief = brief.clone();
        async move { brief.get(&path).await }
    });
    let stream = brief.stream(&run.path("/events"), None).await;
    // It was good a moment ago, and is not looked at for two seconds at most.
    let told = tokio::time::timeout(SOON, stream.rest()).await.expect("the stream ends");
    assert!(told.iter().all(|event| event.kind != "run.finished"));
    let answer = tokio::time::timeout(SOON, waiting).await.expect("the wait ends").expect("an answer");
    answer.refused(401, "unauthorized");
    brief.get("/v1/runs").await.refused(401, "unauthorized");
    world.model.release();
    run.ended().await;
}

#[tokio::test]
async fn a_provider_that_is_away_at_the_start_keeps_nobody_else_out() {
    let key = SigningKey::ed25519("k1");
    let issuer = ScriptedIssuer::start(&[&key]).await.expect("an issuer");
    issuer.go_away();
    let database = TestDatabase::create().await.expect("a database");
    let url = issuer.url();
    let settings = [("ANSWERABLE_OIDC_ISSUER", &*url), ("ANSWERABLE_OIDC_AUDIENCE", "answerable")];
    let server = Server::start_with(&database.url, &settings).await;
    let world = World::on(Arc::new(server), Some(database)).await;
    let people = People { world, issuer, key };
    people.world.client.get("/v1/runs").await.ok();
    let answer = people.person("ann", &["admin"]).get("/v1/runs").await;
    assert!(answer.header("retry-after").is_some());
    answer.refused(503, "unavailable");
    // What could never be good is refused, and nobody is asked about it.
    people.but(json!({"aud": "another"})).get("/v1/runs").await.refused(401, "unauthorized");
    people.world.client.with_key("a.b.c").get("/v1/runs").await.refused(401, "unauthorized");
    let log = people.world.server.log_from(0);
    assert!(log.contains("the issuer's keys can't be had") && !log.contains(" ERROR "), "{log}");
}

#[tokio::test]
async fn without_a_provider_tokens_open_nothing() {
    let world = World::shared().await;
    let key = SigningKey::ed25519("k1");
    let text = token(
        &key,
        &json!({"iss": "https://id.example", "aud": "answerable", "exp": now() + 600, "email": "ann",
        "answerable_tenant": world.tenant, "answerable_scopes": ["admin"]}),
    );
    world.client.with_key(&text).get("/v1/runs").await.refused(401, "unauthorized");
    world.client.get("/v1/runs").await.ok();
}
