//! What servers say twice, and not always the same.

use super::*;

#[test]
fn a_call_in_both_forms_is_one() {
    let function = json!({"name": "pay", "arguments": "{}"});
    let new = json!([{"index": 0, "id": "a", "type": "function", "function": function}]);
    for message in [
        json!({"function_call": function, "tool_calls": new}),
        json!({"function_call": function, "tool_calls": []}),
    ] {
        let whole = json!({"choices": [{"message": message, "finish_reason": "stop"}]}).to_string();
        for text in [whole, stream(&[delta(message), end("stop")])] {
            assert_eq!(calls(&read(&[text.as_bytes()]).expect("a reply")), [("pay", "{}")], "{text}");
        }
    }
    let apart = [delta(json!({"function_call": function})), delta(json!({"tool_calls": new})), end("stop")];
    assert_eq!(calls(&read(&[stream(&apart).as_bytes()]).expect("a reply")), [("pay", "{}")]);
}

#[test]
fn counts_of_zero_take_nothing_away() {
    let usage = |input: u64, output: u64| json!({"choices": [], "usage": {"prompt_tokens": input, "completion_tokens": output}});
    let text = stream(&[delta(json!({"content": "x"})), usage(12, 7), end("stop"), usage(0, 0)]);
    let usage = read(&[text.as_bytes()]).expect("a reply").usage.expect("usage");
    assert_eq!((usage.input_tokens, usage.output_tokens), (12, 7));
}
