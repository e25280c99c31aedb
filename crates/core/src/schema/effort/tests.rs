use serde_json::json;

use super::super::Schema;
use super::*;

/// Definitions that lead from each to the next, `links` of them.
fn chain(links: usize, link: impl Fn(Value) -> Value) -> Value {
    let next = |i: usize| link(json!({"$ref": format!("#/$defs/d{i}")}));
    let mut definitions: Map<String, Value> = (0..links).map(|i| (format!("d{i}"), next(i + 1))).collect();
    definitions.insert(format!("d{links}"), json!({"type": "object"}));
    json!({"$ref": "#/$defs/d0", "$defs": definitions})
}

/// So much stack has a thread that serves requests.
fn within_a_small_stack(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(work)
        .expect("a thread")
        .join()
        .expect("no overflow");
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!({}), |inner, _| json!({"a": inner}))
}

type Link = fn(Value) -> Value;

/// Ways in which one definition may lead to the next.
const LINKS: [Link; 9] = [
    |next| next,
    |next| json!({"allOf": [next]}),
    |next| json!({"anyOf": [next, {"type": "string"}]}),
    |next| json!({"oneOf": [next]}),
    |next| json!({"not": {"not": next}}),
    |next| json!({"if": next, "then": true}),
    |next| json!({"properties": {"a": next}}),
    |next| json!({"items": next, "additionalProperties": next}),
    |next| json!({"allOf": [{"not": {"not": {"not": {"not": next}}}}]}),
];

#[test]
fn however_a_schema_winds_it_is_refused_or_runs_out_of_nothing() {
    within_a_small_stack(|| {
        for link in LINKS {
            let mut refused = 0;
            for links in [10, 60, 100, 150, 200, 250, 300, 400, 499, 600, 2000] {
                match Schema::compile(&chain(links, link)) {
                    Ok(schema) => {
                        schema.findings(&json!({}), &Effort::of_one());
                        schema.fits(&nested(60));
                    }
                    Err(fault) => {
                        assert!(fault.message.contains("references"), "{fault:?}");
                        refused += 1;
                    }
                }
            }
            assert!((2..=9).contains(&refused), "{refused}");
        }
    });
}

#[test]
fn what_would_take_for_ever_is_not_judged() {
    let twice = |next: Value| json!({"allOf": [next.clone(), next]});
    let rest = |next: Value| json!({"allOf": [next], "unevaluatedProperties": false});
    let at_depth = json!({"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}});
    let round = json!({"$ref": "#/$defs/a", "$defs": {
        "a": {"allOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/b"}]}, "b": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}});
    let other_names = json!({"$id": "urn:x", "$ref": "#a", "$defs": {
        "a": {"$anchor": "a", "allOf": [{"$ref": "#b"}, {"$ref": "#b"}], "properties": {"a": {"$dynamicRef": "#a"}}},
        "b": {"$dynamicAnchor": "b", "anyOf": [{"$ref": "#a"}, {"$ref": "#a"}]}}});
    for (schema, instance) in [
        (chain(40, twice), json!({})),
        (chain(30, rest), json!({})),
        (at_depth, nested(60)),
        (round, json!({})),
        (other_names, nested(3)),
        (json!({"items": {"enum": (0..20_000).collect::<Vec<_>>()}}), json!(vec![1; 20_000])),
        (json!({"items": {"allOf": vec![true; 20_000]}}), json!(vec![1; 2000])),
        // Names, texts and patterns that are long, or stand for much.
        (
            json!({"items": {"required": (0..20_000).map(|i| i.to_string()).collect::<Vec<_>>()}}),
            json!(vec![json!({}); 2000]),
        ),
        (json!({"pattern": "[ab]*a[ab]{9000}c"}), json!("a".repeat(250_000))),
        (json!({"patternProperties": patterns(5000)}), json!({"a".repeat(25_000): 1, "b".repeat(25_000): 1})),
        (
            json!({"propertyNames": {"allOf": vec![json!({"pattern": "a+b"}); 2000]}}),
            json!({"a".repeat(25_000): 1}),
        ),
        (json!({"allOf": vec![json!({"format": "email"}); 2000]}), json!("a".repeat(250_000))),
    ] {
        let schema = Schema::compile(&schema).expect("it compiles");
        assert_eq!(schema.judge(&instance, &Effort::of_one()), None);
        assert!(!schema.fits(&instance));
        let findings = schema.findings(&instance, &Effort::of_one());
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].message.contains("too long"), "{findings:?}");
    }
}

fn patterns(many: usize) -> Map<String, Value> {
    (0..many).map(|i| (format!("^a+{i}$"), json!(true))).collect()
}

