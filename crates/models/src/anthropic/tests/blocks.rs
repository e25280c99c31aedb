//! Blocks of a stream, with marks as servers really set them.

use serde_json::{Value, json};

use super::replies::{begin, delta, end, input, read, start, stream, text, tool};

/// The text of a reply, and its calls as `id name arguments`.
fn said(events: Vec<Value>) -> (String, Vec<String>) {
    let all = [vec![begin()], events, end("end_turn")].concat();
    let reply = read(&[stream(&all).as_bytes()]).expect("a reply");
    let calls = reply.calls.iter();
    let calls =
        calls.map(|call| format!("{} {} {}", call.id.as_deref().unwrap_or("-"), call.name, call.arguments));
    (reply.text, calls.collect())
}

#[test]
fn blocks_of_a_stream() {
    let blank = || json!({"type": "text", "text": ""});
    let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
    let table: [(&str, Vec<Value>, &str, &[&str]); 15] = [
        (
            "as it should be",
            vec![
                start(0, blank()),
                text(0, "All "),
                json!({"type": "ping"}),
                text(0, "of it."),
                stop(0),
                start(1, tool("a", "pay", json!({}))),
                input(1, "{\"n\""),
                input(1, ": 1}"),
                stop(1),
            ],
            "All of it.",
            &["a pay {\"n\":1}"],
        ),
        (
            "blocks without an end, in turns",
            vec![
                start(0, tool("a", "pay", json!({}))),
                start(1, tool("b", "look", json!({}))),
                input(0, "{\"n\": "),
                input(1, "{"),
                input(0, "1}"),
                input(1, "}"),
            ],
            "",
            &["a pay {\"n\":1}", "b look {}"],
        ),
        (
            "an input that is whole at once",
            vec![start(0, tool("a", "pay", json!({"n": 1}))), stop(0)],
            "",
            &["a pay {\"n\":1}"],
        ),
        (
            "an input that comes twice",
            vec![start(0, tool("a", "pay", json!({"n": 1}))), input(0, ""), input(0, "{\"n\": 1}")],
            "",
            &["a pay {\"n\":1}"],
        ),
        ("no input", vec![start(0, tool("a", "pay", json!({}))), input(0, ""), stop(0)], "", &["a pay {}"]),
        ("an input that is no object", vec![start(0, tool("a", "pay", json!([1])))], "", &["a pay [1]"]),
        (
            "an input as text",
            vec![start(0, tool("a", "pay", json!("{\"n\": 1}"))), start(1, tool("b", "pay", json!("")))],
            "",
            &["a pay {\"n\":1}", "b pay "],
        ),
        (
            "an input that breaks off",
            vec![start(0, tool("a", "pay", json!({}))), input(0, "{\"n\": ")],
            "",
            &["a pay {\"n\": "],
        ),
        (
            "every block under index 0",
            vec![
                start(0, blank()),
                text(0, "Hm."),
                start(0, tool("a", "pay", json!({}))),
                input(0, "{}"),
                start(0, tool("b", "pay", json!({}))),
                input(0, "{\"n\": 2}"),
            ],
            "Hm.",
            &["a pay {}", "b pay {\"n\":2}"],
        ),
        (
            "no index at all",
            vec![
                json!({"type": "content_block_start", "content_block": blank()}),
                json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hm."}}),
                json!({"type": "content_block_start", "content_block": tool("a", "pay", json!({}))}),
                json!({"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{\"n\":"}}),
                json!({"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "1}"}}),
            ],
            "Hm.",
            &["a pay {\"n\":1}"],
        ),
        (
            "beginnings that come twice",
            vec![
                start(0, blank()),
                start(0, blank()),
                text(0, "Hm."),
                start(1, tool("a", "pay", json!({}))),
                start(1, tool("a", "pay", json!({}))),
                input(1, "{\"n\": 1}"),
            ],
            "Hm.",
            &["a pay {\"n\":1}"],
        ),
        (
            "pieces of blocks that never began",
            vec![text(0, "H"), text(0, "m."), input(1, "{\"n\""), input(1, ": 1}")],
            "Hm.",
            &["-  {\"n\":1}"],
        ),
        (
            "pieces that don't fit their block",
            vec![start(0, tool("a", "pay", json!({}))), text(0, "Hm."), start(1, blank()), input(1, "{}")],
            "Hm.",
            &["a pay {}", "-  {}"],
        ),
        (
            "text that stands in a beginning, citations, and what isn't known",
            vec![
                start(0, json!({"type": "text", "text": "Hm"})),
                delta(0, json!({"type": "citations_delta", "citation": {"text": "no"}})),
                delta(0, json!({"type": "shine_delta", "text": "no"})),
                text(0, "."),
                json!({"type": "from_the_future", "index": 0, "thing": {"a": 1}}),
                delta(7, json!({"type": "shine_delta", "shine": 1})),
            ],
            "Hm.",
            &[],
        ),
        (
            "what is no block",
            vec![
                start(0, json!(null)),
                start(1, json!(7)),
                delta(0, json!(null)),
                start(2, json!({"type": "text"})),
            ],
            "",
            &[],
        ),
    ];
    for (what, events, wanted, calls) in table {
        assert_eq!(
            said(events),
            (wanted.to_owned(), calls.iter().map(|call| (*call).to_owned()).collect()),
            "{what}"
        );
    }
}
