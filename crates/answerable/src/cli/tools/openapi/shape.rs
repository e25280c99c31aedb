//! What a value may be, as far as its schema says: one that has no place where it is to go is found here, and not by each
//! call that fails.

use serde_json::Value;

use super::Unmapped;
use super::document::Document;

/// Schemas that are looked at for one value.
const MOST_LOOKED_AT: usize = 1_000;
/// Hold schemas that say more of the same value.
const COMPOSED: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Kinds of values beside plain ones.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) object: bool,
    pub(super) list: bool,
    /// A list with objects or lists in it.
    pub(super) nested: bool,
}

/// A schema, and whether it is one of a list's items.
type Looked<'d> = (&'d Value, bool);

/// Looks at a schema and all that it is composed of.
pub(super) fn shape<'d>(document: &Document<'d>, schema: &'d Value) -> Result<Shape, Unmapped> {
    let mut shape = Shape::default();
    let mut known: Vec<Looked<'d>> = Vec::new();
    let mut pending = vec![(schema, false)];
    while let Some((schema, is_item)) = pending.pop() {
        if known.iter().any(|(other, item)| std::ptr::eq(*other, schema) && *item == is_item) {
            continue;
        }
        if known.len() >= MOST_LOOKED_AT {
            return Err(Unmapped("its schema is composed of too many".into()));
        }
        known.push((schema, is_item));
        shape.add(schema, is_item);
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            pending.push((document.find(reference)?, is_item));
        }
        let composed = COMPOSED.iter().filter_map(|word| schema.get(*word)?.as_array()).flatten();
        pending.extend(composed.map(|part| (part, is_item)));
        if !is_item {
            pending.extend(items(schema).map(|item| (item, true)));
        }
    }
    Ok(shape)
}

/// What a list's items are, all of them or one by one.
fn items(schema: &Value) -> impl Iterator<Item = &Value> {
    let named = ["items", "prefixItems"].into_iter().filter_map(|word| schema.get(word));
    named.flat_map(|items| match items {
        Value::Array(each) => each.iter().collect(),
        all => vec![all],
    })
}

impl Shape {
    fn add(&mut self, schema: &Value, is_item: bool) {
        let is = |kind: &str| match schema.get("type") {
            Some(Value::String(only)) => only == kind,
            Some(Value::Array(kinds)) => kinds.iter().any(|known| known == kind),
            _ => false,
        };
        let object = is("object") || schema.get("properties").is_some();
        if is_item {
            self.nested |= object || is("array");
        } else {
            self.object |= object;
            self.list |= is("array");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_value_may_be() {
        let (plain, object) = (Shape::default(), Shape { object: true, ..Shape::default() });
        let list = Shape { list: true, ..Shape::default() };
        let nested = Shape { nested: true, ..list };
        let root = json!({"openapi": "3.1.0", "S": {
            "text": {"type": "string"}, "thing": {"properties": {}}, "things": {"type": "array", "items": {"$ref": "#/S/thing"}},
            "circle": {"anyOf": [{"$ref": "#/S/circle"}, {"type": "string"}]},
            "tree": {"type": "array", "items": {"$ref": "#/S/tree"}}}});
        let document = Document::new(&root).expect("a document");
        for (schema, wanted) in [
            (json!({}), plain),
            (json!(true), plain),
            (json!({"type": ["string", "null"]}), plain),
            (json!({"$ref": "#/S/text"}), plain),
            (json!({"$ref": "#/S/circle"}), plain),
            (json!({"type": ["string", "object"]}), object),
            (json!({"$ref": "#/S/thing"}), object),
            (json!({"anyOf": [{"type": "string"}, {"type": "object"}]}), object),
            (json!({"oneOf": [{"type": "string"}, {"allOf": [{"$ref": "#/S/thing"}]}]}), object),
            (json!({"type": "array"}), list),
            (json!({"type": "array", "items": {"$ref": "#/S/text"}}), list),
            (json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}), list),
            (json!({"$ref": "#/S/things"}), nested),
            (json!({"$ref": "#/S/tree"}), nested),
            (json!({"type": "array", "prefixItems": [{}, {"type": "array"}]}), nested),
            (json!({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "object"}]}}), nested),
        ] {
            assert_eq!(shape(&document, &schema), Ok(wanted), "{schema}");
        }
        let (away, nowhere) = (json!({"$ref": "other.yaml"}), json!({"allOf": [{"$ref": "#/S/none"}]}));
        for schema in [&away, &nowhere] {
            assert!(shape(&document, schema).is_err(), "{schema}");
        }
        let wide = json!({"anyOf": vec![json!({"type": "string"}); MOST_LOOKED_AT]});
        assert!(shape(&document, &wide).is_err());
    }
}
