//! Schemas of a document as JSON Schema 2020-12. What a schema refers to goes along, under `$defs`, so that it may refer to
//! itself; what says nothing of a value (`xml`, `discriminator`, examples) is left behind.

use std::collections::BTreeMap;

use answerable_core::schema::Schema;
use serde_json::{Map, Value, json};

use super::Unmapped;
use super::document::Document;
use super::names::Names;

/// Taken as they are.
const PLAIN: [&str; 22] = [
    "type",
    "enum",
    "const",
    "default",
    "title",
    "description",
    "format",
    "multipleOf",
    "maximum",
    "minimum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxProperties",
    "minProperties",
    "minContains",
    "maxContains",
    "dependentRequired",
];
/// Hold a schema.
const ONE: [&str; 10] = [
    "not",
    "items",
    "additionalProperties",
    "contains",
    "propertyNames",
    "if",
    "then",
    "else",
    "unevaluatedProperties",
    "unevaluatedItems",
];
/// Hold a list of schemas.
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Hold schemas by name.
const MAPS: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];
/// Definitions of one input.
const MOST_DEFS: usize = 500;

/// The schemas of one input in the making.
pub(super) struct Schemas<'d> {
    document: &'d Document<'d>,
    /// Names of what was referred to, by reference.
    known: BTreeMap<String, String>,
    names: Names,
    /// Referred to, and not looked at yet.
    pending: Vec<(String, String)>,
    defs: Map<String, Value>,
    pub(super) notes: Vec<String>,
}

impl<'d> Schemas<'d> {
    pub(super) fn new(document: &'d Document<'d>) -> Self {
        Self {
            document,
            known: BTreeMap::new(),
            names: Names::default(),
            pending: Vec::new(),
            defs: Map::new(),
            notes: Vec::new(),
        }
    }

    /// A schema of the document as JSON Schema.
    pub(super) fn convert(&mut self, schema: &Value) -> Result<Value, Unmapped> {
        let Value::Object(schema) = schema else {
            return if schema.is_boolean() {
                Ok(schema.clone())
            } else {
                Err(Unmapped("one of its schemas is none".into()))
            };
        };
        let mut made = Map::new();
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            made.insert("$ref".into(), self.reference(reference)?.into());
            if self.document.has_old_schemas {
                // Beside a reference nothing counted.
                return Ok(Value::Object(made));
            }
        }
        for (name, value) in schema {
            self.keyword(name, value, &mut made)?;
        }
        leave_out_read_only(schema, &mut made);
        if !self.document.has_old_schemas {
            return Ok(Value::Object(made));
        }
        old_bounds(&mut made);
        Ok(if schema.get("nullable") == Some(&Value::Bool(true)) {
            or_null(made)
        } else {
            Value::Object(made)
        })
    }

    fn keyword(&mut self, name: &str, value: &Value, made: &mut Map<String, Value>) -> Result<(), Unmapped> {
        let converted = match (name, value) {
            _ if PLAIN.contains(&name) => value.clone(),
            // Some documents say it of a property, where it means nothing.
            ("required", Value::Array(_)) => value.clone(),
            ("pattern", Value::String(pattern)) if self.is_pattern(pattern) => value.clone(),
            // Tuples, as they were written before `prefixItems`.
            ("items", Value::Array(items)) => {
                made.insert("prefixItems".into(), self.list(items)?);
                return Ok(());
            }
            (_, Value::Array(items)) if LISTS.contains(&name) => self.list(items)?,
            (_, Value::Object(members)) if MAPS.contains(&name) => self.members(name, members)?,
            _ if ONE.contains(&name) => self.convert(value)?,
            _ => return Ok(()),
        };
        made.insert(name.to_owned(), converted);
        Ok(())
    }

    fn list(&mut self, items: &[Value]) -> Result<Value, Unmapped> {
        Ok(Value::Array(items.iter().map(|item| self.convert(item)).collect::<Result<_, _>>()?))
    }

    fn members(&mut self, keyword: &str, members: &Map<String, Value>) -> Result<Value, Unmapped> {
        let mut made = Map::new();
        for (name, schema) in members {
            if keyword != "patternProperties" || self.is_pattern(name) {
                made.insert(name.clone(), self.convert(schema)?);
            }
        }
        Ok(Value::Object(made))
    }

    /// Patterns may be of a dialect that isn't understood here (looking ahead, back references): the far side judges those.
    fn is_pattern(&mut self, pattern: &str) -> bool {
        let is_one = Schema::compile(&json!({"pattern": pattern})).is_ok();
        if !is_one {
            self.notes.push(format!("the pattern {pattern:?} is left to the far side"));
        }
        is_one
    }

    /// The reference under which what `reference` names goes along.
    fn reference(&mut self, reference: &str) -> Result<String, Unmapped> {
        self.document.find(reference)?;
        let name = match self.known.get(reference) {
            Some(name) => name.clone(),
            None => {
                if self.known.len() >= MOST_DEFS {
                    return Err(Unmapped(format!("its input has more than {MOST_DEFS} definitions")));
                }
                let name = self.names.unique(reference.rsplit('/').next().unwrap_or("root"));
                self.known.insert(reference.to_owned(), name.clone());
                self.pending.push((reference.to_owned(), name.clone()));
                name
            }
        };
        Ok(format!("#/$defs/{name}"))
    }

    /// What was referred to, and what that refers to.
    pub(super) fn defs(mut self) -> Result<(Map<String, Value>, Vec<String>), Unmapped> {
        while let Some((reference, name)) = self.pending.pop() {
            let schema = self.document.find(&reference)?;
            let converted = self.convert(schema)?;
            self.defs.insert(name, converted);
        }
        self.notes.sort_unstable();
        self.notes.dedup();
        Ok((self.defs, self.notes))
    }
}

/// What only the far side sets is no input.
fn leave_out_read_only(schema: &Map<String, Value>, made: &mut Map<String, Value>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let read_only: Vec<&String> = properties
        .into_iter()
        .flatten()
        .filter(|(_, property)| property.get("readOnly") == Some(&Value::Bool(true)))
        .map(|(name, _)| name)
        .collect();
    if read_only.is_empty() {
        return;
    }
    if let Some(Value::Object(properties)) = made.get_mut("properties") {
        properties.retain(|name, _| !read_only.contains(&name));
    }
    if let Some(Value::Array(required)) = made.get_mut("required") {
        required.retain(|name| !read_only.iter().any(|read_only| name == read_only.as_str()));
    }
}

/// `exclusiveMinimum: true` beside `minimum: 3` is `exclusiveMinimum: 3` now.
fn old_bounds(made: &mut Map<String, Value>) {
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        if let Some(Value::Bool(is_exclusive)) = made.get(exclusive).cloned() {
            made.remove(exclusive);
            if is_exclusive && let Some(value) = made.remove(bound) {
                made.insert(exclusive.into(), value);
            }
        }
    }
}

fn or_null(mut made: Map<String, Value>) -> Value {
    if let Some(Value::Array(values)) = made.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    let is_plain = !LISTS.iter().any(|list| made.contains_key(*list));
    match made.get("type").cloned() {
        Some(Value::String(kind)) if is_plain => {
            made.insert("type".into(), json!([kind, "null"]));
            Value::Object(made)
        }
        _ => json!({"anyOf": [made, {"type": "null"}]}),
    }
}
