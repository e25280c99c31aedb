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
                        schema.findings(&json!({}));
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
    ] {
        let schema = Schema::compile(&schema).expect("it compiles");
        assert_eq!(schema.judge(&instance), None);
        assert!(!schema.fits(&instance));
        let findings = schema.findings(&instance);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].message.contains("too long"), "{findings:?}");
    }
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
        assert_eq!(Schema::compile(&schema).expect("it compiles").judge(&instance), Some(true));
    }
    let long =
        (0..60).map(|i| format!("f{i}")).map(|name| (name, json!({"type": "string", "pattern": "^a+$"})));
    let wide = json!({"properties": long.collect::<Map<_, _>>()});
    assert_eq!(Schema::compile(&wide).expect("it compiles").judge(&json!({"f1": "aaab"})), Some(false));
}

#[test]
fn what_is_left_over_is_said_a_few_times() {
    let with = |times: usize| json!({"allOf": vec![json!({"unevaluatedItems": true}); times]});
    assert!(Schema::compile(&with(MOST_LEFT_OVER)).is_ok());
    assert!(Schema::compile(&with(MOST_LEFT_OVER + 1)).is_err());
}
