//! What a token must say.

use answerable_identity::{Fault, Rules};
use answerable_testkit::SigningKey;
use answerable_testkit::issuer::token;
use serde_json::{Value, json};

use super::{NOW, NOW_S, TENANT, claims, judged, keys, rules};

#[test]
fn a_good_token_vouches_for_a_person_until_it_expires() {
    let key = SigningKey::ed25519("k");
    let vouched = judged(&token(&key, &claims(json!({}))), &keys(&[&key]), &rules()).expect("good");
    assert_eq!(vouched.tenant.to_string(), TENANT);
    assert_eq!(
        (vouched.user.as_str(), vouched.scopes),
        ("ann@example.com", vec!["approvals:decide".to_owned()])
    );
    // A minute is the clocks' own.
    assert_eq!(vouched.until, NOW + 660_000);
}

#[test]
fn what_is_missing_or_otherwise_is_refused() {
    let key = SigningKey::ed25519("k");
    let (keys, rules) = (keys(&[&key]), rules());
    let tenant = Fault::Claim("of the tenant");
    let (user, scopes) = (Fault::Claim("of the user"), Fault::Claim("of the scopes"));
    for (changes, wanted) in [
        (json!({"iss": null}), Some(Fault::Claim("iss"))),
        (json!({"iss": "https://id.example/"}), Some(Fault::Claim("iss"))),
        (json!({"iss": ["https://id.example"]}), Some(Fault::Claim("iss"))),
        (json!({"aud": null}), Some(Fault::Claim("aud"))),
        (json!({"aud": "others"}), Some(Fault::Claim("aud"))),
        (json!({"aud": []}), Some(Fault::Claim("aud"))),
        (json!({"aud": ["others", "answerable"]}), None),
        (json!({"aud": {"answerable": true}}), Some(Fault::Claim("aud"))),
        (json!({"exp": null}), Some(Fault::Claim("exp"))),
        (json!({"exp": "1900000000"}), Some(Fault::Claim("exp"))),
        (json!({"exp": -1}), Some(Fault::Claim("exp"))),
        (json!({"exp": 1e300}), Some(Fault::Claim("exp"))),
        (json!({"exp": NOW_S - 60}), Some(Fault::Time)),
        (json!({"exp": NOW_S - 59}), None),
        (json!({"exp": 1_800_000_000.5}), None),
        (json!({"nbf": NOW_S + 60}), None),
        (json!({"nbf": NOW_S + 61}), Some(Fault::Time)),
        (json!({"nbf": "now"}), Some(Fault::Claim("nbf"))),
        (json!({"answerable_tenant": null}), Some(tenant)),
        (json!({"answerable_tenant": ""}), Some(tenant)),
        (json!({"answerable_tenant": [TENANT]}), Some(tenant)),
        (json!({"answerable_tenant": TENANT.to_uppercase()}), Some(tenant)),
        (json!({"answerable_tenant": TENANT.replace("ten_", "run_")}), Some(tenant)),
        (json!({"email": null}), Some(user)),
        (json!({"email": ""}), Some(user)),
        (json!({"email": 5}), Some(user)),
        (json!({"email": "a".repeat(128)}), None),
        (json!({"email": "a".repeat(129)}), Some(user)),
        (json!({"email": "ann\u{0}"}), Some(user)),
        (json!({"email": "ann\n"}), Some(user)),
        (json!({"email": " ann"}), Some(user)),
        (json!({"email": "ann  b"}), Some(user)),
        (json!({"email": "ann b"}), None),
        // It looks like another one.
        (json!({"email": "\u{430}nn@example.com"}), Some(user)),
        (json!({"email_verified": true}), None),
        (json!({"email_verified": "true"}), None),
        (json!({"email_verified": false}), Some(Fault::Claim("email_verified"))),
        (json!({"email_verified": 1}), Some(Fault::Claim("email_verified"))),
        (json!({"answerable_scopes": null}), None),
        (json!({"answerable_scopes": {"admin": true}}), Some(scopes)),
        (json!({"answerable_scopes": ["admin", 5]}), Some(scopes)),
    ] {
        let got = judged(&token(&key, &claims(changes.clone())), &keys, &rules).err();
        assert_eq!(got, wanted, "{changes}");
    }
}

#[test]
fn scopes_are_a_list_or_words_and_others_are_not_ours() {
    let key = SigningKey::ed25519("k");
    for (said, wanted) in [
        (json!(null), vec![]),
        (json!(""), vec![]),
        (json!("openid approvals:decide  runs:read email"), vec!["runs:read", "approvals:decide"]),
        (json!(["admin", "admin", "openid"]), vec!["admin"]),
        (json!(["runs:read approvals:decide", "ADMIN"]), vec![]),
    ] {
        let text = token(&key, &claims(json!({"answerable_scopes": said})));
        assert_eq!(judged(&text, &keys(&[&key]), &rules()).expect("good").scopes, wanted, "{said}");
    }
}

#[test]
fn other_claims_may_hold_the_same() {
    let key = SigningKey::ed25519("k");
    let rules = Rules {
        tenant_claim: "https://answerable.example/tenant".into(),
        scopes_claim: "scope".into(),
        user_claim: "sub".into(),
        ..rules()
    };
    let said: Value = claims(json!({"https://answerable.example/tenant": TENANT, "answerable_tenant": null,
        "scope": "runs:write", "sub": "00u1", "email": null, "email_verified": false}));
    let vouched = judged(&token(&key, &said), &keys(&[&key]), &rules).expect("good");
    assert_eq!((vouched.user.as_str(), vouched.scopes), ("00u1", vec!["runs:write".to_owned()]));
}
