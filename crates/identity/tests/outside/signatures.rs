//! Signatures of each algorithm, by the keys of each kind.

use answerable_identity::{Fault, KeySet, NoKeySet, Token};
use answerable_testkit::SigningKey;
use answerable_testkit::issuer::{token, token_with};
use serde_json::{Value, json};

use super::{good, judged, keys, rules, set};

/// Published tokens with the keys that they are good by: RFC 7515 A.2 and A.3, RFC 8037 A.4.
fn published() -> Vec<(String, Value)> {
    let said =
        "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    let rsa = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9\
        CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO\
        --xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_Io\
        ypGlUPQGe77Rw";
    let ec = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    let ed = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    vec![
        (format!("eyJhbGciOiJSUzI1NiJ9.{said}.{rsa}"), SigningKey::rsa("any").jwk()),
        (
            format!("eyJhbGciOiJFUzI1NiJ9.{said}.{ec}"),
            json!({"kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
                "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}),
        ),
        (
            format!("eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.{ed}"),
            json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}),
        ),
    ]
}

#[test]
fn published_tokens_are_genuine_and_changed_ones_are_not() {
    for (text, key) in published() {
        let keys = set(&[key]);
        assert_eq!(keys.verify(&Token::read(&text).expect("a token")), Ok(()), "{text}");
        let (signed, signature) = text.rsplit_once('.').expect("parts");
        let other = if signature.starts_with('A') { "B" } else { "A" };
        let forged = format!("{signed}.{other}{}", &signature[1..]);
        assert_eq!(keys.verify(&Token::read(&forged).expect("a token")), Err(Fault::Signature));
        let (header, said) = signed.split_once('.').expect("parts");
        let other = if said.starts_with('e') { "f" } else { "e" };
        let forged = format!("{header}.{other}{}.{signature}", &said[1..]);
        assert_eq!(keys.verify(&Token::read(&forged).expect("a token")), Err(Fault::Signature));
    }
}

#[test]
fn each_kind_of_key_signs_by_its_own_algorithms_alone() {
    let all = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];
    let of = [
        (SigningKey::rsa("k"), &all[..6]),
        (SigningKey::p256("k"), &all[6..7]),
        (SigningKey::p384("k"), &all[7..8]),
        (SigningKey::ed25519("k"), &all[8..]),
    ];
    for (key, own) in &of {
        for algorithm in all {
            let text = token_with(key, &json!({"alg": algorithm, "kid": "k"}), &good());
            let wanted = if own.contains(&algorithm) { Ok(()) } else { Err(Fault::Algorithm) };
            assert_eq!(judged(&text, &keys(&[key]), &rules()).map(|_| ()), wanted, "{algorithm} by {key:?}");
            // A key that names its algorithm is for no other.
            let mut pinned = key.jwk();
            pinned["alg"] = json!(own[0]);
            let wanted = if algorithm == own[0] { Ok(()) } else { Err(Fault::Algorithm) };
            assert_eq!(judged(&text, &set(&[pinned]), &rules()).map(|_| ()), wanted, "{algorithm}");
        }
    }
}

#[test]
fn a_token_is_good_by_the_key_that_it_names_and_by_no_other() {
    let (one, two) = (SigningKey::p256("one"), SigningKey::p256("two"));
    let both = keys(&[&one, &two]);
    let rules = rules();
    assert!(judged(&token(&two, &good()), &both, &rules).is_ok());
    let says = |kid: Value| token_with(&two, &json!({"alg": "ES256", "kid": kid}), &good());
    assert_eq!(judged(&says(json!("one")), &both, &rules), Err(Fault::Signature));
    assert_eq!(judged(&says(json!("three")), &both, &rules), Err(Fault::UnknownKey));
    // Without a name it is good where there is one key.
    let nameless = token_with(&two, &json!({"alg": "ES256"}), &good());
    assert_eq!(judged(&nameless, &both, &rules), Err(Fault::NoKey));
    assert!(judged(&nameless, &keys(&[&two]), &rules).is_ok());
    assert_eq!(judged(&nameless, &keys(&[&one]), &rules), Err(Fault::Signature));
    // Two keys may share a name, as where one of each kind is shown.
    let (ec, ed) = (SigningKey::p256("k"), SigningKey::ed25519("k"));
    for key in [&ec, &ed] {
        assert!(judged(&token(key, &good()), &keys(&[&ec, &ed]), &rules).is_ok());
    }
}

