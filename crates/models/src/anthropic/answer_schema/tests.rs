//! Which schemas have a form, and which.

use super::*;

fn object(properties: Value, required: Value) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

#[test]
fn schemas_with_a_form() {
    let string = json!({"type": "string"});
    for (written, wanted) in [
        (object(json!({"a": string}), json!(["a"])), object(json!({"a": string}), json!(["a"]))),
        (
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": {"a": string}}),
            object(json!({"a": string}), json!([])),
        ),
        (
            json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "default": 3},
                "at": {"type": "string", "format": "date", "description": "Day."}, "x": {"type": "string", "format": "odd", "description": "X."}}}),
            object(
                json!({"n": {"type": "integer", "description": "It must also match {\"minimum\":1}"},
                "at": {"type": "string", "format": "date", "description": "Day."},
                "x": {"type": "string", "description": "X.\n\nIt must also match {\"format\":\"odd\"}"}}),
                json!([]),
            ),
        ),
        (
            object(
                json!({"l": {"type": "array", "minItems": 1, "items": {"oneOf": [string, {"type": "null"}], "title": "T"}}}),
                json!(["l"]),
            ),
            object(
                json!({"l": {"type": "array", "minItems": 1, "items": {"anyOf": [string, {"type": "null"}], "title": "T"}}}),
                json!(["l"]),
            ),
        ),
        (
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/k"}}, "$defs": {"k": {"enum": [1, "b", null]}}}),
            {
                let mut wanted = object(json!({"a": {"$ref": "#/$defs/k"}}), json!([]));
                wanted["$defs"] = json!({"k": {"enum": [1, "b", null]}});
                wanted
            },
        ),
    ] {
        assert_eq!(of_answer(&written), Some(wanted), "{written}");
    }
}

#[test]
fn schemas_without_one() {
    let string = json!({"type": "string"});
    let with = |part: Value| object(json!({"a": part}), json!(["a"]));
    let mut many = Map::new();
    (0..30).for_each(|n| drop(many.insert(format!("p{n}"), string.clone())));
    for written in [
        json!({"type": "array", "items": string}),
        json!({"type": "object"}),
        json!({"type": "object", "properties": {"a": string}, "additionalProperties": true}),
        json!({"type": "object", "additionalProperties": string}),
        object(json!({"a": string}), json!(["b"])),
        object(Value::Object(many), json!([])),
        with(json!({})),
        with(json!(true)),
        with(json!({"type": "array"})),
        with(json!({"type": "array", "prefixItems": [string]})),
        with(json!({"enum": [{"a": 1}]})),
        with(json!({"allOf": [string]})),
        with(json!({"anyOf": [string], "type": "string"})),
        with(json!({"$ref": "#"})),
        with(json!({"$ref": "#/$defs/gone"})),
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}}}}),
    ] {
        assert_eq!(of_answer(&written), None, "{written}");
    }
}

#[test]
fn a_part_that_many_references_lead_to_is_looked_at_once() {
    // Each definition names the next one often, so there are more ways through them than anyone could walk.
    let to = |n: usize| json!({"$ref": format!("#/$defs/k{n}")});
    let next =
        |n: usize| object(json!({"a": to(n + 1), "b": to(n + 1), "c": to(n + 1)}), json!(["a", "b", "c"]));
    let mut parts: Map<String, Value> = (0..400).map(|n| (format!("k{n}"), next(n))).collect();
    parts.insert("k400".into(), json!({"type": "string"}));
    let mut written = object(json!({"a": to(0)}), json!(["a"]));
    written["$defs"] = parts.into();
    assert_eq!(of_answer(&written).as_ref(), Some(&written));
    written["$defs"]["k400"] = object(json!({"a": to(7)}), json!(["a"]));
    assert_eq!(of_answer(&written), None, "the last one leads back");
}
