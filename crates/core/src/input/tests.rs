//! Inputs as people, programs and strangers send them.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::json;
use crate::message::{Attachment, AttachmentSource, Part};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n rest";
const JPEG: &[u8] = b"\xff\xd8\xff\xe0 rest";
const GIF: &[u8] = b"GIF89a rest";
const WEBP: &[u8] = b"RIFF\x04\x00\x00\x00WEBPVP8 ";
const ART: &str = "art_0197c0de-0000-7000-8000-000000000001";

fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn image(more: Value) -> Value {
    piece("image", more)
}

fn file(more: Value) -> Value {
    piece("file", more)
}

fn piece(kind: &str, more: Value) -> Value {
    let mut piece = json!({"type": kind});
    for (name, value) in more.as_object().into_iter().flatten() {
        piece[name] = value.clone();
    }
    piece
}

/// Where the fault of a piece is, from the piece on.
fn fault_of(part: Value) -> String {
    let fault = read_content(&json!([{"type": "text", "text": "see"}, part])).expect_err("a fault");
    fault.pointer.strip_prefix("/1").expect("at the piece").to_owned()
}

fn attachment(part: Value) -> InputAttachment {
    let content = read_content(&json!([part])).expect("a content");
    content.parts[0].attachment().expect("an attachment").clone()
}

#[test]
fn texts_stay_as_they_were() {
    assert_eq!(read_input(&json!("go")).expect("an input"), [InputMessage::of_user("go")]);
    let list = json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes?"}]);
    let read = read_input(&list).expect("an input");
    assert_eq!((read[0].role, read[1].role), (Role::User, Role::Assistant));
    assert_eq!(read[1].content, Content::from("yes?"));
    assert!(!read[0].pinned);
}

#[test]
fn pieces_of_text_alone_are_one_text() {
    let content = json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]);
    assert_eq!(read_content(&content).expect("a content"), Content::from("one\ntwo"));
}

#[test]
fn pieces_keep_their_order_beside_the_text_among_them() {
    let png = image(json!({"data": base64(PNG)}));
    let pdf = file(json!({"name": "a.pdf", "media_type": "application/pdf", "url": "https://h/a.pdf"}));
    let old = image(json!({"artifact_id": ART}));
    let parts = json!([{"type": "text", "text": "one"}, png, {"type": "text", "text": "two"}, pdf, old]);
    let input = json!([{"role": "user", "content": parts, "pinned": true}]);
    let message = read_input(&input).expect("an input").remove(0);
    assert!(message.pinned);
    assert_eq!(message.content.text, "one\ntwo");
    let kinds: Vec<bool> = message.content.parts.iter().map(|part| part.attachment().is_none()).collect();
    assert_eq!(kinds, [true, false, true, false, false]);
    let id: ArtifactId = ART.parse().expect("an id");
    assert_eq!(message.content.referred().collect::<Vec<_>>(), [(4, id)]);
    assert_eq!(message.content.addresses().collect::<Vec<_>>(), [(3, "https://h/a.pdf")]);
}

#[test]
fn a_picture_is_what_its_bytes_are() {
    for (bytes, media_type) in
        [(PNG, "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif"), (WEBP, "image/webp")]
    {
        for named in
            [json!({}), json!({"media_type": media_type}), json!({"media_type": media_type.to_uppercase()})]
        {
            for data in [base64(bytes), STANDARD_NO_PAD.encode(bytes)] {
                let mut part = image(named.clone());
                part["data"] = data.into();
                let read = attachment(part);
                assert_eq!(read.media_type, media_type);
                assert_eq!(read.source, InputSource::Data(bytes.to_vec()));
            }
        }
        let other = if media_type == "image/png" { "image/gif" } else { "image/png" };
        assert_eq!(fault_of(image(json!({"media_type": other, "data": base64(bytes)}))), "/media_type");
        for end in 0..3 {
            let cut = image(json!({"media_type": media_type, "data": base64(&bytes[..end])}));
            assert_eq!(fault_of(cut), "/data", "{media_type}: {end} bytes");
        }
    }
}

