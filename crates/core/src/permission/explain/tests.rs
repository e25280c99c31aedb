use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::agent::Risk;
use crate::permission::{MAX_RULES, OnDeny, OnExpiry, Policy};

fn compiled(policy: &Value, owner: Owner) -> CompiledPolicy {
    let policy: Policy = serde_json::from_value(policy.clone()).expect("policy");
    CompiledPolicy::compile(&policy, owner).expect("compiles")
}

fn call<'a>(risk: Risk, input: &'a Value, context: &'a Value) -> CallFacts<'a> {
    let effort = Box::leak(Box::new(Effort::of_reply()));
    CallFacts { tool_name: "pay", risk, input, input_hash: "h", context, creators: &[], effort }
}

fn grant(n: u128, deciders: &[&str]) -> Grant {
    Grant {
        id: GrantId(uuid::Uuid::from_u128(n)),
        tool_name: "pay".into(),
        input_hash: None,
        expires_at: None,
        deciders: deciders.iter().map(|by| (*by).to_owned()).collect(),
        max_risk: Risk::High,
    }
}

#[test]
fn each_part_of_each_rule_says_why() {
    let policy = json!({"rules": [
        {"tool": "get_*", "effect": "deny"},
        {"risk": ["low", "critical"], "effect": "deny"},
        {"tool": "p?y", "input": {"properties": {"amount": {"minimum": 100}}}, "effect": "deny"},
        {"context": {"required": ["group"]}, "effect": "ask", "reason": "of a group"},
        {"effect": "allow"},
    ]});
    let agent = compiled(&policy, Owner::Agent);
    let (input, context) = (json!({"amount": 5}), json!({"group": "trial"}));
    let told = agent.explain(&call(Risk::High, &input, &context));
    let matched: Vec<bool> = told.rules.iter().map(|rule| rule.matched).collect();
    assert_eq!(matched, [false, false, false, true, true]);
    let decides: Vec<usize> = told.rules.iter().filter(|rule| rule.decides).map(|rule| rule.index).collect();
    assert_eq!((decides, told.verdict), (vec![3], Some(Effect::Ask)));
    let parts = |index: usize| told.rules[index].parts.clone();
    assert_eq!(parts(0).tool.expect("a glob").why, r#""get_*" doesn't match "pay""#);
    assert_eq!(parts(0).risk, None, "a part that isn't there matches anything");
    let risk = parts(1).risk.expect("risks");
    assert_eq!(risk.why, "the tool's risk, high, is not among: low, critical");
    let amount = parts(2).input.expect("a schema");
    assert!(parts(2).tool.expect("a glob").matched && !amount.matched);
    assert_eq!(amount.errors[0].pointer, "/amount");
    assert_eq!(parts(3).context.expect("a schema").why, "the context fits the schema");
    assert_eq!(told.rules[3].reason.as_deref(), Some("of a group"));
    assert!(!told.default.applies && told.default.why.contains("a rule matches"));
}

#[test]
fn findings_of_many_rules_come_to_an_end() {
    let strict: Vec<Value> = (0..20).map(|n| json!({"required": [format!("part{n}")]})).collect();
    let rule = json!({"effect": "deny", "input": {"allOf": strict}});
    let policy = json!({"rules": vec![rule; MAX_RULES]});
    let told = compiled(&policy, Owner::Tenant).explain(&call(Risk::Low, &json!({}), &json!({})));
    let found: Vec<usize> =
        told.rules.iter().filter_map(|rule| Some(rule.parts.input.as_ref()?.errors.len())).collect();
    assert_eq!((found.len(), found.iter().sum::<usize>()), (MAX_RULES, MOST_FINDINGS));
    assert_eq!((found[0], found[MAX_RULES - 1]), (8, 0));
    assert!(told.rules.iter().all(|rule| !rule.matched), "what isn't told of is judged all the same");
}

#[test]
fn a_default_says_whether_it_counts() {
    let (input, context) = (json!({}), json!({}));
    for (policy, owner, risk, effect) in [
        (json!({}), Owner::Agent, Risk::High, Some(Effect::Ask)),
        (json!({}), Owner::Tenant, Risk::High, None),
        (json!({"default": {"low": "deny"}}), Owner::Tenant, Risk::High, None),
        (json!({"default": {"low": "deny"}}), Owner::Run, Risk::Low, Some(Effect::Deny)),
    ] {
        let told = compiled(&policy, owner).explain(&call(risk, &input, &context));
        assert_eq!((told.default.effect, told.verdict), (effect, effect), "{policy}");
        assert_eq!(told.default.applies, effect.is_some());
        assert!(told.default.why.starts_with("no rule matches"), "{}", told.default.why);
    }
}

#[test]
fn each_grant_of_the_tool_says_why() {
    let (input, context) = (json!({}), json!({}));
    let creators = ["key_1".to_owned()];
    let facts = CallFacts { creators: &creators, ..call(Risk::High, &input, &context) };
    let two = json!({"rules": [{"effect": "ask", "approvals": 2, "self_approval": false}]});
    let (two, open, shut) =
        (two, json!({"rules": [{"effect": "allow"}]}), json!({"rules": [{"effect": "deny"}]}));
    let critical = CallFacts { risk: Risk::Critical, ..facts };
    let pair = || grant(1, &["key_2", "user:ann"]);
    for (policy, call, grant, why) in [
        (&two, &facts, pair(), "it answers"),
        (&two, &facts, Grant { input_hash: Some("h".into()), expires_at: Some(101), ..pair() }, "it answers"),
        (&two, &facts, grant(1, &["key_2", "key_1"]), "too few"),
        (&two, &facts, grant(1, &["key_2", "link"]), "too few"),
        (&two, &facts, grant(1, &["key_2", "key_2"]), "too few"),
        (&two, &facts, Grant { input_hash: Some("other".into()), ..pair() }, "it is of another input"),
        (&two, &facts, Grant { expires_at: Some(100), ..pair() }, "it has expired"),
        (&two, &facts, Grant { max_risk: Risk::Medium, ..pair() }, "the tool's risk is higher"),
        (&two, &critical, pair(), "people are asked about critical risk"),
        (&open, &facts, pair(), "the policies allow"),
        (&shut, &facts, pair(), "no approval beats a denial"),
    ] {
        let agent = compiled(policy, Owner::Agent);
        let policies = Policies { agent: &agent, tenant: None, run: None };
        let of_another = Grant { tool_name: "wipe".into(), ..grant.clone() };
        let told = explain(policies, &[of_another, grant], call, 100);
        assert_eq!(told.grants.len(), 1, "those of other tools aren't told of");
        assert!(told.grants[0].why.starts_with(why), "{policy}: {}", told.grants[0].why);
        assert_eq!(told.grants[0].covers, why == "it answers");
        assert_eq!(told.judgement.by.starts_with("grant:"), told.grants[0].covers);
    }
}

fn effect() -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!("allow")), Just(json!("ask")), Just(json!("deny"))]
}

