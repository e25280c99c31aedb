//! How a reply ends, and what is none.

use super::*;

#[test]
fn what_is_whole_and_what_is_cut() {
    let said = [added(0, &text_item("")), text_delta(0, "Half an ans")];
    assert!(is_cut(&reply(&said)), "no end");
    assert!(is_cut(&reply(&[json!({"type": "response.created", "response": {"status": "in_progress"}})])));
    let ended = stream(&said) + "data: [DONE]\n\n";
    let came = read_in_every_way(&ended).expect("[DONE] without an end of its own");
    assert_eq!((came.text.as_str(), came.finish, came.finish_reason), ("Half an ans", Finish::Other, None));
    let garbage = stream(&said) + "data: {\"type\": \"resp\n\n" + &stream(&[completed(&[])]);
    assert!(is_cut(&read(&[garbage.as_bytes()]).0));
    for text in
        ["{\"id\": \"resp_1\"}", "{\"output\": [{\"type\": \"mess", "{\"status\": \"completed\"}", "[]", ""]
    {
        assert!(is_cut(&read(&[text.as_bytes()]).0), "{text}");
    }
    let answer = |status: &str| json!({"status": status, "output": [text_item("Hi.")]}).to_string();
    for status in ["in_progress", "queued", "cancelled", "odd"] {
        assert!(is_cut(&read(&[answer(status).as_bytes()]).0), "{status}");
    }
    assert!(read_in_every_way(&json!({"output": [text_item("Hi.")]}).to_string()).is_ok(), "no status");
    let empty =
        read_in_every_way(&json!({"status": "completed", "output": []}).to_string()).expect("a reply");
    assert_eq!((empty.text.as_str(), empty.calls.len(), empty.finish), ("", 0, Finish::Stop));
}

#[test]
fn how_it_ended() {
    let ended = |event: &str, more: Value| {
        let mut response = json!({"output": [text_item("Half")]});
        response.as_object_mut().expect("an object").extend(more.as_object().expect("fields").clone());
        reply(&[json!({"type": event, "response": response})])
    };
    let details = |reason: Value| json!({"status": "incomplete", "incomplete_details": reason});
    for (event, more, wanted) in [
        ("response.completed", json!({}), Some((Finish::Stop, "completed"))),
        ("response.done", json!({"status": "completed"}), Some((Finish::Stop, "completed"))),
        (
            "response.incomplete",
            details(json!({"reason": "max_output_tokens"})),
            Some((Finish::Length, "max_output_tokens")),
        ),
        ("response.incomplete", details(json!(null)), Some((Finish::Length, "max_output_tokens"))),
        ("response.incomplete", json!({"status": "completed"}), Some((Finish::Length, "max_output_tokens"))),
        ("response.completed", details(json!({"reason": "length"})), Some((Finish::Length, "length"))),
        (
            "response.incomplete",
            details(json!({"reason": "content_filter"})),
            Some((Finish::Refusal, "content_filter")),
        ),
        ("response.incomplete", details(json!({"reason": "lost"})), None),
        ("response.cancelled", json!({}), None),
        ("response.completed", json!({"status": "in_progress"}), None),
    ] {
        let came = ended(event, more.clone());
        match wanted {
            None => assert!(is_cut(&came), "{event} {more}: {came:?}"),
            Some((finish, reason)) => {
                let came = came.expect("a reply");
                assert_eq!(
                    (came.finish, came.finish_reason.as_deref()),
                    (finish, Some(reason)),
                    "{event} {more}"
                );
            }
        }
    }
    let refusal = json!({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]});
    let delta = json!({"type": "response.refusal.delta", "output_index": 0, "delta": "No."});
    for events in [
        vec![completed(std::slice::from_ref(&refusal))],
        vec![delta, completed(&[])],
        vec![done(0, &refusal), completed(&[])],
    ] {
        let came = reply(&events).expect("a reply");
        assert_eq!((came.finish, came.text.as_str()), (Finish::Refusal, ""));
    }
}

