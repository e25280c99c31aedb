//! Which answer a request gets.

use serde_json::json;

use super::*;
use crate::{Form, read};

fn answers(tools: &str) -> Answers {
    let agent = "agent: {tools: [{name: pay}, {name: look}]}";
    let text = format!("input: hi\n{agent}\nmodel: [{{final: x}}]\nexpect: {{}}\ntools: {tools}\n");
    Answers::of(&read(&text, Form::Yaml, "x").unwrap_or_else(|fault| panic!("{text}: {fault}")))
}

/// What a request is told.
fn told(answers: &mut Answers, tool: &str, input: Value, key: &str) -> Result<String, String> {
    let taken = answers.take(ToolRequest { tool, input: &input, key });
    taken.map(|answer| answer.body.render().1)
}

#[test]
fn the_nth_answer_is_for_the_nth_request_and_the_last_for_all_others() {
    let mut answers = answers("{look: [{text: one}, {text: two}]}");
    let said: Vec<_> = (0..4).map(|_| told(&mut answers, "look", json!({}), "")).collect();
    assert_eq!(said, ["one", "two", "two", "two"].map(|word| Ok(word.to_owned())));
    assert_eq!(answers.traffic()["look"], Traffic { requests: 4, effects: 4 });
}

#[test]
fn an_answer_for_an_input_is_given_to_no_other() {
    let mut answers =
        answers("{look: [{input: {required: [id]}, text: found}, {input: {required: [name]}, text: named}]}");
    assert_eq!(told(&mut answers, "look", json!({"name": "x"}), ""), Ok("named".to_owned()));
    assert_eq!(told(&mut answers, "look", json!({"id": 7}), ""), Ok("found".to_owned()));
    assert_eq!(told(&mut answers, "look", json!({"id": 8}), ""), Ok("found".to_owned()));
    let fault = told(&mut answers, "look", json!({}), "").expect_err("no answer");
    assert_eq!(fault, "the call look {} has no answer in the case");
}

#[test]
fn a_tool_that_the_case_says_nothing_of_is_content() {
    let mut answers = answers("{}");
    for _ in 0..2 {
        assert_eq!(told(&mut answers, "pay", json!({}), ""), Ok(r#"{"ok":true}"#.to_owned()));
    }
    assert_eq!(answers.traffic()["pay"], Traffic { requests: 2, effects: 2 });
}

#[test]
fn effects_are_made_below_300_or_as_the_case_says() {
    let mut answers = answers(
        "{pay: [{status: 500}, {status: 500, applies: true}, {drop: true}, {drop: true, applies: false}]}",
    );
    let counts: Vec<u64> = (0..4)
        .map(|_| {
            let _ = told(&mut answers, "pay", json!({}), "");
            answers.traffic()["pay"].effects
        })
        .collect();
    assert_eq!(counts, [0, 1, 2, 2]);
}

#[test]
fn a_known_key_gets_its_first_answer_whole_and_has_no_second_effect() {
    let script = "{pay: {dedupe: true, answers: [{text: one, drop: true, delay_ms: 50}, {text: two}]}}";
    let mut answers = answers(script);
    let mut take = |key: &str| {
        let request = ToolRequest { tool: "pay", input: &json!({}), key };
        let answer = answers.take(request).expect("an answer");
        (answer.body.render().1, answer.drop, answer.delay.as_millis(), answers.traffic()["pay"].effects)
    };
    assert_eq!(take("a"), ("one".to_owned(), true, 50, 1));
    assert_eq!(take("a"), ("one".to_owned(), false, 0, 1));
    assert_eq!(take("b"), ("two".to_owned(), false, 0, 2));
}
