//! Tokens that somebody made to get in.

use answerable_identity::{Fault, Token};
use answerable_testkit::SigningKey;
use answerable_testkit::issuer::{token, token_by_secret, token_with};
use proptest::prelude::*;
use serde_json::json;

use super::{claims, good, judged, keys, rules};

#[test]
fn nobody_signs_for_the_issuer() {
    let (rsa, mine) = (SigningKey::rsa("k"), SigningKey::p256("mine"));
    let set = keys(&[&rsa]);
    let header = |alg: &str| json!({"alg": alg, "kid": "k", "typ": "JWT"});
    let genuine = token(&rsa, &good());
    let (signed, signature) = genuine.rsplit_once('.').expect("parts");
    let said = signed.split_once('.').expect("parts").1;
    let mut hostile = vec![
        // Nothing is signed.
        (format!("{signed}."), Fault::Signature),
        (signed.to_owned(), Fault::Unreadable),
        // Two signatures, or five parts as where it is encrypted.
        (format!("{genuine}.{signature}"), Fault::Unreadable),
        (format!("{genuine}.a.b"), Fault::Unreadable),
        (format!("{signed}..{signature}"), Fault::Unreadable),
        (format!(".{said}.{signature}"), Fault::Unreadable),
        // Written in the other alphabet, or padded.
        (format!("{genuine}="), Fault::Unreadable),
        (format!("{signed}.{}", signature.replace(['-', '_'], "+")), Fault::Unreadable),
        (format!("{genuine} "), Fault::Unreadable),
        ("..".to_owned(), Fault::Unreadable),
        ("a.b.c".to_owned(), Fault::Unreadable),
        // Longer than any honest one.
        (token(&rsa, &claims(json!({"padding": "x".repeat(16 * 1024)}))), Fault::TooLong),
        // A key brought along, or named by address.
        (
            token_with(&mine, &json!({"alg": "ES256", "kid": "mine", "jwk": mine.jwk()}), &good()),
            Fault::UnknownKey,
        ),
        (
            token_with(
                &mine,
                &json!({"alg": "ES256", "kid": "k", "jku": "https://evil.example/keys"}),
                &good(),
            ),
            Fault::Algorithm,
        ),
        // Extensions that must be understood, and other kinds of tokens.
        (
            token_with(&rsa, &json!({"alg": "RS256", "kid": "k", "crit": ["b64"], "b64": false}), &good()),
            Fault::Critical,
        ),
        (token_with(&rsa, &json!({"alg": "RS256", "kid": "k", "crit": []}), &good()), Fault::Critical),
        (token_with(&rsa, &json!({"alg": "RS256", "kid": "k", "typ": "logout+jwt"}), &good()), Fault::Kind),
        (token_with(&rsa, &json!({"alg": ["RS256"], "kid": "k"}), &good()), Fault::Unreadable),
        (token_with(&rsa, &json!({"kid": "k"}), &good()), Fault::Unreadable),
        (token_with(&rsa, &json!({"alg": "RS256", "kid": 5}), &good()), Fault::Unreadable),
    ];
    // No algorithm, in every spelling, and those that share the key with whoever judges.
    let shown = rsa.jwk()["n"].as_str().expect("n").to_owned();
    for alg in
        ["none", "None", "NONE", "nOnE", "", "HS256", "HS384", "HS512", "ES512", "ES256K", "rs256", "RS256 "]
    {
        hostile.push((token_with(&rsa, &header(alg), &good()), Fault::Algorithm));
        hostile.push((token_by_secret(shown.as_bytes(), &header(alg), &good()), Fault::Algorithm));
    }
    // The public key as a secret, and the header says what the key is for.
    hostile.push((token_by_secret(shown.as_bytes(), &header("RS256"), &good()), Fault::Signature));
    // Names of keys that are paths, queries or numbers: they are compared and nothing else.
    for kid in [
        "../k",
        "/dev/null",
        "k\u{0}",
        "k'; DROP TABLE api_keys; --",
        "K",
        " k",
        "",
        "https://evil.example/k",
    ] {
        let named = json!({"alg": "RS256", "kid": kid});
        hostile.push((token_with(&rsa, &named, &good()), Fault::UnknownKey));
    }
    assert!(judged(&genuine, &set, &rules()).is_ok());
    for (text, wanted) in hostile {
        assert_eq!(judged(&text, &set, &rules()), Err(wanted), "{}", &text[..text.len().min(300)]);
    }
}

#[test]
fn a_header_that_says_a_thing_twice_is_refused() {
    let rsa = SigningKey::rsa("k");
    let genuine = token(&rsa, &good());
    let twice = r#"{"alg":"RS256","kid":"k","alg":"none"}"#;
    let header = token_with(&rsa, &json!({}), &json!({}));
    assert!(Token::read(&header).is_err());
    let encode = |text: &str| {
        use base64::Engine as _;
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
    };
    let (_, rest) = genuine.split_once('.').expect("parts");
    let text = format!("{}.{rest}", encode(twice));
    assert_eq!(judged(&text, &keys(&[&rsa]), &rules()), Err(Fault::Unreadable));
}

proptest! {
    #[test]
    fn whatever_comes_is_judged(text in "[A-Za-z0-9_.-]{0,400}|\\PC{0,200}") {
        let _ = judged(&text, &keys(&[&SigningKey::ed25519("k")]), &rules());
    }

    #[test]
    fn a_genuine_token_with_any_one_character_changed_is_not(at in any::<prop::sample::Index>(), other in "[A-Za-z0-9_-]") {
        let key = SigningKey::ed25519("k");
        let genuine = token(&key, &good());
        let at = at.index(genuine.len());
        let changed = format!("{}{other}{}", &genuine[..at], &genuine[at + 1..]);
        prop_assume!(changed != genuine);
        prop_assert!(judged(&changed, &keys(&[&key]), &rules()).is_err());
    }
}
