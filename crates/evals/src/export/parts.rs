//! The parts of a recorded run, in the forms in which people write them.

use serde_json::{Map, Value, json};

use crate::case::{
    Action, Case, Condition, Decision, Model, Outcome, RecordedCall, Reply, Tools, Usage, What,
};

/// One message of the user is its text.
pub(super) fn input(case: &Case) -> Value {
    let single = match &case.input {
        Value::Array(messages) if messages.len() == 1 => messages[0]
            .get("content")
            .filter(|_| messages[0].get("role").is_some_and(|role| role == "user"))
            .filter(|_| messages[0].get("pinned").is_none())
            .filter(|content| content.is_string()),
        _ => None,
    };
    single.unwrap_or(&case.input).clone()
}

pub(super) fn model(case: &Case) -> Value {
    match &case.model {
        Model::Live => json!("live"),
        Model::Replies(replies) => replies.iter().map(|one| reply(case, one)).collect(),
    }
}

fn reply(case: &Case, reply: &Reply) -> Value {
    let mut written = Map::new();
    let mut put = |key: &str, value: Value| drop(written.insert(key.to_owned(), value));
    match &reply.what {
        What::Drop => put("drop", true.into()),
        What::Http { status, body, .. } => {
            put("http", (*status).into());
            put("body", body.clone());
        }
        What::Said(said) => {
            if !said.text.is_empty() || said.tool_calls.is_empty() {
                put(if said.tool_calls.is_empty() { "final" } else { "text" }, said.text.clone().into());
            }
            if !said.tool_calls.is_empty() {
                let call =
                    |call: &crate::case::Called| json!({"name": call.name, "arguments": call.arguments});
                put("tool_calls", said.tool_calls.iter().map(call).collect());
            }
            if let Some(reason) = &said.finish_reason {
                put("finish_reason", reason.clone().into());
            }
            if said.usage != Some(Usage::USUAL) {
                put("usage", said.usage.map_or(Value::Null, usage));
            }
        }
    }
    if !reply.delay.is_zero() {
        put("delay_ms", u64::try_from(reply.delay.as_millis()).unwrap_or(u64::MAX).into());
    }
    let elsewhere = reply.provider.as_deref().filter(|name| *name != case.provider());
    if let Some(name) = elsewhere {
        put("provider", name.into());
    }
    Value::Object(written)
}

fn usage(usage: Usage) -> Value {
    let mut written = json!({"input_tokens": usage.input, "output_tokens": usage.output});
    if usage.cached > 0 {
        written["cached_input_tokens"] = usage.cached.into();
    }
    written
}

/// What tools answered; what a person answered in their place stands with the person's decision.
pub(super) fn tools(case: &Case) -> Option<Value> {
    let Tools::Recorded(calls) = &case.tools else { return None };
    // Without a call there is a list, too: a tool that isn't in it has nothing to say.
    let calls: Vec<Value> = calls.iter().filter(|call| call.outcome != Outcome::Answered).map(tool).collect();
    case.tool_names().next().map(|_| Value::Array(calls))
}

fn tool(call: &RecordedCall) -> Value {
    let mut written = json!({"tool_name": call.tool_name, "input": call.input});
    let outcome = match call.outcome {
        Outcome::Succeeded | Outcome::Answered => None,
        Outcome::Refused => Some("refused"),
        Outcome::NotDone => Some("not_done"),
        Outcome::Unclear => Some("unclear"),
        Outcome::Submitted => Some("submitted"),
    };
    if let Some(outcome) = outcome {
        written["outcome"] = outcome.into();
    }
    written["content"] = call.content.clone().into();
    if let Some(code) = &call.error_code {
        written["error_code"] = code.clone().into();
    }
    written
}

/// What people did: decisions step by step, and each word before the decisions of the step that it was said in.
pub(super) fn actions(case: &Case) -> Option<Value> {
    let mut actions: Vec<Value> = case.actions.iter().filter_map(action).collect();
    actions.extend(case.decisions.iter().flat_map(|one| decision(case, one)));
    (!actions.is_empty()).then_some(Value::Array(actions))
}

fn action(action: &Action) -> Option<Value> {
    match action {
        Action::Wait(Condition::Asked(times)) => Some(json!({"wait": {"asked": times}})),
        Action::Steer(content) => Some(json!({"steer": content})),
        // Others are made by nobody but the author of a case.
        _ => None,
    }
}

/// A decision, as often as there were people to decide.
fn decision(case: &Case, decision: &Decision) -> Vec<Value> {
    let Some(word) = decision.word() else { return Vec::new() };
    let approval = decision.again();
    let mut written = Map::new();
    let mut put = |key: &str, value: Option<Value>| value.map(|value| written.insert(key.to_owned(), value));
    put("tool", approval.tool.map(Value::from));
    put("input", approval.input.map(Value::Object));
    put("content", approval.content);
    put("reason", approval.reason.map(Value::from));
    let people = if word == "approve" { people(case, decision) } else { 1 };
    let by = |n: u64| {
        let mut one = written.clone();
        if people > 1 {
            one.insert("as".to_owned(), format!("person-{n}").into());
        }
        json!({word: one})
    };
    (1..=people).map(by).collect()
}

/// How many people the rule wants that asked. A tenant's policy is no part of a case, so there its rules ask nobody.
fn people(case: &Case, decision: &Decision) -> u64 {
    let rules = match decision.policy.as_deref() {
        None | Some("agent") => case.agent.get("policy").and_then(|policy| policy.get("rules")),
        Some("run") => case.policy.as_ref().and_then(|policy| policy.get("rules")),
        Some(_) => None,
    };
    let rule = decision.rule.and_then(|rule| rules?.get(rule));
    rule.and_then(|rule| rule.get("approvals")?.as_u64()).unwrap_or(1).max(1)
}