#[test]
fn errors_in_place_of_a_reply() {
    let error = json!({"code": "server_error", "message": "It broke."});
    let failed = json!({"type": "response.failed", "response": {"status": "failed", "error": error,
        "usage": {"input_tokens": 9, "output_tokens": 1}}});
    let flat =
        json!({"type": "error", "code": "rate_limit_exceeded", "message": "Slow down.", "param": null});
    let nested = json!({"type": "error", "error": error, "sequence_number": 3});
    for (event, message) in [(failed, "It broke."), (flat, "Slow down."), (nested, "It broke.")] {
        for text in [stream(std::slice::from_ref(&event)), format!("data: {event}\n\n")] {
            let text = stream(&[text_delta(0, "Half")]) + &text + "data: [DONE]\n\n";
            let Err(Broken::Error(object)) = read_in_every_way(&text) else { panic!("{text}") };
            let told = if object["error"].is_null() { &object } else { &object["error"] };
            assert_eq!(told["message"], message);
        }
    }
    for object in [
        json!({"error": error}),
        json!({"status": "failed", "output": [], "error": error}),
        json!({"status": "failed"}),
    ] {
        assert!(matches!(read(&[object.to_string().as_bytes()]).0, Err(Broken::Error(_))), "{object}");
    }
    let Err(Broken::Error(object)) =
        reply(&[json!({"type": "response.failed", "response": {"status": "failed"}})])
    else {
        panic!("no error")
    };
    assert!(object["message"].is_string());
}

#[test]
fn what_says_nothing() {
    let mut reader =
        Reader::new(Pieces::new(Words::new(Mask::default(), Box::leak(Box::new(Heard::default())))));
    let mut told = |event: Value| reader.feed(stream(&[event]).as_bytes());
    for quiet in ["response.created", "response.queued", "response.in_progress", "keepalive", "ping"] {
        assert_eq!(told(json!({"type": quiet, "response": {"output": []}})), Ok(Told::Nothing), "{quiet}");
    }
    let summary = json!({"type": "response.reasoning_summary_text.delta", "delta": "Let me think of it"});
    for piece in [added(0, &sealed("rs_1")), summary, json!({"type": "response.web_search_call.searching"})] {
        assert_eq!(told(piece.clone()), Ok(Told::Piece), "{piece}");
    }
    assert_eq!(told(completed(&[])), Ok(Told::End));
    assert_eq!(reader.tokens().1, 5, "reasoning is output, too");
}

#[test]
fn odd_text_is_mended_and_secrets_are_masked() {
    let text = "data: {\"type\": \"response.output_text.delta\", \"delta\": \"half \\ud83d of\\u0000 sk-sec\"}\n\n\
                data: {\"type\": \"response.output_text.delta\", \"delta\": \"ret-1\"}\n\n\
                data: {\"type\": \"response.completed\", \"response\": {\"output\": [\
                {\"type\": \"reasoning\", \"encrypted_content\": \"sk-secret-1\"}, \
                {\"type\": \"message\", \"content\": \"half \\ud83d\\ude00 of\\u0000 sk-secret-1\"}, \
                {\"type\": \"reasoning\", \"encrypted_content\": \"\\udc00\"}, \
                {\"type\": \"function_call\", \"call_id\": \"sk-secret-1\", \"name\": \"look\", \"arguments\": \"{\\\"key\\\": \\\"sk-secret-1\\\"}\"}]}}\n\n";
    let came = read_in_every_way(text).expect("a reply");
    assert_eq!(came.text, "half 😀 of\u{fffd} ***");
    assert_eq!(calls(&came), [("look", r#"{"key": "***"}"#)]);
    assert_eq!(came.calls[0].id.as_deref(), Some("***"));
    assert!(came.extra.is_empty(), "what can't go back just so is not kept");
}
