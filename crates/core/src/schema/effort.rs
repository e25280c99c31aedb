//! What a schema may cost whoever judges by it. A small one can say "twice this, and that is twice the next", and keep a judge
//! busy for years, or lead it through so many references that it runs out of stack. So schemas that wind too much are refused,
//! and before an instance is judged, the steps that it takes are counted as far as they are allowed.

mod patterns;
mod references;

use std::cell::Cell;

use serde_json::{Map, Value};

use self::patterns::States;
use self::references::{REFERENCES, Targets, each_object};
use crate::FieldError;

/// Steps that judging one instance by one schema may take: a tenth of a second or so.
const MOST_STEPS: u32 = 1_000_000;
/// Those that it may take whatever was spent before: who is cheap is judged, however dear others were.
const FEW_STEPS: u32 = 1000;
/// Those of one judgement, of whatever it is made. No schema gets more than half of what is left.
const MOST_OF_ONE: u32 = 2 * MOST_STEPS;
/// Those of a whole reply of a model, of all its calls.
const MOST_OF_A_REPLY: u32 = 8 * MOST_STEPS;
/// Schemas that may be open at a time, each within the one before.
const MOST_OPEN: u32 = 400;
/// Places that say what is left over, `unevaluated…`: each has what stands beside it judged again.
const MOST_LEFT_OVER: usize = 32;
/// So many times more.
const AGAIN: usize = 2;
/// Bytes of a text that are looked at within one step.
const A_STEP: usize = 64;

/// Keywords that hold one schema, or several, for the same instance.
const SAME: [&str; 8] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"];
const LEFT_OVER: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];

/// The steps that are left for judging by schemas. Whoever judges several times for one purpose pays from one purse: else many
/// small judgements, each of them bearable, would take for ever together.
#[derive(Debug)]
pub struct Effort {
    left: Cell<u32>,
}

impl Effort {
    /// For one call, or one document: some tenths of a second.
    pub fn of_one() -> Self {
        Self { left: Cell::new(MOST_OF_ONE) }
    }

    /// For all calls of a model's reply.
    pub fn of_reply() -> Self {
        Self { left: Cell::new(MOST_OF_A_REPLY) }
    }
}

/// What is known of a schema's cost.
#[derive(Debug)]
pub(super) struct Cost {
    targets: Targets,
    states: States,
}

impl Cost {
    /// Of this schema.
    ///
    /// # Errors
    /// Nobody could compile or judge by it safely.
    pub(super) fn of(schema: &Value) -> Result<Self, FieldError> {
        let mut left_over = 0;
        each_object(schema, &mut |map| {
            left_over += LEFT_OVER.iter().filter(|name| map.contains_key(**name)).count();
        });
        if left_over > MOST_LEFT_OVER {
            let message = format!("it says more than {MOST_LEFT_OVER} times what is left over");
            return Err(FieldError::new("", message));
        }
        Ok(Self { targets: references::targets(schema)?, states: patterns::states(schema) })
    }

    /// Whether an instance can be judged with the effort that is left; it is spent by that.
    pub(super) fn is_bearable(&self, schema: &Value, instance: &Value, effort: &Effort) -> bool {
        let may = (effort.left.get() / 2).clamp(FEW_STEPS, MOST_STEPS);
        let mut walk = Walk { cost: self, root: schema, left: may };
        let is_bearable = walk.visit(schema, instance, 0).is_some();
        let spent = if is_bearable { may - walk.left } else { may };
        effort.left.set(effort.left.get().saturating_sub(spent));
        is_bearable
    }
}

/// Counts what a judge would do that never stops early.
struct Walk<'s> {
    cost: &'s Cost,
    root: &'s Value,
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
                let places = self.cost.targets.get(target).map(Vec::as_slice).unwrap_or_default();
                places.iter().try_for_each(|place| {
                    self.spend(1 + place.len() / A_STEP)?;
                    let part = self.root.pointer(place)?;
                    self.visit(part, instance, open)
                })
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts), _) => {
                parts.iter().try_for_each(|part| self.visit(part, instance, open))
            }
            ("not" | "if" | "then" | "else", _, _) => self.visit(part, instance, open),
            ("dependentSchemas" | "dependencies", Value::Object(parts), _) => {
                parts.values().try_for_each(|part| self.visit(part, instance, open))
            }
            ("enum", Value::Array(values), _) => self.spend(values.len()),
            ("required", Value::Array(names), Value::Object(_)) => self.spend(names.len()),
            ("pattern", Value::String(pattern), Value::String(text)) => {
                self.spend(patterns::steps(self.cost.states.get(pattern), text))
            }
            ("format" | "minLength" | "maxLength", _, Value::String(text)) => self.spend(text.len() / A_STEP),
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
            ("patternProperties", Value::Object(parts)) => {
                parts.iter().try_for_each(|(pattern, part)| self.of_pattern(pattern, part, members, open))
            }
            ("additionalProperties" | "unevaluatedProperties", part) => {
                members.values().try_for_each(|member| self.visit(part, member, open))
            }
            ("propertyNames", part) => members.keys().try_for_each(|name| {
                self.spend(name.len() / A_STEP)?;
                self.visit(part, &Value::String(name.clone()), open)
            }),
            _ => Some(()),
        }
    }

    /// Names are looked at once more where something is said of what no pattern names.
    fn of_pattern(
        &mut self,
        pattern: &str,
        part: &'s Value,
        members: &Map<String, Value>,
        open: u32,
    ) -> Option<()> {
        let states = self.cost.states.get(pattern);
        members.iter().try_for_each(|(name, member)| {
            self.spend(2 * (1 + patterns::steps(states, name)))?;
            self.visit(part, member, open)
        })
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
