//! Parameters of a tool as providers take them: an object at the top, without a choice between several. What must be left
//! out is said in words; the call is judged by the whole schema anyway.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Keywords that providers refuse at the top.
const REFUSED: [&str; 6] = ["oneOf", "anyOf", "allOf", "enum", "const", "not"];

/// A tool's parameters, and in words what they can't say of its schema.
pub(crate) fn of(schema: &Value) -> (Value, Option<String>) {
    let mut top = schema.as_object().cloned().unwrap_or_default();
    top.insert("type".into(), "object".into());
    let left_out: Map<String, Value> =
        REFUSED.iter().filter_map(|name| Some(((*name).to_owned(), top.remove(*name)?))).collect();
    let mut properties = taken(&mut top, "properties", Value::as_object);
    let tells_required = top.contains_key("required");
    let mut required = taken(&mut top, "required", Value::as_array);
    for name in ["allOf", "anyOf", "oneOf"] {
        let choices = left_out.get(name).and_then(Value::as_array).into_iter().flatten();
        for choice in choices.map(|choice| resolved(schema, choice)) {
            for (name, property) in choice["properties"].as_object().into_iter().flatten() {
                add(&mut properties, name, property);
            }
            if name == "allOf" {
                required.extend(choice["required"].as_array().into_iter().flatten().cloned());
            }
        }
    }
    let mut seen = BTreeSet::new();
    required.retain(|name| name.as_str().is_some_and(|name| seen.insert(name.to_owned())));
    top.insert("properties".into(), properties.into());
    if tells_required || !required.is_empty() {
        top.insert("required".into(), required.into());
    }
    let words = |left_out| format!("The input must also match this JSON Schema: {}", Value::Object(left_out));
    (Value::Object(top), (!left_out.is_empty()).then(|| words(left_out)))
}

/// A tool's description, with what its parameters can't say.
pub(crate) fn described(description: &str, words: Option<String>) -> String {
    match words {
        Some(words) if description.trim().is_empty() => words,
        Some(words) => format!("{description}\n\n{words}"),
        None => description.to_owned(),
    }
}

/// A member that is taken out, or the empty one of its kind.
fn taken<T: Clone + Default>(
    schema: &mut Map<String, Value>,
    name: &str,
    read: impl Fn(&Value) -> Option<&T>,
) -> T {
    schema.remove(name).as_ref().and_then(read).cloned().unwrap_or_default()
}

/// The schema that a reference within `root` means; others are themselves.
fn resolved<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let pointer = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    pointer.and_then(|pointer| root.pointer(pointer)).unwrap_or(schema)
}

/// Several choices may name one property: then it is any of what they say.
fn add(properties: &mut Map<String, Value>, name: &str, property: &Value) {
    let Some(known) = properties.get_mut(name) else {
        properties.insert(name.to_owned(), property.clone());
        return;
    };
    if known == property {
        return;
    }
    match known.get_mut("anyOf").and_then(Value::as_array_mut) {
        Some(choices) if choices.contains(property) => {}
        Some(choices) => choices.push(property.clone()),
        None => *known = json!({"anyOf": [known.take(), property]}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_an_object_without_choices() {
        let text = json!({"type": "string"});
        let number = json!({"type": "integer"});
        for (schema, wanted) in [
            (json!({}), json!({"type": "object", "properties": {}})),
            (json!(true), json!({"type": "object", "properties": {}})),
            (
                json!({"type": ["object", "null"], "required": []}),
                json!({"type": "object", "properties": {}, "required": []}),
            ),
            (
                json!({"$schema": "x", "properties": {"a": {"oneOf": [text, number]}}, "required": ["a"]}),
                json!({"$schema": "x", "type": "object", "properties": {"a": {"oneOf": [text, number]}},
                    "required": ["a"]}),
            ),
            (
                json!({"oneOf": [{"properties": {"a": text, "b": text}, "required": ["a"]},
                    {"properties": {"a": number}}, {"$ref": "#/$defs/c"}], "$defs": {"c": {"properties": {"c": text}}}}),
                json!({"type": "object", "$defs": {"c": {"properties": {"c": text}}},
                    "properties": {"a": {"anyOf": [text, number]}, "b": text, "c": text}}),
            ),
            (
                json!({"type": "object", "properties": {"a": text}, "required": ["a"],
                    "allOf": [{"required": ["a", "b"], "properties": {"b": text}}, {"$ref": "#/nowhere"}]}),
                json!({"type": "object", "properties": {"a": text, "b": text}, "required": ["a", "b"]}),
            ),
        ] {
            let (parameters, words) = of(&schema);
            assert_eq!(parameters, wanted, "{schema}");
            let is_told = REFUSED.iter().any(|name| schema.get(*name).is_some());
            assert_eq!(words.is_some(), is_told, "{schema}");
        }
    }

    #[test]
    fn what_is_left_out_is_said_in_words() {
        let (_, words) = of(&json!({"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "not": {}}));
        let told = r#"The input must also match this JSON Schema: {"anyOf":[{"required":["a"]},{"required":["b"]}],"not":{}}"#;
        assert_eq!(described("Pays.", words.clone()), format!("Pays.\n\n{told}"));
        assert_eq!(described(" ", words), told);
        assert_eq!(described("Pays.", None), "Pays.");
    }
}
