//! What a schema may cost whoever judges by it. A small one can say "twice this, and that is twice the next", and keep a judge
//! busy for years, or lead it through so many references that it runs out of stack. So schemas that wind too much are refused,
//! and before an instance is judged, the steps that it takes are counted as far as they are allowed.

use serde_json::{Map, Value};

use crate::FieldError;

/// Steps that judging one instance may take: a tenth of a second or so.
const MOST_STEPS: u32 = 1_000_000;
/// Schemas that may be open at a time, each within the one before.
const MOST_OPEN: u32 = 400;
/// How deep what references lead to may be, all of it together. Compiling goes from each into the next.
const MOST_DEPTH: usize = 1000;
/// Places that say what is left over, `unevaluated…`: each has what stands beside it judged again.
const MOST_LEFT_OVER: usize = 32;
/// So many times more.
const AGAIN: usize = 2;
/// Places that may have to be looked at to find what references mean.
const MOST_LOOKS: usize = 1_000_000;

/// Keywords that hold one schema, or several, for the same instance.
const SAME: [&str; 8] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"];
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
const LEFT_OVER: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];

/// What is wrong with a schema that nobody could compile or judge by safely.
pub(super) fn too_winding(schema: &Value) -> Option<FieldError> {
    let bases = Bases::of(schema);
    let (mut references, mut left_over) = (Vec::new(), 0);
    each_object(schema, &mut |map| {
        left_over += LEFT_OVER.iter().filter(|name| map.contains_key(**name)).count();
        references.extend(REFERENCES.iter().filter_map(|name| map.get(*name)?.as_str()));
    });
    references.sort_unstable();
    references.dedup();
    if references.len() * (bases.roots.len() + bases.named.len()) > MOST_LOOKS {
        return Some(FieldError::new("", "it has too many references and names"));
    }
    let mut targets: Vec<&Value> = references.iter().flat_map(|target| bases.places(target)).collect();
    targets.sort_by_key(|target| std::ptr::from_ref(*target));
    targets.dedup_by_key(|target| std::ptr::from_ref(*target));
    let depth: usize = targets.into_iter().map(|target| depth(target) + 1).sum();
    if depth > MOST_DEPTH {
        return Some(FieldError::new("", "its references lead through too much"));
    }
    (left_over > MOST_LEFT_OVER)
        .then(|| FieldError::new("", format!("it says more than {MOST_LEFT_OVER} times what is left over")))
}

/// Whether an instance can be judged in reasonable time.
pub(super) fn is_bearable(schema: &Value, instance: &Value) -> bool {
    Walk { bases: Bases::of(schema), left: MOST_STEPS }.visit(schema, instance, 0).is_some()
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn each_object<'s>(value: &'s Value, of: &mut impl FnMut(&'s Map<String, Value>)) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| each_object(item, of)),
        Value::Object(map) => {
            of(map);
            map.values().for_each(|item| each_object(item, of));
        }
        _ => {}
    }
}

/// Where references within a schema lead.
struct Bases<'s> {
    /// What `#` may mean: the whole, and each part with an `$id` of its own.
    roots: Vec<&'s Value>,
    /// Parts with names.
    named: Vec<(&'s str, &'s Value)>,
}

impl<'s> Bases<'s> {
    fn of(schema: &'s Value) -> Self {
        let mut bases = Self { roots: vec![schema], named: Vec::new() };
        bases.note(schema, true);
        bases
    }

    fn note(&mut self, value: &'s Value, is_root: bool) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.note(item, false)),
            Value::Object(map) => {
                if !is_root && (map.contains_key("$id") || map.contains_key("id")) {
                    self.roots.push(value);
                }
                let names = ["$anchor", "$dynamicAnchor", "$id", "id"].iter();
                let names = names.filter_map(|name| map.get(*name)?.as_str());
                self.named.extend(names.map(|name| (name.trim_start_matches('#'), value)));
                map.values().for_each(|item| self.note(item, false));
            }
            _ => {}
        }
    }

    /// All places that a reference may mean.
    fn places(&self, reference: &str) -> Vec<&'s Value> {
        let fragment = reference.trim_start_matches('#');
        let decoded = percent_decoded(fragment);
        let pointed = self.roots.iter().filter_map(|root| root.pointer(&decoded));
        let named = self.named.iter().filter(|(name, _)| *name == decoded).map(|(_, place)| *place);
        pointed.chain(named).collect()
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match hex.filter(|_| *first == b'%') {
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

/// Counts what a judge would do that never stops early.
struct Walk<'s> {
    bases: Bases<'s>,
    left: u32,
}

