//! What it costs to look for a pattern in a text. A short one may stand for a machine with thousands of states (`[ab]{9999}`),
//! which in the worst case are all looked at for each byte.

use std::collections::BTreeMap;

use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::Value;

use super::references::each_object;

/// States of a pattern that isn't understood here: about as many as one of the size that is compiled may have.
const UNKNOWN: usize = 20_000;
/// States that are looked at for a byte within one step.
const A_STEP: usize = 128;

/// By pattern, how many states it has, about.
pub(super) type States = BTreeMap<String, usize>;

/// All patterns of a schema.
pub(super) fn states(schema: &Value) -> States {
    let mut states = States::new();
    each_object(schema, &mut |map| {
        let named =
            map.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(|map| map.keys());
        let own = map.get("pattern").and_then(Value::as_str);
        for pattern in named.map(String::as_str).chain(own) {
            if !states.contains_key(pattern) {
                states.insert(pattern.to_owned(), of(pattern));
            }
        }
    });
    states
}

/// Steps of looking for a pattern with so many states in a text.
pub(super) fn steps(states: Option<&usize>, text: &str) -> usize {
    text.len().saturating_mul(*states.unwrap_or(&UNKNOWN)) / A_STEP
}

fn of(pattern: &str) -> usize {
    regex_syntax::parse(pattern).map_or(UNKNOWN, |hir| size(&hir))
}

fn size(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        // A character has up to four bytes, and while one is read one state of them is looked at.
        HirKind::Class(Class::Unicode(class)) if !class.is_ascii() => 4,
        HirKind::Class(_) => 1,
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min.saturating_add(1)).max(1);
            size(&repetition.sub).saturating_mul(times as usize)
        }
        HirKind::Capture(capture) => size(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(size).fold(0, usize::saturating_add)
        }
    }
}
