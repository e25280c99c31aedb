//! Items find their pieces, and what is told at the end must fit what was streamed.

use super::*;

#[test]
fn the_end_tells_all_or_nothing_more() {
    let text = text_item("All of it.");
    let begin = [added(0, &text_item("")), text_delta(0, "All of "), text_delta(0, "it.")];
    let wanted = reply(&[completed(std::slice::from_ref(&text))]).expect("a reply");
    assert_eq!((wanted.text.as_str(), wanted.finish), ("All of it.", Finish::Stop));
    assert_eq!(wanted.usage.map(|usage| (usage.input_tokens, usage.output_tokens)), Some((12, 7)));
    for rest in [vec![], vec![done(0, &text)], vec![done(0, &text_item(""))]] {
        for output in [vec![], vec![text.clone()]] {
            let events = [&begin[..], &rest, &[completed(&output)]].concat();
            let (came, heard) = read(&[stream(&events).as_bytes()]);
            assert_eq!(came, Ok(wanted.clone()), "{rest:?} {output:?}");
            assert_eq!(heard, "All of it.");
        }
    }
    let no_output = json!({"type": "response.completed", "response": {"usage": {"input_tokens": 12, "output_tokens": 7}}});
    assert_eq!(reply(&[&begin[..], &[no_output]].concat()), Ok(wanted.clone()));
    let unheard = [added(0, &text_item("")), text_delta(0, "All"), completed(&[text])];
    let (came, heard) = read(&[stream(&unheard).as_bytes()]);
    assert_eq!((came, heard.as_str()), (Ok(wanted), "All of it."), "the rest is passed on");
}

#[test]
fn an_end_that_does_not_fit_is_a_cut() {
    let pay = call_item("a", "pay", "{\"n\": 1}");
    let begin = [added(0, &call_item("a", "pay", "")), arguments_delta(0, "a", "{\"n\": 1}")];
    for (output, fits) in [
        (vec![pay.clone()], true),
        (vec![call_item("b", "pay", "{\"n\":1}"), call_item("c", "pay", "{\"n\": 1}")], true),
        (vec![call_item("a", "pay", "{\"n\": 2}")], false),
        (vec![call_item("a", "lay", "{\"n\": 1}")], false),
        (vec![text_item("I paid.")], false),
    ] {
        let came = reply(&[&begin[..], &[completed(&output)]].concat());
        assert_eq!(is_cut(&came), !fits, "{output:?} {came:?}");
    }
    let lost = [text_delta(0, "Hel"), text_delta(0, "o"), completed(&[text_item("Hello")])];
    assert!(is_cut(&reply(&lost)));
    let twice: Vec<Value> =
        [text_delta(0, "Hello"), text_delta(0, "Hello"), done(0, &text_item("Hello"))].to_vec();
    assert!(is_cut(&reply(&[&twice[..], &[completed(&[])]].concat())));
    let spaced = [text_delta(0, "\n\nHello "), completed(&[text_item("Hello")])];
    assert_eq!(reply(&spaced).expect("a reply").text, "Hello", "white space is not what they differ in");
}