impl<'s> Walk<'s> {
    fn spend(&mut self, steps: usize) -> Option<()> {
        self.left = self.left.checked_sub(u32::try_from(steps).ok()?)?;
        Some(())
    }

    fn visit(&mut self, schema: &'s Value, instance: &Value, open: u32) -> Option<()> {
        self.spend(1)?;
        let Value::Object(map) = schema else { return Some(()) };
        if open > MOST_OPEN {
            return None;
        }
        let again = if LEFT_OVER.iter().any(|name| map.contains_key(*name)) { AGAIN } else { 0 };
        for (keyword, part) in map {
            self.keyword(keyword, part, instance, open + 1)?;
            if SAME.contains(&keyword.as_str()) || REFERENCES.contains(&keyword.as_str()) {
                for _ in 0..again {
                    self.keyword(keyword, part, instance, open + 1)?;
                }
            }
        }
        Some(())
    }

    fn keyword(&mut self, keyword: &str, part: &'s Value, instance: &Value, open: u32) -> Option<()> {
        self.spend(1)?;
        match (keyword, part, instance) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(target), _) => {
                self.spend(self.bases.roots.len() + self.bases.named.len())?;
                self.bases.places(target).into_iter().try_for_each(|place| self.visit(place, instance, open))
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts), _) => {
                parts.iter().try_for_each(|part| self.visit(part, instance, open))
            }
            ("not" | "if" | "then" | "else", _, _) => self.visit(part, instance, open),
            ("dependentSchemas" | "dependencies", Value::Object(parts), _) => {
                parts.values().try_for_each(|part| self.visit(part, instance, open))
            }
            ("enum", Value::Array(values), _) => self.spend(values.len()),
            ("pattern", _, Value::String(text)) => self.spend(text.len() / 64),
            (_, _, Value::Object(members)) => self.of_object(keyword, part, members, open),
            (_, _, Value::Array(items)) => self.of_array(keyword, part, items, open),
            _ => Some(()),
        }
    }

    fn of_object(
        &mut self,
        keyword: &str,
        part: &'s Value,
        members: &Map<String, Value>,
        open: u32,
    ) -> Option<()> {
        match (keyword, part) {
            ("properties", Value::Object(parts)) => {
                self.spend(parts.len())?;
                let known = parts.iter().filter_map(|(name, part)| Some((part, members.get(name)?)));
                known.into_iter().try_for_each(|(part, member)| self.visit(part, member, open))
            }
            ("patternProperties", Value::Object(parts)) => parts
                .values()
                .try_for_each(|part| members.values().try_for_each(|member| self.visit(part, member, open))),
            ("additionalProperties" | "unevaluatedProperties", part) => {
                members.values().try_for_each(|member| self.visit(part, member, open))
            }
            ("propertyNames", part) => {
                members.keys().try_for_each(|name| self.visit(part, &Value::String(name.clone()), open))
            }
            _ => Some(()),
        }
    }

    fn of_array(&mut self, keyword: &str, part: &'s Value, items: &[Value], open: u32) -> Option<()> {
        match (keyword, part) {
            ("prefixItems" | "items", Value::Array(parts)) => {
                parts.iter().zip(items).try_for_each(|(part, item)| self.visit(part, item, open))
            }
            ("items" | "additionalItems" | "unevaluatedItems" | "contains", part) => {
                items.iter().try_for_each(|item| self.visit(part, item, open))
            }
            ("uniqueItems", Value::Bool(true)) => self.spend(items.len().saturating_mul(8)),
            _ => Some(()),
        }
    }
}

#[cfg(test)]
mod tests;
