//! Comparing JSON with what matters of it.

use serde_json::{Map, Value};

/// Checks of JSON values.
pub(crate) trait Fits {
    /// Fails the test unless the value fits the pattern. A mapping names the fields that matter; a list is as
    /// long as given and in order; a text `"~words"` is contained; `"*"` is anything but null. `{"$any": […]}`:
    /// each is somewhere in the list, `{"$none": …}`: nowhere, `{"$in_order": […]}`: each after the one before,
    /// `{"$len": n}`, `{"$ge": n}`, `{"$le": n}`, `{"$one_of": […]}`.
    fn fits(&self, pattern: &Value);
}

impl Fits for Value {
    #[track_caller]
    fn fits(&self, pattern: &Value) {
        if let Err(fault) = compare(self, pattern, "") {
            panic!("{fault}\n-- wanted: {pattern}\n-- found: {self:#}");
        }
    }
}

fn compare(found: &Value, pattern: &Value, at: &str) -> Result<(), String> {
    match pattern {
        Value::Object(fields) if fields.keys().any(|name| name.starts_with('$')) => {
            fields.iter().try_for_each(|(name, wanted)| special(found, name, wanted, at))
        }
        Value::Object(fields) => mapping(found, fields, at),
        Value::Array(items) => {
            let list = list(found, at)?;
            let is_as_long = list.len() == items.len();
            check(is_as_long, || format!("{at}: {} items, not {}", list.len(), items.len()))?;
            let mut pairs = list.iter().zip(items).enumerate();
            pairs.try_for_each(|(n, (found, wanted))| compare(found, wanted, &format!("{at}/{n}")))
        }
        Value::String(text) if text == "*" => check(!found.is_null(), || format!("{at} is null")),
        Value::String(text) if text.starts_with('~') => {
            let has_it = found.as_str().is_some_and(|found| found.contains(&text[1..]));
            check(has_it, || format!("{at} is {found}, without {:?}", &text[1..]))
        }
        wanted => check(found == wanted, || format!("{at} is {found}, not {wanted}")),
    }
}

fn mapping(found: &Value, fields: &Map<String, Value>, at: &str) -> Result<(), String> {
    check(found.is_object(), || format!("{at} is {found}, no object"))?;
    fields.iter().try_for_each(|(name, wanted)| {
        let found = found.get(name).ok_or_else(|| format!("{at}/{name} is not there"))?;
        compare(found, wanted, &format!("{at}/{name}"))
    })
}

fn special(found: &Value, name: &str, wanted: &Value, at: &str) -> Result<(), String> {
    let patterns = || wanted.as_array().into_iter().flatten();
    let fits = |found: &Value, pattern: &Value| compare(found, pattern, at).is_ok();
    let number = |holds: fn(i64, i64) -> bool| {
        let holds = found.as_i64().zip(wanted.as_i64()).is_some_and(|(found, wanted)| holds(found, wanted));
        check(holds, || format!("{at} is {found}, not {name} {wanted}"))
    };
    match name {
        "$any" => {
            let list = list(found, at)?;
            let missing = patterns().find(|pattern| !list.iter().any(|found| fits(found, pattern)));
            missing.map_or(Ok(()), |pattern| Err(format!("{at} has no {pattern}")))
        }
        "$none" => {
            let one = list(found, at)?.iter().find(|found| fits(found, wanted));
            one.map_or(Ok(()), |one| Err(format!("{at} has {one}")))
        }
        "$in_order" => {
            let mut rest = list(found, at)?.iter();
            let missing = patterns().find(|pattern| !rest.any(|found| fits(found, pattern)));
            missing.map_or(Ok(()), |pattern| Err(format!("{at} has no {pattern}, or too early")))
        }
        "$len" => {
            let length = list(found, at)?.len();
            check(wanted.as_u64() == u64::try_from(length).ok(), || format!("{at} has {length} items"))
        }
        "$ge" => number(|found, wanted| found >= wanted),
        "$le" => number(|found, wanted| found <= wanted),
        "$one_of" => check(patterns().any(|pattern| fits(found, pattern)), || format!("{at} is {found}")),
        other => Err(format!("{other} is no pattern")),
    }
}

fn list<'v>(found: &'v Value, at: &str) -> Result<&'v Vec<Value>, String> {
    found.as_array().ok_or_else(|| format!("{at} is {found}, no list"))
}

fn check(holds: bool, fault: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(fault()) }
}
