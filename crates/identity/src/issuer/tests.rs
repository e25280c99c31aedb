//! An issuer's keys over time: they change, and the issuer is away.

use answerable_testkit::issuer::token;
use answerable_testkit::{ScriptedIssuer, SigningKey};
use answerable_tools::Allow;
use serde_json::json;

use super::*;

/// So short that a test sees them pass; nothing is asked for anew by itself but where a test wants it.
const QUICK: Times = Times {
    fresh: Duration::from_secs(3600),
    at_most: Duration::from_millis(300),
    stale: Duration::from_secs(3600),
    asking: Duration::from_secs(5),
    patience: Duration::from_secs(5),
};

fn config(issuer: &ScriptedIssuer) -> IssuerConfig {
    let rules = Rules {
        issuer: issuer.url(),
        audience: "answerable".into(),
        tenant_claim: "tenant".into(),
        scopes_claim: "scopes".into(),
        user_claim: "sub".into(),
    };
    IssuerConfig { rules, jwks_url: None }
}

fn started(issuer: &ScriptedIssuer, times: Times, change: impl FnOnce(&mut IssuerConfig)) -> Arc<Issuer> {
    let mut config = config(issuer);
    change(&mut config);
    let allow = Allow::parse("127.0.0.0/8").expect("a list");
    let client = GuardedClient::new(allow).expect("a client");
    Issuer::start_by(times, config, client, Clock::default(), CancellationToken::new())
}

fn signed(issuer: &ScriptedIssuer, key: &SigningKey) -> String {
    let exp = Clock::default().now() / 1000 + 600;
    let tenant = "ten_0199a000-0000-7000-8000-000000000001";
    token(key, &json!({"iss": issuer.url(), "aud": "answerable", "exp": exp, "tenant": tenant, "sub": "ann"}))
}

async fn came(issuer: &Issuer, token: &str) -> Option<NotVouched> {
    issuer.vouched(token).await.err()
}

/// Lets the time pass in which nothing is asked for again.
async fn rest() {
    tokio::time::sleep(QUICK.at_most + Duration::from_millis(50)).await;
}

#[tokio::test]
async fn keys_are_found_kept_and_never_fetched_for_a_request() {
    let (one, other) = (SigningKey::p256("one"), SigningKey::p256("other"));
    let provider = ScriptedIssuer::start(&[&one]).await.expect("an issuer");
    let issuer = started(&provider, Times { at_most: Duration::from_secs(3600), ..QUICK }, |_| {});
    // The first request may come before the keys do.
    for _ in 0..20 {
        assert_eq!(came(&issuer, &signed(&provider, &one)).await, None);
        assert_eq!(came(&issuer, &signed(&provider, &other)).await, Some(NotVouched::Refused));
        assert_eq!(came(&issuer, "a.b.c").await, Some(NotVouched::Refused));
    }
    assert_eq!(provider.asked(), 1);
}

#[tokio::test]
async fn a_new_key_is_asked_for_once_however_many_need_it() {
    let (old, new) = (SigningKey::p256("old"), SigningKey::ed25519("new"));
    let provider = ScriptedIssuer::start(&[&old]).await.expect("an issuer");
    let issuer = started(&provider, QUICK, |_| {});
    assert_eq!(came(&issuer, &signed(&provider, &old)).await, None);
    provider.show(&[&new]);
    rest().await;
    let token = signed(&provider, &new);
    let all = (0..50).map(|_| {
        let (issuer, token) = (Arc::clone(&issuer), token.clone());
        tokio::spawn(async move { came(&issuer, &token).await })
    });
    for one in all.collect::<Vec<_>>() {
        assert_eq!(one.await.expect("no panic"), None);
    }
    assert_eq!(provider.asked(), 2);
    // The old one is gone with its set, and asking for it again brings nothing.
    for _ in 0..20 {
        assert_eq!(came(&issuer, &signed(&provider, &old)).await, Some(NotVouched::Refused));
    }
    assert!(provider.asked() <= 3, "{}", provider.asked());
}

