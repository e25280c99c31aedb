//! Tokens of people, and sets of the keys that they are signed with.

use std::sync::LazyLock;

use answerable_identity::{Claims, KeySet, Rules, Token};

/// Public keys of each kind. Nobody has the private ones any more, so nothing is signed with them.
const KEYS: &str = r#"{"keys": [
    {"kty": "RSA", "kid": "r", "alg": "RS256", "e": "AQAB",
     "n": "sFV0LIKHyIYKP4LSYdR6Wb0BoFIDRL-J8cZCJcUpPLTdOfcbbUEV9w7d3fIY_FqCHz-Cwqu1qAqAXRUy2z6mj_mejAKuuPN7SpwNU2gY-jOsguSwMh-0TcPoisxh8Uj6UcnIckEl-zbxBKA7AJCTvjXmspmSXdLzEhObiLP01cFoBzyD-30aQjohZ-DYmv4AclvpvwV23sCu5SoNHz_sgwsEIFjlIzAG2Fx-vLSpoS9smVKmExvzxIKhFgT6rWs1XZp7vO_e7NXsBxL-JTcipb2UdhwDBrf1W0WaauHm0DA4K7Djb4g9H67-mDZvDqpEHo7tsg0b0GONJ4D-hGIM_Q"},
    {"kty": "EC", "crv": "P-256", "kid": "e", "x": "s1vV-p2UiiMFUD457bERZfwlsU-xrycIFTt-j-q5x0s",
     "y": "ppq9As4DlxrP_kN1XEB-gmBuO3_mhJY3mCKd_7qU9go"},
    {"kty": "OKP", "crv": "Ed25519", "kid": "d", "x": "qKdIJnrYqM0QW7kmp6kCHOq7L1pB67Aco0V6pJ2PlOc"}
]}"#;

static SET: LazyLock<KeySet> = LazyLock::new(|| KeySet::read(KEYS.as_bytes()).expect("keys"));

/// A token is read or refused, is genuine for no key that didn't sign it, and vouches for nobody who can't be one. Fed with a
/// set of keys on the first line, and a token on the second.
pub fn tokens(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (keys, token) = text.split_once('\n').unwrap_or_default();
    let keys = KeySet::read(keys.as_bytes());
    let Ok(token) = Token::read(token) else { return };
    assert!(SET.verify(&token).is_err(), "nobody signed it");
    if let Ok(keys) = keys {
        let _ = keys.verify(&token);
    }
    let Ok(claims) = Claims::of(&token) else { return };
    if let Ok(vouched) = claims.vouch(&rules(), 1_700_000_000_000) {
        let name = &vouched.user;
        assert!((1..=128).contains(&name.len()) && name.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{name:?}");
        assert!(vouched.until > 1_700_000_000_000 && vouched.scopes.len() <= 5);
    }
}

fn rules() -> Rules {
    Rules {
        issuer: "https://id.example".into(),
        audience: "answerable".into(),
        tenant_claim: "answerable_tenant".into(),
        scopes_claim: "answerable_scopes".into(),
        user_claim: "email".into(),
    }
}
