//! Items as servers tell them, and as they grow.

use super::*;
use serde_json::json;

#[test]
fn what_fits() {
    for (streamed, told, wanted) in [
        ("", "", true),
        ("", "all", true),
        ("Hello, wor", "Hello, world", true),
        ("\n\nHello ", "Hello", true),
        ("half \u{fdd0}\u{fdd0} more", "half 🦊 more", true),
        ("Hello", "", false),
        ("HelloHello", "Hello", false),
        ("Hexlo", "Hello", false),
    ] {
        assert_eq!(fits(streamed, told).is_ok(), wanted, "{streamed} {told}");
    }
    assert!(arguments_fit(r#"{"b": 1, "a": 2}"#, r#"{"a":2,"b":1}"#).is_ok());
    assert!(arguments_fit(r#"{"b": 12345678901234567890}"#, r#"{"b":12345678901234567891}"#).is_err());
}

#[test]
fn items_in_all_their_forms() {
    for (value, kind, text, arguments) in [
        (
            json!({"type": "message", "content": [{"type": "output_text", "text": "a"}, {"text": "b"}, "c"]}),
            Kind::Message,
            "abc",
            "",
        ),
        (json!({"role": "assistant", "content": "plain"}), Kind::Message, "plain", ""),
        (json!({"type": "message", "content": null}), Kind::Message, "", ""),
        (json!({"type": "function_call", "name": "pay", "arguments": "{}"}), Kind::Call, "", "{}"),
        (json!({"call_id": "a", "name": "pay", "arguments": {"n": 1}}), Kind::Call, "", r#"{"n":1}"#),
        (json!({"type": "custom_tool_call", "name": "pay", "input": "all"}), Kind::Call, "", "all"),
        (json!({"type": "reasoning", "summary": [], "content": [{"text": "hm"}]}), Kind::Other, "", ""),
        (json!({"type": "web_search_call"}), Kind::Other, "", ""),
        (json!({}), Kind::Other, "", ""),
    ] {
        let item = Item::whole(&value);
        assert_eq!(
            (item.kind, item.text().as_str(), item.call.arguments.as_str()),
            (kind, text, arguments),
            "{value}"
        );
    }
    let refused =
        Item::whole(&json!({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}));
    assert_eq!((refused.text().as_str(), refused.refusal.as_str()), ("", "No."));
}

#[test]
fn an_item_grows() {
    let mut item =
        Item::begun(&json!({"type": "function_call", "id": "fc", "name": "pay", "arguments": "{\"n\""}));
    item.add_arguments("{\"n\"");
    item.add_arguments(": 1}");
    assert_eq!(item.call.arguments, "{\"n\": 1}", "what it began with was told again");
    assert_eq!(item.settle_arguments("{\"n\": 2}"), Err(Misfit));
    assert_eq!(
        item.settle(Item::whole(&json!({"type": "function_call", "name": "pay", "arguments": ""}))),
        Ok(String::new())
    );
    assert_eq!((item.call.arguments.as_str(), item.id.as_deref()), ("{\"n\": 1}", Some("fc")));
    let mut text = Item::empty(Kind::Message);
    text.add_text(1, "b");
    text.add_text(0, "a");
    assert_eq!(text.settle_text(1, "bc"), Ok("c".to_owned()));
    assert_eq!((text.text().as_str(), text.tokens()), ("abc", 2));
    assert_eq!(text.settle(Item::whole(&json!({"type": "message", "content": "ab"}))), Err(Misfit));
}
