//! What people, models and tools said, where operator and agent both want it in spans; an agent names what is left out.

use serde_json::{Value, json};

use super::build::Build;
use super::frame::{Frame, Told};
use crate::run::{Call, NewCall, Record, ReplyFacts, Status};
use crate::text;
use crate::tool::{ResultStatus, ToolResult};

/// Code points of one attribute.
const MAX_CHARS: usize = 16_000;
/// What stands for what is left out.
const REDACTED: &str = "[redacted]";

/// A model's reply (`gen_ai.output.messages`).
pub(super) fn reply(frame: &Frame, told: &Told<'_>, reply: &ReplyFacts, calls: &[NewCall]) -> Option<String> {
    let redact = wanted(frame, told)?;
    // The parts share the room: a message that is cut as a whole is no JSON, and viewers show nothing of it.
    let room = MAX_CHARS / (1 + calls.len());
    let text = (!reply.text.is_empty())
        .then(|| json!({"type": "text", "content": words(&reply.text, redact, room)}));
    let call = |call: &NewCall| {
        json!({"type": "tool_call", "id": call.id, "name": call.tool_name,
            "arguments": arguments(&call.input, redact, room)})
    };
    let parts: Vec<Value> = text.into_iter().chain(calls.iter().map(call)).collect();
    Some(message(&parts, reply.finish_reason.as_deref()))
}

/// The run's answer, as a message and as its text, in which viewers of agents show what a trace came to.
pub(super) fn answer(frame: &Frame, told: &Told<'_>) -> Option<(String, String)> {
    let redact = wanted(frame, told)?;
    let answer = told.records.iter().find_map(|record| match record {
        Record::Ended { final_answer, .. } if told.after.status == Status::Finished => {
            final_answer.as_deref()
        }
        _ => None,
    });
    let text = words(answer?, redact, MAX_CHARS);
    Some((message(&[json!({"type": "text", "content": text})], Some("stop")), text))
}

/// A call's input and result.
pub(super) fn call(span: Build, frame: &Frame, told: &Told<'_>, call: &Call) -> Build {
    let Some(redact) = wanted(frame, told) else { return span };
    let input = told.inputs.get(&call.id).map(|input| short(&redacted(input, redact).to_string(), MAX_CHARS));
    let result = told.records.iter().find_map(|record| match record {
        Record::CallResult { call: id, result, .. } if *id == call.id => Some(outcome(result, redact)),
        _ => None,
    });
    span.maybe("gen_ai.tool.call.arguments", input).maybe("gen_ai.tool.call.result", result)
}

/// What the agent wants to be left out; `None`: all of it.
fn wanted<'a>(frame: &Frame, told: &Told<'a>) -> Option<&'a [String]> {
    let trace = &told.registry.spec.trace;
    (frame.content && trace.content).then_some(&trace.redact)
}

fn message(parts: &[Value], finish_reason: Option<&str>) -> String {
    json!([{"role": "assistant", "parts": parts, "finish_reason": finish_reason}]).to_string()
}

/// What came of a call. What was wrong with an input is told with parts of it, which no pointer finds.
fn outcome(result: &ToolResult, redact: &[String]) -> String {
    if result.status == ResultStatus::Rejected && !redact.is_empty() {
        return REDACTED.to_owned();
    }
    words(&result.content, redact, MAX_CHARS)
}

/// Text; where it is JSON, parts of it can be left out. Of what begins like JSON and can't be read, since it was cut, nobody
/// knows where those parts are.
fn words(text: &str, redact: &[String], room: usize) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => {
            short(&redacted(&value, redact).to_string(), room)
        }
        Err(_) if !redact.is_empty() && begins_like_json(text) => REDACTED.to_owned(),
        _ => short(text, room),
    }
}

fn begins_like_json(text: &str) -> bool {
    text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}').starts_with(['{', '['])
}

/// A call's input; as text where it is too long.
fn arguments(input: &Value, redact: &[String], room: usize) -> Value {
    let input = redacted(input, redact);
    let text = input.to_string();
    if text::chars(&text) > room { short(&text, room).into() } else { input }
}

fn short(text: &str, room: usize) -> String {
    text::head(text, room).to_owned()
}

/// `value` without what the JSON pointers name; `*` stands for every member or element.
fn redacted(value: &Value, pointers: &[String]) -> Value {
    let mut value = value.clone();
    for pointer in pointers {
        let parts: Vec<String> =
            pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
        redact(&mut value, &parts);
    }
    value
}

fn redact(value: &mut Value, parts: &[String]) {
    let Some((part, rest)) = parts.split_first() else {
        *value = REDACTED.into();
        return;
    };
    match value {
        Value::Object(members) if part == "*" => members.values_mut().for_each(|member| redact(member, rest)),
        Value::Object(members) => members.get_mut(part).into_iter().for_each(|member| redact(member, rest)),
        Value::Array(items) if part == "*" => items.iter_mut().for_each(|item| redact(item, rest)),
        Value::Array(items) => {
            let item = part.parse::<usize>().ok().and_then(|index| items.get_mut(index));
            item.into_iter().for_each(|item| redact(item, rest));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointers() -> Vec<String> {
        ["/card/number", "/cards/*/number"].map(str::to_owned).to_vec()
    }

    #[test]
    fn parts_of_json_are_left_out_and_nothing_of_it_is_shown_where_they_cant_be_found() {
        let whole = r#"{"cards":[{"number":"4111"},{"number":"4222","name":"Ann"}],"card":"none"}"#;
        let shown =
            r#"{"cards":[{"number":"[redacted]"},{"number":"[redacted]","name":"Ann"}],"card":"none"}"#;
        let same = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        assert_eq!(same(&words(whole, &pointers(), 1000)), same(shown));
        for cut in [&whole[..40], " \n[{\"number\":\"4111\"}", "\u{feff}{\"card\":{\"number\":\"4111\"}}"] {
            assert_eq!(words(cut, &pointers(), 1000), REDACTED, "{cut}");
            assert_eq!(words(cut, &[], 1000), cut, "nothing is to be left out");
        }
        assert_eq!(words("It is red.", &pointers(), 5), "It is");
    }

    #[test]
    fn what_was_wrong_with_an_input_is_shown_where_nothing_of_it_is_to_be_left_out() {
        let result = ToolResult::without_run(ResultStatus::Rejected, None, "\"4111\" is too long");
        assert_eq!(outcome(&result, &pointers()), REDACTED);
        assert_eq!(outcome(&result, &[]), result.content);
    }

    #[test]
    fn long_inputs_become_text_and_the_message_stays_json() {
        let input = json!({"card": {"number": "4111"}, "text": "\"".repeat(100)});
        assert_eq!(arguments(&input, &[], 1000), input);
        let short = arguments(&input, &pointers(), 50);
        assert!(
            short.as_str().is_some_and(|text| text.chars().count() == 50 && !text.contains("4111")),
            "{short}"
        );
        let text = message(&[json!({"type": "tool_call", "arguments": short})], None);
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
    }
}
