use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn every_spelling_is_masked() {
    let mask = Mask::new(["canary \"1\"/2", "canary \"1\"/2 longer", "tiny", "whsec_MfKQ9r8G", "é<&'ab>cd"]);
    for (text, wanted) in [
        ("a canary \"1\"/2 b", "a *** b"),
        (r#"{"h": "canary \"1\"/2 longer"}"#, r#"{"h": "***"}"#),
        (r#"{"h": "canary \"1\"\/2 longer"}"#, r#"{"h": "***"}"#),
        (r#"{"log": "{\"h\": \"canary \\\"1\\\"/2\"}"}"#, r#"{"log": "{\"h\": \"***\"}"}"#),
        ("?h=canary+%221%22%2F2&x", "?h=***&x"),
        ("?h=canary%20%221%22%2f2&x", "?h=***&x"),
        ("tiny things stay", "tiny things stay"),
        ("whsec_MfKQ9r8G MfKQ9r8G", "*** ***"),
        (r#""\u00e9<&'ab>cd""#, r#""***""#),
        (r#""é\u003c\u0026'ab\u003ecd""#, r#""***""#),
        (r#""\u00e9\u003c\u0026\u0027ab\u003ecd""#, r#""***""#),
        (r#""\u00e9\u003c\u0026'ab\u003ecd""#, r#""***""#),
        (r#""\u00E9\u003C\u0026\u0027ab\u003Ecd""#, r#""***""#),
        ("<b>é&lt;&amp;&#39;ab&gt;cd</b>", "<b>***</b>"),
        ("63616e6172792022312 2f32 63616E617279202231222F32!", "63616e6172792022312 2f32 ***!"),
    ] {
        assert_eq!(mask.text(text), wanted);
        assert_eq!(mask.bytes(text.as_bytes()), wanted.as_bytes());
        assert_eq!(mask.finds(text), wanted.contains("***"));
    }
    assert_eq!(mask.bytes(b"\xffcanary \"1\"/2\xff"), b"\xff***\xff");
    assert!(mask.finds_in(&json!([{"a MfKQ9r8G": 1}])) && !mask.finds_in(&json!(["tiny", 1])));
    assert!(!format!("{mask:?}").contains("canary"));
}

#[test]
fn secrets_that_overlap_leave_nothing() {
    let mask = Mask::new(["abcdefgh", "defghijklm", "klmnop"]);
    assert_eq!(mask.text("-abcdefghijklmnop-"), "-***-");
    assert_eq!(mask.text("abcdefghabcdefgh"), "******");
}

#[test]
fn an_open_end_is_found() {
    let mask = Mask::new(["abcdefgh", "öbcdef"]);
    for (text, wanted) in
        [("x abc", 3), ("x abcdefg", 7), ("x abcx", 0), ("", 0), ("ö", 2), ("a", 1), ("xö", 2)]
    {
        assert_eq!(mask.open_end(text), wanted, "{text}");
    }
    assert_eq!(Mask::default().open_end("abc"), 0);
}

/// What no spelling may leave: the secret itself, as whoever reads the text would decode it.
fn written(secret: &str, form: usize, around: &str) -> String {
    match form {
        0 => secret.to_owned(),
        1 => Value::from(secret).to_string(),
        2 => url::form_urlencoded::byte_serialize(secret.as_bytes()).collect(),
        3 => STANDARD.encode(format!("{around}{secret}")),
        6 => written_by_html_safe(secret),
        4 => URL_SAFE_NO_PAD.encode(format!("{around}{secret}{around}")),
        _ => secret.bytes().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// As some write JSON that may stand within HTML.
fn written_by_html_safe(secret: &str) -> String {
    let escaped = |c: char| match c {
        '"' | '&' | '\'' | '+' | '<' | '>' | '`' => format!("\\u{:04X}", u32::from(c)),
        '\\' => "\\\\".to_owned(),
        c if c.is_ascii() => c.to_string(),
        c => format!("\\u{:04X}", u32::from(c)),
    };
    secret.chars().map(escaped).collect()
}

proptest! {
    #[test]
    fn no_form_of_a_secret_is_left(
        secret in "[!-~éλ]{6,40}",
        form in 0..7_usize,
        around in "[a-z:]{0,7}",
        before in "[a-z \"{]{0,20}",
        after in "[a-z \"}]{0,20}",
    ) {
        let text = format!("{before}{}{after}", written(&secret, form, &around));
        let mask = Mask::new([secret.as_str()]);
        let masked = mask.text(&text);
        prop_assert!(masked.contains(STARS), "{secret}: {text}");
        prop_assert!(!mask.finds(&masked) || secret.contains('*'), "{secret}: {masked}");
        let bytes = mask.bytes(text.as_bytes());
        prop_assert_eq!(bytes, masked.as_bytes());
    }

    /// In pieces of any size, as they come over a wire, the same is shown as in one.
    #[test]
    fn pieces_show_what_the_whole_shows(
        secret in "[a-d]{6,9}",
        text in "[a-d]{0,60}",
        size in 1..9_usize,
    ) {
        let mask = Mask::new([secret.as_str()]);
        let (mut said, mut held) = (String::new(), String::new());
        for piece in text.as_bytes().chunks(size) {
            held.push_str(std::str::from_utf8(piece).expect("ASCII"));
            let masked = mask.text(&held);
            let ready = masked.len() - mask.open_end(&masked);
            said.push_str(&masked[..ready]);
            held = masked[ready..].to_owned();
        }
        said.push_str(&held);
        prop_assert!(!said.contains(&secret), "{said}");
    }
}