#[test]
fn many_judgements_pay_from_one_purse_and_cheap_ones_are_free() {
    let schema = Schema::compile(&json!({"items": {"allOf": [true, true, true]}})).expect("it compiles");
    let [large, middle, small] = [100_000, 1000, 100].map(|items| json!(vec![1; items]));
    for (effort, times) in [(Effort::of_one(), 1..4), (Effort::of_reply(), 10..17)] {
        let judged = (0..100).filter(|_| schema.judge(&large, &effort).is_some()).count();
        assert!(times.contains(&judged), "{judged}");
        assert_eq!(schema.judge(&middle, &effort), None, "little is left");
        assert_eq!(schema.judge(&small, &effort), Some(true));
    }
}

#[test]
fn references_are_short() {
    let named = |length: usize| {
        let name = "a".repeat(length);
        json!({"items": {"$ref": format!("#/$defs/{name}")}, "$defs": {name: {"type": "integer"}}})
    };
    let schema = Schema::compile(&named(1000)).expect("it compiles");
    assert!(schema.fits(&json!([1])) && !schema.fits(&json!(["1"])));
    let fault = Schema::compile(&named(1100)).expect_err("too long");
    assert!(fault.message.contains("reference"), "{fault:?}");
}

#[test]
fn patterns_cost_what_they_stand_for() {
    let steps = |pattern: &str, text: &str| {
        let states = patterns::states(&json!({"pattern": pattern}));
        patterns::steps(states.get(pattern), text)
    };
    let text = "a".repeat(12_800);
    assert_eq!(steps("^abc$", &text), 500);
    assert_eq!(steps("(?:ab){100}", &text), 20_000);
    assert_eq!(steps("(?:[ab]{100}){100}", &text), 1_000_000);
    assert_eq!(steps("a{1,50}|b{10,}", &text), 6_100);
    assert_eq!(steps("[\\p{L}]", &text), 400);
    // What is read otherwise here may be anything.
    assert_eq!(steps("(?=a)", &text), 2_000_000);
    assert_eq!(steps("^[A-Z]{3}-[0-9]{1,8}$", "ABC-123"), 0);
}

#[test]
fn ordinary_schemas_and_large_values_are_judged() {
    let tree = json!({"$ref": "#/$defs/node", "$defs": {"node": {"oneOf": [
        {"type": "object", "required": ["leaf"], "properties": {"leaf": {"type": "integer"}}, "additionalProperties": false},
        {"type": "object", "required": ["left", "right"], "additionalProperties": false,
         "properties": {"left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"}}}]}}});
    let leaf = json!({"leaf": 1});
    let full = (0..10).fold(leaf, |under, _| json!({"left": under.clone(), "right": under}));
    let many = json!({"type": "array", "uniqueItems": true, "items": {"type": "integer", "minimum": 0}});
    for (schema, instance) in [
        (tree, full),
        (many, json!((0..60_000).collect::<Vec<_>>())),
        (chain(90, |next| json!({"properties": {"a": next}})), nested(60)),
        (
            json!({"type": "object", "unevaluatedProperties": false, "allOf": [{"properties": {"a": true}}]}),
            json!({"a": 1}),
        ),
    ] {
        assert_eq!(
            Schema::compile(&schema).expect("it compiles").judge(&instance, &Effort::of_one()),
            Some(true)
        );
    }
    // Words, many and long, by patterns as people write them.
    let words = json!({"items": {"pattern": r"^[\w\s.,'-]{1,500}$"}});
    assert_eq!(
        Schema::compile(&words)
            .expect("it compiles")
            .judge(&json!(vec!["a word ".repeat(57); 50]), &Effort::of_one()),
        Some(true)
    );
    let one = json!({"pattern": r"^[\w ]{1,999}$"});
    assert_eq!(
        Schema::compile(&one).expect("it compiles").judge(&json!("a word ".repeat(142)), &Effort::of_one()),
        Some(true)
    );
    let long =
        (0..60).map(|i| format!("f{i}")).map(|name| (name, json!({"type": "string", "pattern": "^a+$"})));
    let wide = json!({"properties": long.collect::<Map<_, _>>()});
    assert_eq!(
        Schema::compile(&wide).expect("it compiles").judge(&json!({"f1": "aaab"}), &Effort::of_one()),
        Some(false)
    );
}

#[test]
fn what_is_left_over_is_said_a_few_times() {
    let with = |times: usize| json!({"allOf": vec![json!({"unevaluatedItems": true}); times]});
    assert!(Schema::compile(&with(MOST_LEFT_OVER)).is_ok());
    assert!(Schema::compile(&with(MOST_LEFT_OVER + 1)).is_err());
}
