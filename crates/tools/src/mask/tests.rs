use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;

use super::forms::Form;
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
    // One that is found last may join those before it.
    let mask = Mask::new(["abcdef", "ghijkl", "bcdefghijklmn"]);
    assert_eq!(mask.text("-abcdefghijklmno-"), "-***o-");
    // Of those that begin alike, the longest counts.
    let mask = Mask::of(spellings::of(["abcdef", "abcdefgh"]), 4);
    assert_eq!(mask.text("-abcdefgh-abcdefg-"), "-***-***g-");
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

/// Every spelling of a secret, written out.
fn spelled(secret: &str) -> Vec<String> {
    let encoding = forms::encoding().filter(|_| secret.len() >= SHORTEST);
    let all = [Form::Plain].into_iter().chain(forms::escaping()).chain(encoding);
    all.map(|form| form.write(secret)).filter(|text| text.len() >= SHORTEST).collect()
}

/// Where any of these stands; those that overlap are one.
fn naive_places(spelled: &[String], text: &str) -> Vec<Range<usize>> {
    let at =
        |start: usize| spelled.iter().filter(move |one| text.as_bytes()[start..].starts_with(one.as_bytes()));
    let all = (0..text.len()).flat_map(|start| at(start).map(move |one| start..start + one.len()));
    all.fold(Vec::new(), |mut places: Vec<Range<usize>>, next| {
        match places.last_mut().filter(|last| next.start < last.end) {
            Some(last) => last.end = last.end.max(next.end),
            None => places.push(next),
        }
        places
    })
}

fn naive_open_end(spelled: &[String], text: &str) -> usize {
    let most = spelled.iter().map(String::len).max().unwrap_or(0).saturating_sub(1).min(text.len());
    let is_open = |end: &usize| {
        spelled.iter().any(|one| one.as_bytes().starts_with(&text.as_bytes()[text.len() - end..]))
    };
    (1..=most).rev().find(is_open).unwrap_or(0)
}

proptest! {
    /// Beginnings that are found and what is compared behind them show what a search for every spelling shows.
    #[test]
    fn nothing_else_is_found_than_by_a_search_for_every_spelling(
        secrets in vec("[ab<'/é€😀\"\\\\]{5,24}", 1..3),
        pieces in vec((any::<Index>(), any::<Index>(), any::<Index>(), "[ab<;&]{0,2}"), 0..6),
        beginning in 4..40_usize,
    ) {
        let all: Vec<String> = secrets.iter().flat_map(|secret| spelled(secret)).collect();
        let mut text = String::new();
        for (which, from, to, between) in pieces {
            // Parts of spellings, mostly with their beginning or their end.
            let one = all[which.index(all.len())].as_str();
            let (from, to) = (from.index(2 * one.len()).saturating_sub(one.len()), to.index(2 * one.len()).min(one.len()));
            text.push_str(&one[one.floor_char_boundary(from)..one.floor_char_boundary(to.max(from))]);
            text.push_str(&between);
        }
        let mask = Mask::of(spellings::of(secrets.iter().map(String::as_str)), beginning);
        prop_assert_eq!(mask.places(text.as_bytes()), naive_places(&all, &text));
        prop_assert_eq!(mask.finds(&text), !naive_places(&all, &text).is_empty());
        prop_assert_eq!(mask.longest(), all.iter().map(String::len).max().unwrap_or(0));
        prop_assert_eq!(mask.open_end(&text), naive_open_end(&all, &text));
    }
}

/// 64 KiB that have to be escaped, and a text that is them, in any form.
#[test]
fn long_secrets_are_found_and_little_is_kept_for_them() {
    let secret = "<é'/\"".repeat(11_000);
    let mask = Mask::new([secret.as_str()]);
    let kept = mask.spellings.iter().map(|alike| alike.beginning.len()).sum::<usize>();
    assert!(kept <= BEGINNINGS, "{kept}");
    for text in spelled(&secret) {
        let said = format!("a {text} b");
        assert_eq!(mask.text(&said), "a *** b");
        assert_eq!(mask.open_end(&said[..said.len() - 3]), text.len() - 1);
    }
    assert_eq!(mask.longest(), 11_000 * (7 * 4 + 3));
}

#[test]
fn beyond_a_limit_of_all_secrets_the_longest_are_looked_for_as_they_are() {
    let (short, long) = ("<short secret>", "<".repeat(spellings::IN_ALL_FORMS));
    let mask = Mask::new([long.as_str(), short]);
    let in_html = |secret: &str| secret.replace('<', "&lt;").replace('>', "&gt;");
    assert_eq!(mask.text(&format!("{short}, {}", in_html(short))), "***, ***");
    assert_eq!(mask.text(&format!("{long}!")), "***!");
    assert_eq!(mask.text(&in_html(&long)), in_html(&long));
}

#[test]
fn a_text_that_is_made_to_be_compared_for_long_is_hidden_rather() {
    // Each beginning in it could be that of a secret, which differs at its end.
    let secret = format!("{}<'/\"", "a".repeat(4000));
    let text = "a".repeat(1 << 18);
    let mask = Mask::new([secret.as_str()]);
    let spelling = spellings::of([secret.as_str()]).swap_remove(0);
    let mut patience = 10_000;
    assert!(!spelling.agrees(text.as_bytes(), &mut patience) && patience < 6000);
    assert!(!spelling.agrees(text.as_bytes(), &mut patience));
    assert!(spelling.agrees(text.as_bytes(), &mut patience) && patience == 0);
    assert!(mask.text(&text).ends_with("***") && mask.open_end(&text) > 0);
    // It is hidden up to where a character ends.
    for between in ["", "b"] {
        let masked = mask.text(&format!("{text}{between}{}", "é".repeat(5000)));
        assert!(masked.contains("***é") && masked.ends_with('é'), "{masked}");
    }
}

#[test]
fn what_can_not_be_searched_is_not_shown() {
    let blind = Mask { finder: None, ..Mask::new(["sk-secret-1"]) };
    assert_eq!((blind.text("harmless").as_str(), blind.bytes(b"harmless")), ("***", b"***".to_vec()));
    assert_eq!((blind.text("").as_str(), blind.open_end("harmless")), ("", 8));
    assert!(blind.finds("harmless") && blind.finds_in(&json!(["harmless"])));
    assert_eq!(Mask::default().text("harmless"), "harmless");
}
