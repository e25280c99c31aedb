//! What stands in the way of a case, stage by stage.

use super::*;
use crate::{Form, read};

const ALL: Stage = Stage { reach: true, own_tenant: true, live_model: false, live_tools: false };

fn way(stage: Stage, more: &str) -> Option<String> {
    let text = format!("input: hi\nagent: {{tools: [{{name: pay}}]}}\n{more}\n");
    let text = if more.contains("model:") { text } else { format!("{text}model: [{{final: x}}]\n") };
    let text = if more.contains("expect:") { text } else { format!("{text}expect: {{}}\n") };
    let case = read(&text, Form::Yaml, "x").unwrap_or_else(|fault| panic!("{text}: {fault}"));
    obstacle(&case, stage)
}

#[test]
fn everything_can_be_played_on_a_server_of_its_own_but_a_real_model() {
    for more in [
        "model: [{http: 503}, {final: x}]",
        "tools: {pay: [{drop: true}]}",
        "secrets: {shop: x}",
        "actions: [{wait: {called: pay}}]",
        "expect: {model_requests: 1, effects: {pay: 0}}",
    ] {
        assert_eq!(way(ALL, more), None, "{more}");
    }
    assert!(way(ALL, "model: live").is_some_and(|reason| reason.contains("--model")));
    assert_eq!(way(Stage { live_model: true, ..ALL }, "model: live"), None);
}

#[test]
fn a_real_model_can_not_be_made_to_fail() {
    let live = Stage { live_model: true, ..ALL };
    assert_eq!(way(live, "model: [{tool_calls: [{name: pay}]}, {final: x}]"), None);
    for model in
        ["{http: 503}", "{drop: true}", "{final: x, finish_reason: length}", "{final: x, cut_after: 9}"]
    {
        let reason = way(live, &format!("model: [{model}]"));
        assert!(reason.is_some_and(|reason| reason.contains("a real one can't")), "{model}");
    }
}

#[test]
fn real_tools_can_not_be_counted() {
    let live = Stage { live_tools: true, ..ALL };
    assert_eq!(way(live, "expect: {tools: {called: [pay]}}"), None);
    for expect in ["{effects: {pay: 1}}", "{requests: {pay: 1}}"] {
        assert!(way(live, &format!("expect: {expect}")).is_some(), "{expect}");
        assert!(way(ALL, &format!("tools: live\nexpect: {expect}")).is_some(), "{expect}");
    }
}

#[test]
fn in_a_tenant_of_others_no_secrets_are_stored() {
    let shared = Stage { own_tenant: false, ..ALL };
    assert!(
        way(shared, "secrets: {shop: x}").is_some_and(|reason| reason.contains("ANSWERABLE_OPERATOR_KEY"))
    );
    assert_eq!(way(shared, "tools: {pay: [{drop: true}]}"), None);
}

#[test]
fn out_of_reach_models_speak_and_tools_answer_and_no_more() {
    let far = Stage { reach: false, ..ALL };
    for more in [
        "model: [{tool_calls: [{name: pay, arguments: {a: 1}}]}, {final: x}]",
        "tools: {pay: [{status: 404, text: no}, {body: {a: 1}}]}",
        "expect: {effects: {pay: 1}, model_saw: {contains: x}}",
        "actions: [{wait: {status: finished}}, {continue: {input: more}}]",
    ] {
        assert_eq!(way(far, more), None, "{more}");
    }
    for (more, told) in [
        ("model: [{http: 503}, {final: x}]", "its model"),
        ("model: [{final: x, delay_ms: 5}]", "its model"),
        ("model: [{text: x, tool_calls: [{name: pay}]}]", "its model"),
        ("model: [{tool_calls: [{name: pay, arguments: '[]'}]}]", "its model"),
        ("tools: {pay: [{drop: true}]}", "its tools"),
        ("tools: {pay: [{status: 503}]}", "its tools"),
        ("tools: {pay: {dedupe: true, answers: [{}]}}", "its tools"),
        ("actions: [{wait: {called: pay}}]", "it watches requests"),
        ("expect: {model_requests: 1}", "it watches requests"),
    ] {
        let reason = way(far, more);
        assert!(reason.as_ref().is_some_and(|reason| reason.starts_with(told)), "{more}: {reason:?}");
    }
}
