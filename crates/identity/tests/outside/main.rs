//! Tokens judged from outside: published ones, those of every algorithm, and hostile ones.

mod claims;
mod hostile;
mod signatures;

use answerable_identity::{Claims, Fault, KeySet, Rules, Token};
use answerable_ports::Vouched;
use answerable_testkit::SigningKey;
use serde_json::{Value, json};

/// When tokens are judged here, in milliseconds.
const NOW: i64 = 1_800_000_000_000;
/// The same in seconds, as tokens have it.
const NOW_S: i64 = NOW / 1000;
const TENANT: &str = "ten_0199a000-0000-7000-8000-000000000001";

fn rules() -> Rules {
    Rules {
        issuer: "https://id.example".into(),
        audience: "answerable".into(),
        tenant_claim: "answerable_tenant".into(),
        scopes_claim: "answerable_scopes".into(),
        user_claim: "email".into(),
    }
}

/// What a good token says.
fn good() -> Value {
    json!({
        "iss": "https://id.example", "aud": "answerable", "exp": NOW_S + 600, "email": "ann@example.com",
        "answerable_tenant": TENANT, "answerable_scopes": ["approvals:decide"],
    })
}

/// The claims of a good token with changes; null takes one away.
fn claims(changes: Value) -> Value {
    let mut all = good();
    for (name, value) in changes.as_object().expect("an object") {
        if value.is_null() {
            all.as_object_mut().expect("an object").remove(name);
        } else {
            all[name] = value.clone();
        }
    }
    all
}

fn set(keys: &[Value]) -> KeySet {
    KeySet::read(json!({"keys": keys}).to_string().as_bytes()).expect("a set")
}

fn keys(keys: &[&SigningKey]) -> KeySet {
    set(&keys.iter().map(|key| key.jwk()).collect::<Vec<_>>())
}

/// Judged as the service does it.
fn judged(text: &str, keys: &KeySet, rules: &Rules) -> Result<Vouched, Fault> {
    let token = Token::read(text)?;
    let vouched = Claims::of(&token)?.vouch(rules, NOW)?;
    keys.verify(&token).map(|()| vouched)
}