#[test]
fn keys_that_are_for_something_else_are_passed_over() {
    let key = SigningKey::p256("k");
    let text = token(&key, &good());
    let with = |name: &str, value: Value| {
        let mut jwk = key.jwk();
        jwk[name] = value;
        KeySet::read(json!({"keys": [jwk, SigningKey::ed25519("other").jwk()]}).to_string().as_bytes())
    };
    for (name, value) in [
        ("use", json!("enc")),
        ("key_ops", json!(["sign"])),
        ("d", json!("AAAA")),
        ("alg", json!("HS256")),
        ("alg", json!("none")),
        ("kty", json!("oct")),
        ("crv", json!("P-521")),
        ("x", json!("AAAA")),
        ("y", json!(5)),
    ] {
        let set = with(name, value.clone()).expect("another key is left");
        assert_eq!(judged(&text, &set, &rules()), Err(Fault::UnknownKey), "{name}: {value}");
    }
    let set = with("key_ops", json!(["verify"])).expect("a set");
    assert!(judged(&text, &set, &rules()).is_ok());
}

#[test]
fn what_is_no_set_of_keys_is_said() {
    let many: Vec<Value> = (0..65).map(|nth| SigningKey::ed25519(&nth.to_string()).jwk()).collect();
    for (text, wanted) in [
        (String::new(), NoKeySet::Unreadable),
        ("[]".into(), NoKeySet::Unreadable),
        ("{}".into(), NoKeySet::Unreadable),
        (json!({"keys": {}}).to_string(), NoKeySet::Unreadable),
        (json!({"keys": []}).to_string(), NoKeySet::NoneOfUse),
        (json!({"keys": [5, {"kty": "oct", "k": "c2VjcmV0"}]}).to_string(), NoKeySet::NoneOfUse),
        (json!({"keys": many}).to_string(), NoKeySet::TooMany),
    ] {
        assert_eq!(KeySet::read(text.as_bytes()), Err(wanted), "{text}");
    }
}

#[test]
fn a_short_rsa_key_opens_nothing() {
    // Genuine, by a key of 1024 bits that nobody has any more.
    let n = "tJD0j9pqwHi_JwgGo_nAFwqbCQ4ZKZXOuY34K9gmFBv2jiO4JNjATbtm3qr6aCSlaGMgKREXUAgOY8pjuqby4BImfoZ17JUZb_Hy\
        uiOGFdDvkD1YNOWN3Byt3BT05XdrAdg2fuLgtVu7_B0iItWWaVsHi5rLKBCS4oOIYFe8XZk";
    let text = "eyJhbGciOiJSUzI1NiIsImtpZCI6ImsifQ.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOiJhbnN3ZXJhYmxlIiwiZ\
        XhwIjoxODAwMDAwNjAwLCJlbWFpbCI6ImFubkBleGFtcGxlLmNvbSIsImFuc3dlcmFibGVfdGVuYW50IjoidGVuXzAxOTlhMDAwL\
        TAwMDAtNzAwMC04MDAwLTAwMDAwMDAwMDAwMSJ9.aM40drIKgiigpp9470Z3u3zdpo7SPzNj-RIIGkKGhODWgkCEWISFvmKi5sz_\
        6V5Mn9NvsDJ6uq4rYq7EJc42FAKwyv0z78WXyaBl7EQEdnFqM9oEutJcmOScLyIDmaebImmvElR0tOhy9C3xFYdJA8redrsqvWHQ\
        GG2is-RA530";
    let jwk = json!({"kty": "RSA", "kid": "k", "e": "AQAB", "n": n});
    assert_eq!(judged(text, &set(&[jwk]), &rules()), Err(Fault::Signature));
}