#[test]
fn faults_are_at_their_place() {
    let png = base64(PNG);
    for (part, pointer) in [
        (json!(5), "/type"),
        (json!("text"), "/type"),
        (json!([]), "/type"),
        (json!({}), "/type"),
        (json!({"type": 5}), "/type"),
        (json!({"type": "sound", "data": png}), "/type"),
        (json!({"type": "image_url", "image_url": {"url": "https://h/"}}), "/type"),
        (json!({"type": "text"}), "/text"),
        (json!({"type": "text", "text": ""}), "/text"),
        (json!({"type": "text", "text": ["a"]}), "/text"),
        (json!({"type": "text", "text": "a", "data": "b"}), "/data"),
        (image(json!({})), ""),
        (image(json!({"data": png, "url": "https://h/"})), ""),
        (image(json!({"artifact_id": ART, "url": "https://h/"})), ""),
        (image(json!({"data": png, "artifact_id": ART})), ""),
        (image(json!({"data": ""})), "/data"),
        (image(json!({"data": [1, 2]})), "/data"),
        (image(json!({"data": null})), "/data"),
        (image(json!({"data": format!("data:image/png;base64,{png}")})), "/data"),
        (image(json!({"data": format!("{png}\n")})), "/data"),
        (image(json!({"data": "iVBORw0KGg-_"})), "/data"),
        (image(json!({"data": base64(b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>")})), "/data"),
        (image(json!({"data": png, "media_type": "image/svg+xml"})), "/media_type"),
        (image(json!({"data": png, "media_type": "image/jpg"})), "/media_type"),
        (image(json!({"data": png, "media_type": "png"})), "/media_type"),
        (image(json!({"url": "https://h/a.svg", "media_type": "image/svg+xml"})), "/media_type"),
        (image(json!({"data": png, "name": "a.png"})), "/name"),
        (image(json!({"data": png, "detail": "high"})), "/detail"),
        (image(json!({"artifact_id": "art_7"})), "/artifact_id"),
        (image(json!({"artifact_id": ART.replace("art_", "run_")})), "/artifact_id"),
        (file(json!({"data": png})), "/media_type"),
        (file(json!({"url": "https://h/a.pdf"})), "/media_type"),
        (file(json!({"data": png, "media_type": "application"})), "/media_type"),
        (file(json!({"data": png, "media_type": "a/b; c=\"\u{e9}\""})), "/media_type"),
        (file(json!({"data": png, "media_type": "a/b\r\nx: y"})), "/media_type"),
        (file(json!({"data": png, "media_type": format!("a/{}", "b".repeat(126))})), "/media_type"),
        (file(json!({"data": png, "media_type": "a/b", "name": ""})), "/name"),
        (file(json!({"data": png, "media_type": "a/b", "name": "a\nb"})), "/name"),
        (file(json!({"data": png, "media_type": "a/b", "name": "n".repeat(256)})), "/name"),
    ] {
        assert_eq!(fault_of(part.clone()), pointer, "{part}");
    }
}

#[test]
fn addresses() {
    for url in [
        "https://h/a.png",
        "http://h:8080/a?b=c#d",
        "https://[2001:db8::1]/x",
        "https://ex\u{e4}mple.org/\u{fc}",
    ] {
        assert_eq!(attachment(image(json!({"url": url}))).source, InputSource::Url(url.into()));
    }
    let long = format!("https://h/{}", "a".repeat(8192));
    for url in [
        "",
        "h/a.png",
        "/a.png",
        "//h/a.png",
        "https://",
        "ftp://h/a",
        "file:///etc/passwd",
        "data:image/png;base64,AAAA",
        "javascript:alert(1)",
        "https://ann@h/",
        "https://ann:secret@h/",
        "https://:secret@h/",
        " https://h/",
        "https://h/ ",
        "ht\ntps://h/",
        "https://h/\t",
        "https://h\\@g/",
        "https://h/\u{fffd}",
        "https://h/\u{0}",
        long.as_str(),
    ] {
        assert_eq!(fault_of(image(json!({"url": url}))), "/url", "{url:?}");
    }
}

#[test]
fn messages_have_limits() {
    let at = |input: Value| read_input(&input).expect_err("a fault").pointer;
    let text = json!({"type": "text", "text": "a"});
    let user = |content: Value| json!([{"role": "user", "content": content}]);
    assert_eq!(at(json!([])), "");
    assert_eq!(at(json!({})), "");
    assert_eq!(at(json!("")), "");
    assert_eq!(at(vec![json!({"role": "user", "content": "a"}); MAX_MESSAGES + 1].into()), "");
    assert_eq!(at(json!(["go"])), "/0");
    assert_eq!(at(json!([{"role": "user"}])), "/0/content");
    assert_eq!(at(json!([{"content": "a"}])), "/0/role");
    assert_eq!(at(json!([{"role": "system", "content": "a"}])), "/0/role");
    assert_eq!(at(json!([{"role": "user", "content": "a", "name": "b"}])), "/0/name");
    assert_eq!(at(json!([{"role": "user", "content": "a", "pinned": 1}])), "/0/pinned");
    assert_eq!(at(json!([{"role": "assistant", "content": "a", "pinned": true}])), "/0/pinned");
    assert_eq!(at(json!([{"role": "assistant", "content": [text]}])), "/0/content");
    assert_eq!(at(user(json!(""))), "/0/content");
    assert_eq!(at(user(json!([]))), "/0/content");
    assert_eq!(at(user(json!(null))), "/0/content");
    assert_eq!(at(user(vec![text.clone(); MAX_PARTS + 1].into())), "/0/content");
    assert!(read_input(&user(vec![text; MAX_PARTS].into())).is_ok());
    assert!(read_input(&json!([{"role": "assistant", "content": "a", "pinned": false}])).is_ok());
    let half = json!({"type": "text", "text": "\u{e9}".repeat(MAX_TEXT / 2)});
    assert!(read_content(&json!("\u{e9}".repeat(MAX_TEXT))).is_ok());
    assert_eq!(read_content(&json!("a".repeat(MAX_TEXT + 1))).expect_err("long").pointer, "");
    // With the line break between them it is one too many.
    assert_eq!(read_content(&json!([half, half])).expect_err("long").pointer, "");
}

#[test]
fn a_request_brings_so_much_and_no_more() {
    let picture = image(json!({"url": "https://h/"}));
    let full = json!({"role": "user", "content": vec![picture.clone(); MAX_PARTS]});
    let mut messages = vec![full; MAX_ATTACHMENTS / MAX_PARTS];
    let left = MAX_ATTACHMENTS % MAX_PARTS;
    messages.push(json!({"role": "user", "content": vec![picture.clone(); left]}));
    assert!(read_input(&messages.clone().into()).is_ok());
    messages.push(json!({"role": "user", "content": [picture]}));
    assert_eq!(read_input(&messages.into()).expect_err("too many").pointer, "/4/content/0");

    let of = |bytes: usize| file(json!({"media_type": "a/b", "data": base64(&vec![7; bytes])}));
    assert!(read_content(&json!([of(MAX_ATTACHMENT_BYTES)])).is_ok());
    for over in [1, 2, 3, 1000] {
        assert_eq!(fault_of(of(MAX_ATTACHMENT_BYTES + over)), "/data");
    }
    let rest = MAX_BROUGHT_BYTES - MAX_ATTACHMENT_BYTES;
    assert!(read_content(&json!([of(MAX_ATTACHMENT_BYTES), of(rest)])).is_ok());
    let fault = read_content(&json!([of(MAX_ATTACHMENT_BYTES), of(rest), of(1)])).expect_err("too much");
    assert_eq!(fault.pointer, "/2/data");
}

fn kept(media_type: &str, head: &[u8]) -> Kept {
    Kept { media_type: media_type.into(), bytes: 9, head: head.to_vec() }
}

#[test]
fn what_is_referred_to_must_be_there_and_fit() {
    let read = |part: Value| read_content(&json!([part])).expect("a content").parts.remove(0);
    let stored = |part: Value, kept: Option<&Kept>| {
        read(part).stored(kept, |_, _| unreachable!("nothing is brought")).map_err(|fault| fault.pointer)
    };
    let picture = |named: Value| image(piece_of(named));
    let id: ArtifactId = ART.parse().expect("an id");
    let artifact = |media_type: &str| Attachment {
        media_type: media_type.into(),
        name: None,
        source: AttachmentSource::Artifact { id, bytes: 9 },
    };
    // A tool called it something else; the bytes are a picture's.
    let png = kept("application/octet-stream", PNG);
    assert_eq!(stored(picture(json!({})), Some(&png)), Ok(Part::Image(artifact("image/png"))));
    assert_eq!(stored(picture(json!({"media_type": "image/gif"})), Some(&png)), Err("/media_type".into()));
    assert_eq!(stored(picture(json!({})), None), Err("/artifact_id".into()));
    assert_eq!(stored(picture(json!({})), Some(&kept("image/png", b"text"))), Err("/artifact_id".into()));
    let text = kept("text/plain", b"words");
    assert_eq!(stored(file(piece_of(json!({}))), Some(&text)), Ok(Part::File(artifact("text/plain"))));
    let named = file(piece_of(json!({"media_type": "text/csv"})));
    assert_eq!(stored(named, Some(&text)), Ok(Part::File(artifact("text/csv"))));
    let large = Kept { bytes: MAX_ATTACHMENT_BYTES as u64 + 1, ..text };
    assert_eq!(stored(file(piece_of(json!({}))), Some(&large)), Err("/artifact_id".into()));
}

fn piece_of(mut more: Value) -> Value {
    more["artifact_id"] = ART.into();
    more
}

/// Values of the shapes that a content has, and of shapes that it almost has.
fn hostile() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("text"),
        Just("image"),
        Just("file"),
        Just("user"),
        Just("assistant"),
        Just("iVBORw0KGgo="),
        Just("https://h/a.png"),
        Just("image/png"),
        Just(ART),
        Just(""),
        Just("\u{0}\u{fdd0}"),
        Just("=")
    ];
    let leaf = prop_oneof![
        word.prop_map(|word| json!(word)),
        any::<String>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(Value::Null),
    ];
    let name = prop_oneof![
        Just("type"),
        Just("text"),
        Just("data"),
        Just("url"),
        Just("artifact_id"),
        Just("media_type"),
        Just("name"),
        Just("role"),
        Just("content"),
        Just("pinned"),
        Just("a~/b")
    ];
    leaf.prop_recursive(4, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..6).prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

/// A fault's pointer leads to something, or to a field that something lacks.
fn leads_somewhere(value: &Value, pointer: &str) -> bool {
    let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
    value.pointer(pointer).is_some() || value.pointer(parent).is_some()
}

proptest! {
    #[test]
    fn nothing_that_is_sent_breaks_the_reader(value in hostile()) {
        for read in [read_input(&value).map(drop), read_content(&value).map(drop)] {
            if let Err(fault) = read {
                prop_assert!(leads_somewhere(&value, &fault.pointer), "{} in {value}", fault.pointer);
            }
        }
    }

    #[test]
    fn a_message_of_hostile_parts_is_refused_at_a_place_in_it(part in hostile(), role in prop_oneof![Just("user"), Just("assistant")]) {
        let value = json!([{"role": role, "content": [part]}]);
        if let Err(fault) = read_input(&value) {
            prop_assert!(fault.pointer.starts_with("/0"), "{}", fault.pointer);
            prop_assert!(leads_somewhere(&value, &fault.pointer), "{} in {value}", fault.pointer);
        }
    }

    #[test]
    fn bytes_come_through_whole(bytes in prop::collection::vec(any::<u8>(), 1..200), padded: bool) {
        let data = if padded { base64(&bytes) } else { STANDARD_NO_PAD.encode(&bytes) };
        let read = attachment(file(json!({"media_type": "a/b", "data": data})));
        prop_assert_eq!(read.source, InputSource::Data(bytes));
    }

    #[test]
    fn bytes_that_are_no_base64_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let data = String::from_utf8_lossy(&bytes).into_owned();
        let content = json!([file(json!({"media_type": "a/b", "data": data}))]);
        match read_content(&content) {
            Err(fault) => prop_assert_eq!(fault.pointer, "/0/data"),
            // What is taken has one meaning: written again it is the same.
            Ok(content) => {
                let Some(InputAttachment { source: InputSource::Data(read), .. }) = content.parts[0].attachment() else {
                    return Err(TestCaseError::fail("no data"));
                };
                prop_assert_eq!(STANDARD_NO_PAD.encode(read), data.trim_end_matches('='));
            }
        }
    }

    #[test]
    fn a_picture_of_random_bytes_is_never_mistaken(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let begins = |head: &[u8]| bytes.starts_with(head);
        let webp = begins(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
        let known = begins(&PNG[..8]) || begins(&JPEG[..3]) || begins(b"GIF87a") || begins(b"GIF89a") || webp;
        prop_assert_eq!(media::picture_of(&bytes).is_some(), known);
    }

    #[test]
    fn what_the_parser_of_bodies_gives_is_read(text in "\\PC{0,80}") {
        if let Ok(value) = json::parse(&text) {
            let _ = read_input(&json::clean(value));
        }
    }
}
