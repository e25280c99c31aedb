//! The schema of an answer in the part of JSON Schema that the vendor can make a model keep to. What it doesn't know of a
//! schema is told in the description beside it, and judged afterwards anyway; a schema that would come to mean something
//! else is none for it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Keywords that it knows.
const KNOWN: [&str; 11] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
    "$ref",
    "description",
    "title",
];
/// Formats that it knows.
const FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];
/// Keywords that only say more: nothing is lost with them.
const SILENT: [&str; 8] =
    ["$schema", "$id", "$comment", "default", "examples", "$defs", "definitions", "deprecated"];
/// Keywords that change what the others mean.
const OTHER: [&str; 6] = ["allOf", "not", "if", "patternProperties", "prefixItems", "unevaluatedProperties"];
/// Properties that may be left out, in all.
const MOST_OPTIONAL: usize = 24;
/// Choices between types, in all.
const MOST_CHOICES: usize = 16;
/// Levels of nesting that are looked through.
const MOST_LEVELS: usize = 32;

/// A schema being told.
#[derive(Default)]
struct Telling {
    optional: usize,
    choices: usize,
    /// References to its definitions.
    defined: BTreeSet<String>,
}

/// The schema as the vendor takes it. `None`: it has no such form.
pub(super) fn of_answer(schema: &Value) -> Option<Value> {
    if schema["type"] != "object" || is_recursive(schema) {
        return None;
    }
    let mut telling = Telling::default();
    for holder in ["$defs", "definitions"] {
        let names = schema[holder].as_object().into_iter().flat_map(Map::keys);
        telling.defined.extend(names.map(|name| format!("#/{holder}/{name}")));
    }
    let mut told = telling.tell(schema, 0)?;
    for holder in ["$defs", "definitions"] {
        let Some(parts) = schema[holder].as_object().filter(|parts| !parts.is_empty()) else { continue };
        let parts = parts.iter().map(|(name, part)| Some((name.clone(), telling.tell(part, 1)?)));
        told[holder] = Value::Object(parts.collect::<Option<_>>()?);
    }
    (telling.optional <= MOST_OPTIONAL && telling.choices <= MOST_CHOICES).then_some(told)
}

impl Telling {
    fn tell(&mut self, schema: &Value, level: usize) -> Option<Value> {
        let fields = schema.as_object().filter(|_| level <= MOST_LEVELS)?;
        if OTHER.iter().any(|name| fields.contains_key(*name)) || (level > 0 && holds_definitions(fields)) {
            return None;
        }
        if let Some(to) = fields.get("$ref") {
            let is_defined = to.as_str().is_some_and(|to| self.defined.contains(to));
            return is_defined.then(|| json!({"$ref": to}));
        }
        if let Some(branches) = fields.get("anyOf").or(fields.get("oneOf")) {
            return self.tell_choice(fields, branches, level);
        }
        let mut told = Map::new();
        for name in ["title", "description", "type", "enum", "const"] {
            told.extend(fields.get(name).map(|value| (name.to_owned(), value.clone())));
        }
        let values = fields.get("enum").and_then(Value::as_array).into_iter().flatten();
        if values.chain(fields.get("const")).any(|value| value.is_object() || value.is_array()) {
            return None;
        }
        let kinds = kinds(fields.get("type"));
        if kinds.is_empty() && !told.contains_key("enum") && !told.contains_key("const") {
            return None;
        }
        self.choices += usize::from(kinds.len() > 1);
        if kinds.contains(&"object") {
            self.tell_object(fields, &mut told, level)?;
        }
        if kinds.contains(&"array") {
            told.insert("items".into(), self.tell(fields.get("items")?, level + 1)?);
        }
        tell_the_rest(fields, &mut told);
        Some(Value::Object(told))
    }

