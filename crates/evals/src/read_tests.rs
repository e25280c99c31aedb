//! Files that are cases, and files that are not.

use super::*;
use crate::case::{Secret, Usage, What};

const SMALL: &str = "input: hi\nagent: {}\nmodel: [{final: hello}]\nexpect: {status: finished}\n";

fn yaml(text: &str) -> Result<Case, Unreadable> {
    read(text, Form::Yaml, "group/name")
}

/// The small case with another line.
fn with(line: &str) -> Result<Case, Unreadable> {
    yaml(&format!("{SMALL}{line}\n"))
}

#[test]
fn a_small_case_has_the_name_of_its_file() {
    let case = yaml(SMALL).expect("a case");
    assert_eq!((case.name.as_str(), case.provider()), ("group/name", "main"));
    let Model::Replies(replies) = &case.model else { panic!("replies") };
    let What::Said(said) = &replies[0].what else { panic!("a message") };
    assert_eq!((said.text.as_str(), said.usage), ("hello", Some(Usage::USUAL)));
    assert_eq!(with("name: own").expect("a case").name, "own");
}

#[test]
fn json_is_read_as_well_and_keeps_its_digits() {
    let text = r#"{"object": "eval_case", "version": 1, "input": "hi", "agent": {}, "model": [{"final": "hello"}],
        "context": {"id": 123456789012345678901234567890}, "expect": {"steps": {"max": 2}}}"#;
    let case = read(text, Form::Json, "x").expect("a case");
    let id = case.context.expect("a context")["id"].to_string();
    assert_eq!(id, "123456789012345678901234567890");
    assert!(read("{} {}", Form::Json, "x").is_err(), "one file is one case");
}

#[test]
fn secrets_are_made_up_or_come_from_the_environment() {
    let case = with("secrets: {shop: made-up, mail: {env: MAIL_KEY}}").expect("a case");
    assert_eq!(case.secrets["shop"], Secret::Made("made-up".to_owned()));
    assert_eq!(case.secrets["mail"], Secret::Env("MAIL_KEY".to_owned()));
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (line, told) in [
        ("expext: {}", "expext: unknown field `expext`"),
        ("tags: []\ntags: []", "duplicate entry with key \"tags\""),
        ("agent: {}", "duplicate entry with key \"agent\""),
        ("name: !name x", "the tag !name means nothing here"),
        ("object: run", "object: a case is an eval_case"),
        ("version: 2", "version: 2 is not known"),
        ("tools: {pay: [{}]}", "tools.pay: the agent has no such tool"),
        (
            "fallbacks: {spare: [{final: x}]}",
            "fallbacks.spare: the agent's model has no fallback at this provider",
        ),
        ("secrets: {shop: {var: X}}", "secrets.shop.var: unknown field `var`"),
        ("secrets: {shop: 7}", "secrets.shop: a text, or {env: NAME} is needed"),
        ("context: {7: x}", "the key 7 is no text: put it in quotes"),
        ("actions: [{aprove: pay}]", "actions[0]: aprove is none of the actions"),
        ("tags: x", "tags"),
    ] {
        let fault = with(line).expect_err(line).to_string();
        assert!(fault.contains(told), "{line}: {fault}");
    }
}

#[test]
fn what_is_wrong_inside_is_told_with_its_place() {
    let fault = yaml("input: hi\nagent: {}\nmodel: [{final: x}]\nexpect:\n  status: finished\n  stepps: 3\n");
    let fault = fault.expect_err("a slip of the pen").to_string();
    assert!(fault.starts_with("expect.stepps: unknown field `stepps`, expected one of `status`"), "{fault}");
    let fault = yaml("input: hi\nagent: {\nmodel: x").expect_err("no YAML").to_string();
    assert!(fault.contains("line 2 column 8"), "{fault}");
}

#[test]
fn replies_and_answers_are_one_thing_each() {
    for (reply, told) in [
        ("{final: a, text: b}", "final and text are the same"),
        ("{final: a, tool_calls: [{name: x}]}", "a final reply calls no tools"),
        ("{final: a, http: 500}", "a reply is one of"),
        ("{}", "a reply is one of"),
        ("{http: 99}", "http is a status from 100 to 599"),
        ("{http: 500, usage: null}", "belong to what the model says"),
        ("{final: a, headers: {x: y}}", "headers and body belong to a reply with http"),
        ("{final: a, usage: {input_tokens: 1}}", "missing field `output_tokens`"),
        ("{tool_calls: [{nam: x}]}", "unknown field `nam`"),
    ] {
        let text = format!("input: hi\nagent: {{}}\nmodel: [{reply}]\nexpect: {{}}\n");
        let fault = yaml(&text).expect_err(reply).to_string();
        assert!(fault.starts_with("model[0]") && fault.contains(told), "{reply}: {fault}");
    }
    for (answer, told) in [
        ("{body: 1, text: b}", "an answer has one of"),
        ("{status: 99}", "status is from 200 to 599"),
        ("{repeat_text: [x, 99999999999]}", "more than 32 MiB"),
        ("{deley_ms: 4}", "unknown field `deley_ms`"),
    ] {
        let agent = "agent: {tools: [{name: pay}]}";
        let text =
            format!("input: hi\n{agent}\nmodel: [{{final: x}}]\ntools: {{pay: [{answer}]}}\nexpect: {{}}\n");
        let fault = yaml(&text).expect_err(answer).to_string();
        assert!(fault.starts_with("tools.pay[0]") && fault.contains(told), "{answer}: {fault}");
    }
}

#[test]
fn expectations_that_can_never_hold_are_refused() {
    for (expect, told) in [
        ("{steps: {min: 3, max: 2}}", "nothing lies between 3 and 2"),
        ("{steps: many}", "expect.steps: a number, or {min"),
        ("{steps: {}}", "expect.steps: a number, or {min"),
        ("{steps: -1}", "expect.steps: a number, or {min"),
        ("{answer: {matches: '('}}", "no regular expression"),
        ("{answer: {schema: {type: sting}}}", "no JSON Schema"),
        ("{tools: {called: [{nam: pay}]}}", "expect.tools.called[0].nam: unknown field `nam`"),
        ("{ledger: [{tool: pay}]}", "unknown field `tool`"),
    ] {
        let text = format!("input: hi\nagent: {{}}\nmodel: [{{final: x}}]\nexpect: {expect}\n");
        let fault = yaml(&text).expect_err(expect).to_string();
        assert!(fault.contains(told), "{expect}: {fault}");
    }
}

#[test]
fn a_case_says_what_must_hold_and_what_is_asked() {
    let fault = |text: &str| yaml(text).expect_err(text).to_string();
    assert!(fault("input: hi\nagent: {}\nmodel: [{final: x}]\n").starts_with("expect is missing"));
    assert!(fault("input: ''\nagent: {}\nmodel: [{final: x}]\nexpect: {}\n").starts_with("input: a text"));
    assert!(fault("input: hi\nagent: {}\nmodel: []\nexpect: {}\n").starts_with("model: at least one reply"));
    assert!(fault("input: hi\nagent: {}\nmodel: real\nexpect: {}\n").contains("or the word live"));
}
