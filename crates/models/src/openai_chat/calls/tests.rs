//! Pieces in every order that servers send them in.

use super::*;
use serde_json::json;

/// The calls of these entries as `id name arguments`.
fn together(entries: &[Value]) -> Vec<String> {
    let mut calls = Calls::default();
    entries.iter().for_each(|entry| calls.take_piece(entry));
    let show =
        |call: ReplyCall| format!("{} {} {}", call.id.as_deref().unwrap_or("-"), call.name, call.arguments);
    calls.finish(&Mask::default()).0.into_iter().map(show).collect()
}

fn entry(index: Value, id: Value, name: Value, arguments: Value) -> Value {
    json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}})
}

#[test]
fn pieces_find_their_calls() {
    let none = Value::Null;
    let piece = |index: i64, text: &str| json!({"index": index, "function": {"arguments": text}});
    let whole = |text: &str| Value::from(text);
    let table: [(&str, Vec<Value>, &[&str]); 12] = [
        (
            "as it should be",
            vec![
                entry(json!(0), json!("a"), json!("pay"), json!("")),
                piece(0, "{\"n\""),
                piece(0, ": 1}"),
                entry(json!(1), json!("b"), json!("look"), json!("")),
                piece(1, "{}"),
            ],
            &["a pay {\"n\": 1}", "b look {}"],
        ),
        (
            "in turns",
            vec![
                entry(json!(0), json!("a"), json!("pay"), json!("{")),
                entry(json!(1), json!("b"), json!("look"), json!("{")),
                piece(0, "}"),
                piece(1, "}"),
            ],
            &["a pay {}", "b look {}"],
        ),
        (
            "a new id under the same index",
            vec![
                entry(json!(0), json!("a"), json!("pay"), json!("{\"to\": ")),
                piece(0, "\"ann\"}"),
                entry(json!(0), json!("b"), json!("pay"), json!("{\"to\": ")),
                piece(0, "\"bob\"}"),
            ],
            &["a pay {\"to\": \"ann\"}", "b pay {\"to\": \"bob\"}"],
        ),
        (
            "an index that was never opened",
            vec![
                entry(json!(0), json!("a"), json!("pay"), json!("{\"to\": \"ann\"}")),
                entry(json!(0), json!("b"), json!("pay"), json!("{\"to\": ")),
                piece(1, "\"bob\"}"),
            ],
            &["a pay {\"to\": \"ann\"}", "b pay {\"to\": \"bob\"}"],
        ),
        (
            "nulls",
            vec![
                entry(json!(0), json!("a"), json!("pay"), none.clone()),
                entry(json!(0), none.clone(), none.clone(), json!("{")),
                entry(json!(0), json!(""), json!(""), json!("}")),
            ],
            &["a pay {}"],
        ),
        (
            "whole calls with neither index nor id",
            vec![
                entry(none.clone(), none.clone(), json!("pay"), json!({"n": 1})),
                entry(none.clone(), none.clone(), json!("pay"), json!("{}")),
            ],
            &["- pay {\"n\":1}", "- pay {}"],
        ),
        (
            "one id for two whole calls without index",
            vec![
                entry(none.clone(), json!("d"), json!("pay"), json!("{}")),
                entry(none.clone(), json!("d"), json!("pay"), json!("{}")),
            ],
            &["d pay {}", "d pay {}"],
        ),
        (
            "one id for two calls",
            vec![
                entry(json!(0), json!("d"), json!("find"), json!("{}")),
                entry(json!(1), json!("d"), json!("pay"), json!("{}")),
            ],
            &["d find {}", "d pay {}"],
        ),
        (
            "id and name in every piece",
            vec![
                entry(json!(0), json!("a"), json!("pay"), json!("{\"n\"")),
                entry(json!(0), json!("a"), json!("pay"), json!(": 1}")),
                entry(json!(0), json!("a"), json!("pay"), json!("")),
            ],
            &["a pay {\"n\": 1}"],
        ),
        (
            "every call under index 0 and no ids",
            vec![
                entry(json!(0), none.clone(), json!("pay"), json!("{}")),
                entry(json!(0), none.clone(), json!("pay"), json!("{\"n\": 2}")),
            ],
            &["- pay {}", "- pay {\"n\": 2}"],
        ),
        (
            "pieces without index",
            vec![
                entry(none.clone(), json!("a"), json!("pay"), json!("{\"n\"")),
                entry(none.clone(), none.clone(), none.clone(), json!(": 1}")),
                entry(none.clone(), none.clone(), none.clone(), json!("{}")),
            ],
            &["a pay {\"n\": 1}", "-  {}"],
        ),
        (
            "a name in pieces, and entries that say nothing",
            vec![
                entry(json!(0), json!("a"), json!("pay"), none.clone()),
                entry(json!(0), none.clone(), json!("_now"), whole("{}")),
                json!({"index": 0}),
                json!(7),
            ],
            &["a pay_now {}"],
        ),
    ];
    for (what, entries, wanted) in table {
        assert_eq!(together(&entries), wanted, "{what}");
    }
}

#[test]
fn what_vendors_add_stays_with_its_call() {
    let mut calls = Calls::default();
    for piece in [
        json!({"index": 0, "id": "a", "type": "function", "function": {"name": "pay", "arguments": "{}"},
            "extra_content": {"google": {"thought_signature": "c2ln"}}}),
        json!({"index": 1, "id": "b", "function": {"name": "pay", "arguments": "{"}}),
        json!({"index": 1, "function": {"arguments": "}", "provider_specific_fields": {"thought_signature": "x"}}}),
        json!({"index": 0, "extra_content": {"google": {"thought_signature": "c2ln"}}, "leak": "sk-secret-1"}),
    ] {
        calls.take_piece(&piece);
    }
    let (list, fields) = calls.finish(&Mask::new(["sk-secret-1"]));
    assert_eq!(list.len(), 2);
    let wanted = json!([{"extra_content": {"google": {"thought_signature": "c2ln"}}},
        {"function": {"provider_specific_fields": {"thought_signature": "x"}}}]);
    assert_eq!(fields, Some(wanted));
    let mut plain = Calls::default();
    plain.take_whole(&entry(json!(0), json!("a"), json!("pay"), json!("{}")));
    assert_eq!(plain.finish(&Mask::default()).1, None);
}

#[test]
fn a_long_call_is_judged_once() {
    // Each of these pieces could end the call; judged anew for each, this would take minutes.
    let long = format!("{{\"a\": \"{}", "a".repeat(1 << 20));
    for (id, end) in [(Value::Null, "}"), (Value::Null, " "), (json!("a"), "}")] {
        for begun in [long.clone(), format!("{long}\"}}")] {
            let mut entries = vec![entry(Value::Null, json!("a"), json!("pay"), json!(begun))];
            entries.resize(900, entry(Value::Null, id.clone(), Value::Null, json!(end)));
            let calls = together(&entries);
            let all: usize = calls.iter().map(String::len).sum();
            assert!(all >= begun.len() + 899, "nothing is lost");
        }
    }
    let mut many = Calls::default();
    (0..5000).for_each(|_| many.take_whole(&json!({})));
    assert!(many.is_too_many() && many.finish(&Mask::default()).0.len() == MOST_CALLS + 1);
}
