//! Whether a JSON Schema is of the kind that OpenAI's strict mode takes, which the model can't fail to keep to: every object
//! lists all of its properties as required and allows no others, and only some keywords are used.

use serde_json::{Map, Value};

/// Keywords that strict mode knows.
const KNOWN: [&str; 24] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
    "$ref",
    "$defs",
    "definitions",
    "description",
    "title",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "default",
    "$schema",
];
/// Levels of nesting that it takes.
const MOST_LEVELS: usize = 10;
/// Properties in all that it takes.
const MOST_PROPERTIES: usize = 5_000;

/// Whether strict mode takes the schema: an object at its top, and as above throughout.
pub(crate) fn fits(schema: &Value) -> bool {
    let mut properties = 0;
    schema["type"] == "object"
        && schema.get("anyOf").is_none()
        && is_strict(schema, 0, &mut properties)
        && properties <= MOST_PROPERTIES
}

fn is_strict(schema: &Value, level: usize, properties: &mut usize) -> bool {
    let Value::Object(schema) = schema else { return false };
    let is_known = schema.keys().all(|name| KNOWN.contains(&name.as_str()));
    let says_something =
        ["type", "anyOf", "$ref", "enum", "const"].iter().any(|name| schema.contains_key(*name));
    let mut below = parts(schema);
    is_known
        && says_something
        && level <= MOST_LEVELS
        && is_closed(schema, properties)
        && below.all(|part| is_strict(part, level + 1, properties))
}

/// The schemas within one.
fn parts(schema: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let named =
        ["properties", "$defs", "definitions"].into_iter().filter_map(|name| schema.get(name)?.as_object());
    let listed = schema.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    named.flat_map(Map::values).chain(listed).chain(schema.get("items"))
}

/// An object allows what it names and nothing else, and all of it is required.
fn is_closed(schema: &Map<String, Value>, count: &mut usize) -> bool {
    let is_object = match schema.get("type") {
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        _ => schema.contains_key("properties"),
    };
    if !is_object {
        return true;
    }
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    *count += properties.len();
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    schema.get("additionalProperties") == Some(&Value::Bool(false))
        && properties.keys().all(|name| required.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_strict_mode_takes() {
        let closed = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        let inner = closed(json!({"n": {"type": ["integer", "null"], "minimum": 1}}), json!(["n"]));
        for schema in [
            closed(json!({}), json!([])),
            closed(json!({"a": {"type": "string", "enum": ["x"]}, "b": inner}), json!(["a", "b"])),
            closed(
                json!({"list": {"type": "array", "items": {"anyOf": [inner, {"type": "null"}]}}}),
                json!(["list"]),
            ),
            json!({"type": "object", "properties": {"self": {"$ref": "#"}}, "required": ["self"],
                "additionalProperties": false, "$defs": {"x": {"type": "string"}}}),
        ] {
            assert!(fits(&schema), "{schema}");
        }
        for schema in [
            json!({}),
            json!({"type": "object"}),
            json!({"type": "array", "items": {"type": "string"}}),
            closed(json!({"a": {"type": "string"}}), json!([])),
            closed(json!({"a": {"type": "object", "properties": {}}}), json!(["a"])),
            closed(json!({"a": {"type": "string", "minLength": 2}}), json!(["a"])),
            closed(json!({"a": {}}), json!(["a"])),
            closed(json!({"a": true}), json!(["a"])),
            closed(json!({"a": {"oneOf": [{"type": "string"}]}}), json!(["a"])),
            json!({"type": "object", "anyOf": [inner], "additionalProperties": false}),
        ] {
            assert!(!fits(&schema), "{schema}");
        }
        let mut deep = json!({"type": "string"});
        for _ in 0..20 {
            deep = closed(json!({"d": deep}), json!(["d"]));
        }
        assert!(!fits(&deep), "too deep");
    }
}
