//! Where the references within a schema lead. Found once, when it is compiled: judging follows them again and again.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::FieldError;
use crate::field_error::pointer_token;

/// How deep what references lead to may be, all of it together. Compiling goes from each into the next.
const MOST_DEPTH: usize = 1000;
/// Places that may have to be looked at to find what references mean.
const MOST_LOOKS: usize = 1_000_000;
/// Bytes of one reference.
const LONGEST: usize = 1024;

/// Keywords that refer to another schema.
pub(super) const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// By reference, all places that it may mean, as pointers from the schema's root.
pub(super) type Targets = BTreeMap<String, Vec<String>>;

/// Where all references lead.
///
/// # Errors
/// They are too many, too long, or lead through too much.
pub(super) fn targets(schema: &Value) -> Result<Targets, FieldError> {
    let mut references = Vec::new();
    each_object(schema, &mut |map| {
        references.extend(REFERENCES.iter().filter_map(|name| map.get(*name)?.as_str()));
    });
    references.sort_unstable();
    references.dedup();
    if references.is_empty() {
        return Ok(Targets::new());
    }
    if references.iter().any(|reference| reference.len() > LONGEST) {
        return Err(FieldError::new("", format!("a reference may have {LONGEST} bytes")));
    }
    let bases = Bases::of(schema);
    if references.len() * (bases.roots.len() + bases.named.len()) > MOST_LOOKS {
        return Err(FieldError::new("", "it has too many references and names"));
    }
    let targets: Targets = references
        .into_iter()
        .map(|reference| (reference.to_owned(), bases.places(schema, reference)))
        .collect();
    let mut places: Vec<&String> = targets.values().flatten().collect();
    places.sort_unstable();
    places.dedup();
    let depth: usize = places.into_iter().filter_map(|place| Some(depth(schema.pointer(place)?) + 1)).sum();
    if depth > MOST_DEPTH {
        return Err(FieldError::new("", "its references lead through too much"));
    }
    Ok(targets)
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Shows every object in a value.
pub(super) fn each_object<'s>(value: &'s Value, of: &mut impl FnMut(&'s Map<String, Value>)) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| each_object(item, of)),
        Value::Object(map) => {
            of(map);
            map.values().for_each(|item| each_object(item, of));
        }
        _ => {}
    }
}

/// What references may begin at.
struct Bases {
    /// What `#` may mean: the whole, and each part with an `$id` of its own.
    roots: Vec<String>,
    /// Parts with names.
    named: Vec<(String, String)>,
}

impl Bases {
    fn of(schema: &Value) -> Self {
        let mut bases = Self { roots: vec![String::new()], named: Vec::new() };
        bases.note(schema, &mut String::new());
        bases
    }

    /// `at`: where it stands.
    fn note(&mut self, value: &Value, at: &mut String) {
        let before = at.len();
        match value {
            Value::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    at.push_str(&format!("/{i}"));
                    self.note(item, at);
                    at.truncate(before);
                }
            }
            Value::Object(map) => {
                if !at.is_empty() && (map.contains_key("$id") || map.contains_key("id")) {
                    self.roots.push(at.clone());
                }
                for name in ["$anchor", "$dynamicAnchor", "$id", "id"] {
                    if let Some(name) = map.get(name).and_then(Value::as_str) {
                        self.named.push((name.trim_start_matches('#').to_owned(), at.clone()));
                    }
                }
                for (name, item) in map {
                    at.push('/');
                    at.push_str(&pointer_token(name));
                    self.note(item, at);
                    at.truncate(before);
                }
            }
            _ => {}
        }
    }

    /// All places that a reference may mean.
    fn places(&self, schema: &Value, reference: &str) -> Vec<String> {
        let decoded = percent_decoded(reference.trim_start_matches('#'));
        let pointed = self.roots.iter().map(|root| format!("{root}{decoded}"));
        let pointed = pointed.filter(|place| schema.pointer(place).is_some());
        let named = self.named.iter().filter(|(name, _)| *name == decoded).map(|(_, place)| place.clone());
        pointed.chain(named).collect()
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| *first == b'%');
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match byte {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