#[test]
fn items_find_their_pieces() {
    let bare = |kind: &str, delta: &str| json!({"type": format!("response.{kind}.delta"), "delta": delta});
    let nameless = |item: Value| {
        let mut item = item;
        item.as_object_mut().expect("an item").remove("id");
        item
    };
    let pay = |n: u32| nameless(call_item("x", "pay", &format!("{{\"n\": {n}}}")));
    let open =
        |event: &str, item: Value| json!({"type": format!("response.output_item.{event}"), "item": item});
    let both: &[(&str, &str)] = &[("pay", "{\"n\": 1}"), ("pay", "{\"n\": 2}")];
    let twice: &[(&str, &str)] = &[("pay", "{\"n\": 1}"), ("pay", "{\"n\": 1}")];
    for (about, events, wanted) in [
        (
            "in turns",
            vec![
                added(0, &call_item("a", "pay", "")),
                added(1, &call_item("b", "pay", "")),
                arguments_delta(1, "b", "{\"n\": "),
                arguments_delta(0, "a", "{\"n\": "),
                arguments_delta(1, "b", "2}"),
                arguments_delta(0, "a", "1}"),
            ],
            both,
        ),
        (
            "all at place 0",
            vec![
                added(0, &call_item("a", "pay", "")),
                arguments_delta(0, "a", "{\"n\": 1}"),
                done(0, &call_item("a", "pay", "{\"n\": 1}")),
                added(0, &call_item("b", "pay", "")),
                arguments_delta(0, "b", "{\"n\": 2}"),
                done(0, &call_item("b", "pay", "{\"n\": 2}")),
            ],
            both,
        ),
        (
            "ids that change",
            vec![
                added(0, &call_item("a", "pay", "")),
                arguments_delta(0, "q", "{\"n\": 1}"),
                done(0, &call_item("z", "pay", "{\"n\": 1}")),
                done(1, &call_item("y", "pay", "{\"n\": 2}")),
            ],
            both,
        ),
        (
            "neither ids nor places",
            vec![
                open("added", pay(1)),
                bare("function_call_arguments", "{\"n\": 1}"),
                open("done", pay(1)),
                open("added", pay(2)),
                bare("function_call_arguments", "{\"n\""),
                bare("function_call_arguments", ": 2}"),
            ],
            both,
        ),
        ("two that are the same", vec![open("done", pay(1)), open("done", pay(1))], twice),
        (
            "pieces before what they belong to",
            vec![
                arguments_delta(0, "a", "{\"n\": 1}"),
                added(0, &call_item("a", "pay", "")),
                done(0, &call_item("a", "pay", "{\"n\": 1}")),
                json!({"type": "response.function_call_arguments.done", "item_id": "a", "arguments": "{\"n\": 1}"}),
                done(0, &call_item("a", "pay", "{\"n\": 1}")),
                done(1, &call_item("b", "pay", "{\"n\": 2}")),
            ],
            both,
        ),
        ("told at the end alone", vec![], both),
    ] {
        let told = [call_item("k", "pay", both[0].1), call_item("l", "pay", both[1].1)];
        if wanted == both {
            let came = reply(&[&events[..], &[completed(&told)]].concat()).expect("a reply");
            assert_eq!(calls(&came), wanted, "{about}, told again");
        }
        if !events.is_empty() {
            let came = reply(&[&events[..], &[completed(&[])]].concat()).expect("a reply");
            assert_eq!(calls(&came), wanted, "{about}");
        }
    }
}

#[test]
fn seals_are_kept_from_wherever_they_are_told() {
    let unsealed = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let output = |item: &Value| [item.clone(), text_item("Hi.")];
    let wanted = json!({"blocks": [{"item": sealed("rs_1")}, {"text": 3}]});
    let begin = added(0, &json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "gA"}));
    for (events, is_kept) in [
        (vec![begin.clone(), done(0, &sealed("rs_1")), completed(&output(&unsealed))], true),
        (vec![begin.clone(), done(0, &unsealed), completed(&output(&sealed("rs_1")))], true),
        (vec![begin.clone(), done(0, &sealed("rs_1")), done(1, &text_item("Hi.")), completed(&[])], true),
        (vec![begin.clone(), completed(&output(&unsealed))], false),
        (vec![begin, done(1, &text_item("Hi.")), completed(&[])], false),
    ] {
        let extra = Value::Object(reply(&events).expect("a reply").extra);
        assert_eq!(extra, if is_kept { wanted.clone() } else { json!({}) }, "{events:?}");
    }
}

#[test]
fn a_reply_has_a_limit() {
    let many: Vec<Value> = (0..1001).map(|n| done(n, &call_item(&n.to_string(), "pay", "{}"))).collect();
    assert!(is_cut(&reply(&[&many[..], &[completed(&[])]].concat())));
    let told: Vec<Value> = (0..1001).map(|n| call_item(&n.to_string(), "pay", "{}")).collect();
    assert!(is_cut(&reply(&[completed(&told)])));
}

#[test]
fn many_small_words_told_whole_take_no_more_time_than_their_bytes() {
    let word = |place: u64| json!({"type": "response.output_text.done", "output_index": 0, "content_index": place, "text": "word "});
    let begin = text_delta(0, &"x".repeat(1 << 20));
    let mut events = vec![begin];
    events.extend((1..20_000).map(word));
    events.push(completed(&[]));
    assert_eq!(reply(&events).expect("a reply").text.len(), (1 << 20) + 19_999 * 5);
}
