use super::*;
use crate::agent::Risk;
use crate::id::GrantId;
use crate::schema::Effort;
use serde_json::{Value, json};

fn compiled(policy: Value, owner: Owner) -> CompiledPolicy {
    let policy: Policy = serde_json::from_value(policy).expect("policy");
    CompiledPolicy::compile(&policy, owner).expect("compiles")
}

fn verdict(agent: Value, tenant: Option<Value>, grants: &[Grant], risk: Risk, input: &Value) -> Judgement {
    let (agent, tenant) = (compiled(agent, Owner::Agent), tenant.map(|t| compiled(t, Owner::Tenant)));
    let context = json!({"group": "trial"});
    let (input_hash, context, effort) = ("h", &context, &Effort::of_one());
    let call = CallFacts { tool_name: "pay", risk, input, input_hash, context, creators: &[], effort };
    judge(Policies { agent: &agent, tenant: tenant.as_ref(), run: None }, grants, &call, 100)
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
        deciders: vec!["key_1".into()],
        max_risk: Risk::High,
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
fn whoever_has_a_link_is_one_of_the_others_where_several_must_agree() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (approvals, deciders, enough) in [
        (1, &["user:ann"] as &[&str], true),
        (1, &[], false),
        (2, &["link", "user:ann"], false),
        (2, &["user:ann", "user:bob"], true),
        (2, &["user:ann", "user:ann", "link"], false),
        (3, &["user:ann", "user:bob", "link"], false),
    ] {
        let ask = json!({"rules": [{"effect": "ask", "approvals": approvals}]});
        let asked = verdict(ask.clone(), None, &[], Risk::High, &json!({}));
        assert_eq!(asked.is_met_by(&names(deciders), &[]), enough, "{approvals}: {deciders:?}");
        let grant = Grant {
            id: GrantId(uuid::Uuid::nil()),
            tool_name: "pay".into(),
            input_hash: None,
            expires_at: None,
            deciders: names(deciders),
            max_risk: Risk::High,
        };
        let covered = verdict(ask, None, &[grant], Risk::High, &json!({}));
        assert_eq!(covered.effect == Effect::Allow, enough, "{approvals}: {deciders:?}");
    }
}

#[test]
fn nothing_is_remembered_by_a_link() {
    let grant = |deciders: &[&str]| Grant {
        id: GrantId(uuid::Uuid::nil()),
        tool_name: "pay".into(),
        input_hash: None,
        expires_at: None,
        deciders: deciders.iter().map(|by| (*by).to_owned()).collect(),
        max_risk: Risk::High,
    };
    let asked = verdict(json!({}), None, &[], Risk::High, &json!({}));
    assert!(asked.is_met_by(&["link".to_owned()], &[]), "it decides the one approval that it is for");
    for (deciders, wanted) in
        [(&["link"] as &[&str], Effect::Ask), (&[], Effect::Ask), (&["link", "user:ann"], Effect::Allow)]
    {
        let covered = verdict(json!({}), None, &[grant(deciders)], Risk::High, &json!({}));
        assert_eq!(covered.effect, wanted, "{deciders:?}");
    }
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

#[test]
fn a_policy_has_so_many_rules_and_no_more() {
    let rules = |count: usize| -> Policy {
        serde_json::from_value(json!({"rules": vec![json!({"effect": "deny"}); count]})).expect("policy")
    };
    assert!(CompiledPolicy::compile(&rules(MAX_RULES), Owner::Tenant).is_ok());
    let faults = CompiledPolicy::compile(&rules(MAX_RULES + 1), Owner::Tenant).expect_err("too many");
    assert_eq!(faults[0].pointer, "/rules");
}

#[test]
fn many_dear_rules_are_not_all_judged_and_cheap_ones_are() {
    let dear = json!({"required": ["a"], "properties": {"a": {"items": {"allOf": [true, true, true]}}}});
    let (input, context) = (json!({"amount": 1}), json!({"a": vec![1; 60_000]}));
    let verdict = |rules: Vec<Value>| {
        let policy = compiled(json!({"rules": rules}), Owner::Agent);
        let (input, context, effort) = (&input, &context, &Effort::of_one());
        let (risk, input_hash) = (Risk::High, "h");
        let call = CallFacts { tool_name: "pay", risk, input, input_hash, context, creators: &[], effort };
        judge(Policies { agent: &policy, tenant: None, run: None }, &[], &call, 100)
    };
    let rule = |effect: &str| json!({"effect": effect, "context": dear, "reason": "dear"});
    let allowed = verdict(vec![rule("allow")]);
    assert_eq!((allowed.effect, &*allowed.reason), (Effect::Allow, "dear"));
    // What can't be judged any more opens nothing and forbids all the same, and says so.
    let denied = verdict([vec![rule("allow"); 8], vec![rule("deny")]].concat());
    assert_eq!(
        (denied.effect, &*denied.reason),
        (Effect::Deny, "dear (its schema could not be judged in time)")
    );
    let large = json!({"required": ["amount"], "properties": {"amount": {"minimum": 100_000}}});
    let unlike = json!({"effect": "deny", "input": large});
    assert_eq!(verdict([vec![rule("allow"); 8], vec![unlike]].concat()).effect, Effect::Allow);
}