/// One of these values, or none.
fn maybe(values: Vec<Value>) -> impl Strategy<Value = Option<Value>> {
    proptest::option::of(proptest::sample::select(values))
}

fn object(fields: impl IntoIterator<Item = (&'static str, Option<Value>)>) -> Value {
    Value::Object(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

fn rule() -> impl Strategy<Value = Value> {
    let amount = |limit: &str| json!({"required": ["amount"], "properties": {"amount": {limit: 10}}});
    let group = json!({"required": ["group"], "properties": {"group": {"const": "trial"}}});
    let when = (
        maybe(vec![json!("pay"), json!("p*"), json!("get_*")]),
        maybe(vec![json!(["low", "high"]), json!(["medium"]), json!(["critical"])]),
        maybe(vec![amount("minimum"), amount("maximum")]),
        maybe(vec![group]),
    );
    let says = (
        effect(),
        1..4_u32,
        maybe(vec![json!(60_000), json!(5)]),
        maybe(vec![json!("stop"), json!("deny")]),
        maybe(vec![json!(true), json!(false)]),
        maybe(vec![json!(60_000), json!(90_000)]),
    );
    (when, says).prop_map(
        |((tool, risk, input, context), (effect, approvals, expires, expiry, own, remind))| {
            object([
                ("tool", tool),
                ("risk", risk),
                ("input", input),
                ("context", context),
                ("effect", Some(effect)),
                ("approvals", Some(json!(approvals))),
                ("expires_ms", expires),
                ("on_expiry", expiry),
                ("self_approval", own),
                ("remind_every_ms", remind),
            ])
        },
    )
}

fn policy() -> impl Strategy<Value = Value> {
    let defaults = [effect(), effect(), effect(), effect()].map(proptest::option::of);
    let [low, medium, high, critical] = defaults;
    let default = (low, medium, high, critical).prop_map(|(low, medium, high, critical)| {
        object([("low", low), ("medium", medium), ("high", high), ("critical", critical)])
    });
    let rules = proptest::collection::vec(rule(), 0..4);
    let stops = maybe(vec![json!("stop"), json!("observe")]);
    (rules, default, stops, proptest::option::of(1..5_u32)).prop_map(|(rules, default, on_deny, most)| {
        object([
            ("rules", Some(json!(rules))),
            ("default", Some(default)),
            ("on_deny", on_deny),
            ("max_denials", most.map(Value::from)),
        ])
    })
}

fn grants() -> impl Strategy<Value = Vec<Grant>> {
    let deciders = proptest::sample::subsequence(vec!["key_1", "key_2", "user:ann", "link"], 1..4);
    let one = (deciders, proptest::option::of(90..110_i64), any::<bool>(), any::<bool>());
    let grant = one.prop_map(|(deciders, expires_at, other, low)| Grant {
        expires_at,
        input_hash: other.then(|| "other".to_owned()),
        max_risk: if low { Risk::Low } else { Risk::High },
        ..grant(1, &deciders)
    });
    proptest::collection::vec(grant, 0..3)
}

fn risk() -> impl Strategy<Value = Risk> {
    proptest::sample::select(vec![Risk::Low, Risk::Medium, Risk::High, Risk::Critical])
}

proptest! {
    #[test]
    fn what_is_told_is_what_is_judged(
        agent in policy(), tenant in proptest::option::of(policy()), run in proptest::option::of(policy()),
        grants in grants(), risk in risk(), amount in 5..15_i64, trial in any::<bool>(), creator in "key_[12]",
    ) {
        let agent = compiled(&agent, Owner::Agent);
        let tenant = tenant.map(|policy| compiled(&policy, Owner::Tenant));
        let run = run.map(|policy| compiled(&policy, Owner::Run));
        let (input, creators) = (json!({"amount": amount}), [creator]);
        let context = if trial { json!({"group": "trial"}) } else { json!({}) };
        let facts = CallFacts { creators: &creators, ..call(risk, &input, &context) };
        let policies = Policies { agent: &agent, tenant: tenant.as_ref(), run: run.as_ref() };
        let told = explain(policies, &grants, &facts, 100);
        prop_assert_eq!(&told.judgement, &judge(policies, &grants, &facts, 100));
        let strictest = told.policies.iter().filter_map(|policy| policy.verdict).max();
        let covering = told.grants.iter().find(|grant| grant.covers);
        match covering {
            Some(grant) => {
                prop_assert_eq!(strictest, Some(Effect::Ask));
                prop_assert_eq!(&told.judgement.by, &format!("grant:{}", grant.id));
            }
            None => prop_assert_eq!(strictest, Some(told.judgement.effect)),
        }
        for policy in &told.policies {
            for rule in &policy.rules {
                let parts = &rule.parts;
                let parts = [&parts.tool, &parts.risk, &parts.input, &parts.context];
                prop_assert_eq!(rule.matched, parts.into_iter().flatten().all(|part| part.matched));
                prop_assert!(!rule.decides || policy.verdict == Some(rule.effect));
            }
            let some_decides = policy.rules.iter().any(|rule| rule.decides);
            prop_assert_eq!(policy.verdict.is_some(), some_decides != policy.default.applies);
        }
        if let Some(index) = told.judgement.rule {
            let of = told.policies.iter().find(|policy| policy.owner == told.judgement.owner);
            prop_assert!(of.is_some_and(|policy| policy.rules[index].decides));
        }
    }

    #[test]
    fn another_policy_only_tightens(
        agent in policy(), tenant in policy(), run in policy(), grants in grants(), risk in risk(), amount in 5..15_i64,
    ) {
        let [agent, tenant, run] =
            [(agent, Owner::Agent), (tenant, Owner::Tenant), (run, Owner::Run)].map(|(p, owner)| compiled(&p, owner));
        let (input, context) = (json!({"amount": amount}), json!({"group": "trial"}));
        let facts = call(risk, &input, &context);
        let judged = |tenants: bool, runs: bool| {
            let (tenant, run) = (tenants.then_some(&tenant), runs.then_some(&run));
            judge(Policies { agent: &agent, tenant, run }, &grants, &facts, 100)
        };
        for (without, with) in [
            (judged(false, false), judged(true, false)),
            (judged(false, false), judged(false, true)),
            (judged(true, false), judged(true, true)),
        ] {
            prop_assert!(with.effect >= without.effect);
            if (without.effect, with.effect) == (Effect::Ask, Effect::Ask) {
                prop_assert!(with.approvals >= without.approvals && with.expires_ms <= without.expires_ms);
                prop_assert!(without.self_approval || !with.self_approval);
                prop_assert!(without.on_expiry == OnExpiry::Deny || with.on_expiry == OnExpiry::Stop);
            }
            let (Some(few), Some(many)) = (with.denials, without.denials) else { panic!("an agent's says it") };
            prop_assert!(few.max_denials <= many.max_denials);
            prop_assert!(many.on_deny == OnDeny::Observe || few.on_deny == OnDeny::Stop);
        }
    }
}
