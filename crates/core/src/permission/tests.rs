use super::*;
use crate::agent::Risk;
use crate::id::GrantId;
use serde_json::{Value, json};

fn compiled(policy: Value, owner: Owner) -> CompiledPolicy {
    let policy: Policy = serde_json::from_value(policy).expect("policy");
    CompiledPolicy::compile(&policy, owner).expect("compiles")
}

fn verdict(agent: Value, tenant: Option<Value>, grants: &[Grant], risk: Risk, input: &Value) -> Judgement {
    let (agent, tenant) = (compiled(agent, Owner::Agent), tenant.map(|t| compiled(t, Owner::Tenant)));
    let context = json!({"group": "trial"});
    let call = CallFacts { tool_name: "pay", risk, input, input_hash: "h", context: &context };
    judge(&agent, tenant.as_ref(), grants, &call, 100)
}

#[test]
fn the_strictest_of_all_that_apply_wins() {
    let deny = json!({"tool": "p?y", "effect": "deny", "reason": "over the limit",
        "input": {"properties": {"amount": {"exclusiveMinimum": 10}}}, "context": {"required": ["group"]}});
    let agent = json!({"rules": [{"tool": "p*", "effect": "allow"}, deny]});
    let high = verdict(agent.clone(), None, &[], Risk::High, &json!({"amount": 11}));
    assert_eq!((high.effect, high.rule, high.reason.as_str()), (Effect::Deny, Some(1), "over the limit"));
    let low = verdict(agent.clone(), None, &[], Risk::High, &json!({"amount": 10}));
    assert_eq!((low.effect, low.rule), (Effect::Allow, Some(0)));
    let tenant = json!({"default": {"high": "ask"}});
    assert_eq!(verdict(agent, Some(tenant), &[], Risk::High, &json!({"amount": 1})).effect, Effect::Ask);
}

#[test]
fn defaults_by_risk() {
    for (risk, wanted) in [
        (Risk::Low, Effect::Allow),
        (Risk::Medium, Effect::Allow),
        (Risk::High, Effect::Ask),
        (Risk::Critical, Effect::Deny),
    ] {
        assert_eq!(verdict(json!({}), Some(json!({})), &[], risk, &json!({})).effect, wanted);
    }
    assert_eq!(
        verdict(json!({"default": {"high": "deny"}}), None, &[], Risk::High, &json!({})).effect,
        Effect::Deny
    );
}

#[test]
fn a_grant_opens_what_is_asked_for_and_nothing_else() {
    let grant = |hash: Option<&str>, until| Grant {
        id: GrantId(uuid::Uuid::nil()),
        tool_name: "pay".into(),
        input_hash: hash.map(Into::into),
        expires_at: until,
    };
    let ask = json!({"default": {"critical": "ask"}});
    for (grants, risk, wanted) in [
        (vec![grant(None, None)], Risk::High, Effect::Allow),
        (vec![grant(Some("h"), Some(101))], Risk::High, Effect::Allow),
        (vec![grant(Some("other"), None)], Risk::High, Effect::Ask),
        (vec![grant(None, Some(100))], Risk::High, Effect::Ask),
        (vec![grant(None, None)], Risk::Critical, Effect::Ask),
    ] {
        assert_eq!(verdict(ask.clone(), None, &grants, risk, &json!({})).effect, wanted, "{grants:?}");
    }
    let deny = json!({"rules": [{"effect": "deny"}]});
    assert_eq!(verdict(deny, None, &[grant(None, None)], Risk::High, &json!({})).effect, Effect::Deny);
}

#[test]
fn an_allow_rule_names_what_it_requires() {
    let open = json!({"rules": [{"effect": "allow", "input": {"properties": {"amount": {"maximum": 5}}}}]});
    let policy: Policy = serde_json::from_value(open).expect("policy");
    let errors =
        CompiledPolicy::compile(&policy, Owner::Agent).expect_err("an absent amount would be allowed");
    assert_eq!(errors[0].pointer, "/rules/0/input/properties/amount");
    let limit = json!({"amount": {"maximum": 5}});
    for (input, sound) in [
        (json!({"required": ["amount"], "properties": limit}), true),
        (json!({"required": ["amount"], "allOf": [{"properties": limit}]}), true),
        (json!({"allOf": [{"properties": limit}]}), false),
        (json!({"anyOf": [{"properties": limit, "required": ["amount"]}, {"properties": limit}]}), false),
        (json!({"$ref": "#/$defs/a", "$defs": {"a": {"properties": limit}}}), false),
        (json!({"not": {"properties": {"amount": {"minimum": 5}}}}), true),
    ] {
        let policy = Policy { rules: vec![rule(&input)], ..Policy::default() };
        assert_eq!(CompiledPolicy::compile(&policy, Owner::Agent).is_ok(), sound, "{input}");
    }
}

fn rule(input: &Value) -> Rule {
    serde_json::from_value(json!({"effect": "allow", "input": input})).expect("rule")
}

#[test]
fn globs() {
    for (glob, name, wanted) in [
        ("*", "", true),
        ("create_*", "create_order", true),
        ("create_*", "recreate_order", false),
        ("*_order", "create_order_order", true),
        ("a*b*c", "axxbyyc", true),
        ("a*b*c", "axxcyyb", false),
        ("?", "é", true),
        ("", "a", false),
    ] {
        assert_eq!(glob_matches(glob, name), wanted, "{glob} {name}");
    }
}