#[tokio::test]
async fn a_key_without_a_name_is_asked_for_anew_when_it_does_not_fit() {
    let (old, new) = (SigningKey::p256("x"), SigningKey::p256("x"));
    let nameless = |key: &SigningKey| {
        let mut jwk = key.jwk();
        jwk.as_object_mut().expect("an object").remove("kid");
        json!({"keys": [jwk]}).to_string()
    };
    let provider = ScriptedIssuer::start(&[]).await.expect("an issuer");
    provider.show_text(&nameless(&old));
    let issuer = started(&provider, QUICK, |_| {});
    let sign = |key: &SigningKey| {
        let claims = json!({"iss": provider.url(), "aud": "answerable", "exp": Clock::default().now() / 1000 + 600,
            "tenant": "ten_0199a000-0000-7000-8000-000000000001", "sub": "ann"});
        answerable_testkit::issuer::token_with(key, &json!({"alg": "ES256"}), &claims)
    };
    assert_eq!(came(&issuer, &sign(&old)).await, None);
    provider.show_text(&nameless(&new));
    rest().await;
    assert_eq!(came(&issuer, &sign(&new)).await, None);
    assert_eq!(came(&issuer, &sign(&old)).await, Some(NotVouched::Refused));
}

#[tokio::test]
async fn keys_serve_on_while_the_issuer_is_away_but_not_for_ever() {
    let key = SigningKey::p384("k");
    let provider = ScriptedIssuer::start(&[&key]).await.expect("an issuer");
    let times = Times { fresh: Duration::from_millis(100), ..QUICK };
    let issuer = started(&provider, times, |_| {});
    let token = signed(&provider, &key);
    assert_eq!(came(&issuer, &token).await, None);
    provider.go_away();
    let asked = provider.asked();
    provider.reached(asked + 2).await;
    assert_eq!(came(&issuer, &token).await, None);
    // The hour passes at once: nobody has to be quick before it does.
    tokio::time::pause();
    tokio::time::advance(times.stale).await;
    tokio::time::resume();
    assert_eq!(came(&issuer, &token).await, Some(NotVouched::Away));
    // What could never be good is refused all the same.
    assert_eq!(came(&issuer, "a.b.c").await, Some(NotVouched::Refused));
    provider.show(&[&key]);
    rest().await;
    assert_eq!(came(&issuer, &token).await, None);
}

#[tokio::test]
async fn what_is_no_answer_takes_no_key_away() {
    let key = SigningKey::p256("k");
    let provider = ScriptedIssuer::start(&[&key]).await.expect("an issuer");
    let times = Times { fresh: Duration::from_millis(50), at_most: Duration::from_millis(50), ..QUICK };
    let issuer = started(&provider, times, |_| {});
    let token = signed(&provider, &key);
    assert_eq!(came(&issuer, &token).await, None);
    let too_long = format!("{{\"keys\": [{}]}}", " ".repeat(300_000));
    for odd in ["", "nonsense", "{\"keys\": []}", &too_long] {
        provider.show_text(odd);
        let asked = provider.asked();
        provider.reached(asked + 2).await;
        assert_eq!(came(&issuer, &token).await, None, "{}", &odd[..odd.len().min(40)]);
    }
}

#[tokio::test]
async fn only_the_issuers_own_configuration_says_where_its_keys_are() {
    let key = SigningKey::p256("k");
    let provider = ScriptedIssuer::start(&[&key]).await.expect("an issuer");
    let token = signed(&provider, &key);
    for changes in [
        json!({"issuer": "https://other.example"}),
        json!({"jwks_uri": "http://10.0.0.1/keys"}),
        json!({"jwks_uri": "file:///etc/passwd"}),
        json!({"jwks_uri": null}),
    ] {
        provider.configure(changes.clone());
        let times = Times { patience: Duration::from_millis(500), ..QUICK };
        let issuer = started(&provider, times, |_| {});
        assert_eq!(came(&issuer, &token).await, Some(NotVouched::Away), "{changes}");
        // The operator may say it instead.
        let issuer = started(&provider, QUICK, |config| config.jwks_url = Some(provider.url() + "/keys"));
        assert_eq!(came(&issuer, &token).await, None);
    }
}
