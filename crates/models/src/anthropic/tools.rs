//! Tools on offer, in the form that the vendor takes: an object's schema, of JSON Schema 2020-12 and with
//! neither a choice nor a reference at its top.

use std::collections::BTreeSet;

use answerable_core::model::{ModelRequest, ToolOffer};
use serde_json::{Map, Value, json};

use crate::tool_schema;

/// References that are followed one after another.
const MOST_STEPS: usize = 8;

/// The tools of a request. With none on offer those that the history calls are named, for some servers refuse calls of tools
/// that the request doesn't have; `false` then: they must not be called.
pub(super) fn of_request(request: &ModelRequest) -> (Vec<Value>, bool) {
    if !request.tools.is_empty() {
        return (request.tools.iter().map(tool).collect(), true);
    }
    let calls = request.messages.iter().flat_map(|message| &message.tool_calls);
    let names: BTreeSet<&str> = calls.map(|call| call.name.as_str()).collect();
    let named = |name| json!({"name": name, "description": "Not on offer any more.", "input_schema": {"type": "object"}});
    (names.into_iter().map(named).collect(), false)
}

/// The choice among them: as `params` have it, and with at most one call a reply where the switch says so.
pub(super) fn choice(asked: Option<&Value>, may_be_called: bool, parallel: Option<bool>) -> Option<Value> {
    if !may_be_called {
        return Some(json!({"type": "none"}));
    }
    let mut choice = match asked {
        // As other vendors write it.
        Some(Value::String(word)) => json!({"type": if word == "required" { "any" } else { word }}),
        Some(asked) => asked.clone(),
        None => Value::Null,
    };
    if let Some(parallel) = parallel {
        if choice.is_null() {
            choice = json!({"type": "auto"});
        }
        if let Some(fields) =
            choice.as_object_mut().filter(|fields| fields.get("type") != Some(&"none".into()))
        {
            fields.insert("disable_parallel_tool_use".into(), (!parallel).into());
        }
    }
    (!choice.is_null()).then_some(choice)
}

fn tool(offer: &ToolOffer) -> Value {
    let (mut schema, words) = tool_schema::of(&Value::Object(top(&offer.input_schema)));
    renew(&mut schema);
    let mut tool = json!({"name": offer.name, "input_schema": schema});
    let description = tool_schema::described(&offer.description, words);
    if !description.trim().is_empty() {
        tool["description"] = description.into();
    }
    tool
}

/// The top of a schema, with what it refers to in its place.
fn top(written: &Value) -> Map<String, Value> {
    let mut schema = written.as_object().cloned().unwrap_or_default();
    schema.remove("$schema");
    for _ in 0..MOST_STEPS {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix('#'));
        let Some(target) = target.and_then(|pointer| written.pointer(pointer)?.as_object()) else { break };
        let target = target.clone();
        schema.remove("$ref");
        for (name, value) in target {
            schema.entry(name).or_insert(value);
        }
    }
    schema
}

/// Lists of items as older drafts write them, in the form of 2020-12.
fn renew(schema: &mut Value) {
    match schema {
        Value::Array(list) => list.iter_mut().for_each(renew),
        Value::Object(fields) => {
            if let Some(Value::Array(items)) = fields.get("items").cloned() {
                fields.remove("items");
                fields.insert("prefixItems".into(), items.into());
                if let Some(more) = fields.remove("additionalItems") {
                    fields.insert("items".into(), more);
                }
            }
            // What these hold is no schema.
            let below = fields
                .iter_mut()
                .filter(|(name, _)| !matches!(name.as_str(), "enum" | "const" | "default" | "examples"));
            below.for_each(|(_, below)| renew(below));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(schema: Value) -> Value {
        let offer = ToolOffer { name: "pay".into(), description: "Pays.".into(), input_schema: schema };
        tool(&offer)
    }

    #[test]
    fn schemas_as_the_vendor_takes_them() {
        let n = json!({"type": "integer"});
        for (written, wanted) in [
            (json!({}), json!({"type": "object", "properties": {}})),
            (json!(true), json!({"type": "object", "properties": {}})),
            (
                json!({"type": ["object", "null"], "properties": {"n": n}}),
                json!({"type": "object", "properties": {"n": n}}),
            ),
            (
                json!({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"pair":
                    {"items": [n, {"enum": [{"items": [1]}]}], "additionalItems": false}, "items": {"items": n}}}),
                json!({"type": "object", "properties": {"pair":
                    {"prefixItems": [n, {"enum": [{"items": [1]}]}], "items": false}, "items": {"items": n}}}),
            ),
            (
                json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"properties": {"n": n}}}}),
                json!({"type": "object", "properties": {"n": n}, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"properties": {"n": n}}}}),
            ),
        ] {
            let tool = offered(written.clone());
            assert_eq!(
                (&tool["input_schema"], &tool["description"]),
                (&wanted, &json!("Pays.")),
                "{written}"
            );
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_at_its_top_comes_to_an_end() {
        assert_eq!(offered(json!({"$ref": "#"}))["input_schema"]["type"], "object");
        let round = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}});
        assert_eq!(offered(round)["input_schema"]["type"], "object");
    }

    #[test]
    fn a_choice_at_the_top_is_told_in_words() {
        let choice = json!([{"required": ["a"]}, {"required": ["b"]}]);
        let tool = offered(json!({"oneOf": choice}));
        assert_eq!(tool["input_schema"].get("oneOf"), None);
        let words = json!({"oneOf": choice}).to_string();
        assert!(
            tool["description"]
                .as_str()
                .is_some_and(|told| told.starts_with("Pays.") && told.ends_with(&words))
        );
    }

    #[test]
    fn choices() {
        for (asked, may_be_called, parallel, wanted) in [
            (None, true, None, json!(null)),
            (None, true, Some(false), json!({"type": "auto", "disable_parallel_tool_use": true})),
            (
                Some(json!({"type": "any"})),
                true,
                Some(true),
                json!({"type": "any", "disable_parallel_tool_use": false}),
            ),
            (Some(json!({"type": "none"})), true, Some(false), json!({"type": "none"})),
            (Some(json!("required")), true, None, json!({"type": "any"})),
            (Some(json!("auto")), true, None, json!({"type": "auto"})),
            (Some(json!({"type": "any"})), false, Some(false), json!({"type": "none"})),
        ] {
            let choice = choice(asked.as_ref(), may_be_called, parallel).unwrap_or_default();
            assert_eq!(choice, wanted, "{asked:?} {may_be_called} {parallel:?}");
        }
    }
}