    /// A choice, with nothing beside it that would hold for all its branches.
    fn tell_choice(&mut self, fields: &Map<String, Value>, branches: &Value, level: usize) -> Option<Value> {
        let is_alone = |name: &str| {
            matches!(name, "anyOf" | "oneOf" | "title" | "description") || SILENT.contains(&name)
        };
        if !fields.keys().all(|name| is_alone(name))
            || (fields.contains_key("anyOf") && fields.contains_key("oneOf"))
        {
            return None;
        }
        self.choices += 1;
        let branches = branches.as_array().filter(|branches| !branches.is_empty())?;
        let branches =
            branches.iter().map(|branch| self.tell(branch, level + 1)).collect::<Option<Vec<_>>>()?;
        let mut told = json!({"anyOf": branches});
        for name in ["title", "description"] {
            if let Some(words) = fields.get(name) {
                told[name] = words.clone();
            }
        }
        Some(told)
    }

    /// An object, closed: one that is left open to names that it doesn't tell has no form.
    fn tell_object(
        &mut self,
        fields: &Map<String, Value>,
        told: &mut Map<String, Value>,
        level: usize,
    ) -> Option<()> {
        let empty = Map::new();
        let properties = match fields.get("properties") {
            Some(properties) => properties.as_object()?,
            None => &empty,
        };
        let is_closed = match fields.get("additionalProperties") {
            None => !properties.is_empty(),
            Some(more) => *more == Value::Bool(false),
        };
        let required: BTreeSet<&str> = names(fields.get("required"));
        if !is_closed || required.iter().any(|name| !properties.contains_key(*name)) {
            return None;
        }
        self.optional += properties.len() - required.len();
        let parts = properties.iter().map(|(name, part)| Some((name.clone(), self.tell(part, level + 1)?)));
        told.insert("properties".into(), Value::Object(parts.collect::<Option<_>>()?));
        told.insert("required".into(), required.into_iter().collect());
        told.insert("additionalProperties".into(), false.into());
        Some(())
    }
}

/// Keywords that it doesn't know, in the description.
fn tell_the_rest(fields: &Map<String, Value>, told: &mut Map<String, Value>) {
    let mut rest = Map::new();
    for (name, value) in fields {
        let is_format = name == "format" && FORMATS.iter().any(|format| value == format);
        let is_least = name == "minItems" && (*value == json!(0) || *value == json!(1));
        if is_format || is_least {
            told.insert(name.clone(), value.clone());
        } else if !KNOWN.contains(&name.as_str()) && !SILENT.contains(&name.as_str()) {
            rest.insert(name.clone(), value.clone());
        }
    }
    if !rest.is_empty() {
        let words = told.get("description").and_then(Value::as_str).unwrap_or_default();
        let gap = if words.is_empty() { "" } else { "\n\n" };
        let words = format!("{words}{gap}It must also match {}", Value::Object(rest));
        told.insert("description".into(), words.into());
    }
}

fn kinds(kind: Option<&Value>) -> Vec<&str> {
    match kind {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn names(list: Option<&Value>) -> BTreeSet<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Definitions are looked for at the top alone.
fn holds_definitions(fields: &Map<String, Value>) -> bool {
    fields.contains_key("$defs") || fields.contains_key("definitions")
}

/// A step on the way along references.
enum Step<'s> {
    Enter(&'s str),
    Leave(&'s str),
}

/// Whether any definition leads back to itself. What a reference leads to is looked at once, however many lead there.
fn is_recursive(schema: &Value) -> bool {
    let (mut seen, mut on_way) = (BTreeSet::new(), BTreeSet::new());
    let mut steps: Vec<Step<'_>> = references(schema).into_iter().map(Step::Enter).collect();
    while let Some(step) = steps.pop() {
        match step {
            Step::Leave(to) => drop(on_way.remove(to)),
            Step::Enter(to) if on_way.contains(to) => return true,
            Step::Enter(to) if !seen.insert(to) => {}
            Step::Enter(to) => {
                on_way.insert(to);
                steps.push(Step::Leave(to));
                let target = to.strip_prefix('#').and_then(|pointer| schema.pointer(pointer));
                steps.extend(target.map(references).unwrap_or_default().into_iter().map(Step::Enter));
            }
        }
    }
    false
}

/// All references in a schema.
fn references(schema: &Value) -> Vec<&str> {
    let (mut found, mut open) = (Vec::new(), vec![schema]);
    while let Some(part) = open.pop() {
        match part {
            Value::Array(list) => open.extend(list),
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                open.extend(fields.values());
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests;
