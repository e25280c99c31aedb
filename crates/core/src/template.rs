//! Templates `{{input.a}}`, `{{context.a}}`, `{{secret.NAME}}`, `{{idempotency_key}}` (contract, "Templates").
//!
//! A template is what the agent's author wrote; what it is filled with is never read as one.

use std::collections::BTreeMap;

use serde_json::Value;

/// One place to fill in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slot {
    /// A field of the call's input, by path.
    Input(Vec<String>),
    /// A field of the run's context, by path.
    Context(Vec<String>),
    /// A secret of the tenant.
    Secret(String),
    /// The call's idempotency key.
    IdempotencyKey,
}

/// A parsed template: text and slots in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Slot(Slot),
}

/// Why a template can't be read or filled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Not a known name.
    #[error("{{{{{0}}}}} is not known; there are input.…, context.…, secret.NAME and idempotency_key")]
    Unknown(String),
    /// `{{` without `}}`.
    #[error("a {{{{ has no }}}}")]
    Unclosed,
    /// The field isn't there, or is no scalar.
    #[error("{0} has no value to fill in")]
    Missing(String),
}

/// What slots are filled with.
#[derive(Debug, Clone, Copy)]
pub struct Filling<'a> {
    /// The call's input.
    pub input: &'a Value,
    /// The run's context.
    pub context: &'a Value,
    /// Secrets by name; only those that the tool's templates name.
    pub secrets: &'a BTreeMap<String, String>,
    /// The call's key.
    pub idempotency_key: &'a str,
}

impl Template {
    /// Parses `text`.
    ///
    /// # Errors
    /// An unknown name or an unclosed slot.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, after) = after.split_once("}}").ok_or(TemplateError::Unclosed)?;
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::Slot(slot(name.trim())?));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self(parts))
    }

    /// The slots in their order.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.0.iter().filter_map(|part| match part {
            Part::Slot(slot) => Some(slot),
            Part::Text(_) => None,
        })
    }

    /// Names of the secrets that it needs.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.slots().filter_map(|slot| match slot {
            Slot::Secret(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The text with each slot's value passed through `encode`.
    ///
    /// # Errors
    /// A slot without a value.
    pub fn fill(&self, with: &Filling<'_>, encode: impl Fn(&str) -> String) -> Result<String, TemplateError> {
        let mut out = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Slot(slot) => out.push_str(&encode(&value_of(slot, with)?)),
            }
        }
        Ok(out)
    }
}

fn slot(name: &str) -> Result<Slot, TemplateError> {
    let path = |rest: &str| rest.split('.').map(str::to_owned).collect::<Vec<_>>();
    let sane = |rest: &str| !rest.is_empty() && rest.split('.').all(|token| !token.is_empty());
    match name.split_once('.') {
        Some(("input", rest)) if sane(rest) => Ok(Slot::Input(path(rest))),
        Some(("context", rest)) if sane(rest) => Ok(Slot::Context(path(rest))),
        Some(("secret", rest)) if sane(rest) => Ok(Slot::Secret(rest.to_owned())),
        None if name == "idempotency_key" => Ok(Slot::IdempotencyKey),
        _ => Err(TemplateError::Unknown(name.to_owned())),
    }
}

fn value_of(slot: &Slot, with: &Filling<'_>) -> Result<String, TemplateError> {
    let (value, name) = match slot {
        Slot::IdempotencyKey => return Ok(with.idempotency_key.to_owned()),
        Slot::Secret(name) => {
            return with
                .secrets
                .get(name)
                .cloned()
                .ok_or_else(|| TemplateError::Missing(format!("secret.{name}")));
        }
        Slot::Input(path) => (look_up(with.input, path), format!("input.{}", path.join("."))),
        Slot::Context(path) => (look_up(with.context, path), format!("context.{}", path.join("."))),
    };
    value.and_then(scalar).ok_or(TemplateError::Missing(name))
}

fn look_up<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, token| match value {
        Value::Object(map) => map.get(token),
        Value::Array(items) => items.get(token.parse::<usize>().ok()?),
        _ => None,
    })
}

/// A scalar as text; numbers keep their digits.
pub fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// `value` with the templates in its strings filled; a string that is just one slot takes the slot's value.
///
/// # Errors
/// A template that can't be read or filled.
pub fn fill_value(value: &Value, with: &Filling<'_>) -> Result<Value, TemplateError> {
    Ok(match value {
        Value::String(text) => {
            let template = Template::parse(text)?;
            match template.0.as_slice() {
                [Part::Slot(Slot::Input(path))] => look_up(with.input, path)
                    .cloned()
                    .ok_or_else(|| TemplateError::Missing(format!("input.{}", path.join("."))))?,
                _ => Value::String(template.fill(with, str::to_owned)?),
            }
        }
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| fill_value(item, with)).collect::<Result<_, _>>()?)
        }
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(name, item)| Ok((name.clone(), fill_value(item, with)?)))
                .collect::<Result<_, TemplateError>>()?,
        ),
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fill(text: &str) -> Result<String, TemplateError> {
        let (input, context) = (json!({"a": {"b": [7]}, "note": "{{context.user}}"}), json!({"user": "u-7"}));
        let secrets = BTreeMap::from([("shop".to_owned(), "s3cret".to_owned())]);
        let with = Filling { input: &input, context: &context, secrets: &secrets, idempotency_key: "k-1" };
        Template::parse(text)?.fill(&with, str::to_owned)
    }

    #[test]
    fn slots_are_filled_once() {
        assert_eq!(fill("o:{{context.user}}:{{ input.a.b.0 }}").as_deref(), Ok("o:u-7:7"));
        assert_eq!(fill("{{input.note}}").as_deref(), Ok("{{context.user}}"));
        assert_eq!(fill("Bearer {{secret.shop}} {{idempotency_key}}").as_deref(), Ok("Bearer s3cret k-1"));
        assert_eq!(fill("as it is }}").as_deref(), Ok("as it is }}"));
    }

    #[test]
    fn what_can_not_be_filled_says_so() {
        for text in ["{{input.x}}", "{{input.a}}", "{{secret.none}}", "{{context.user.name}}"] {
            assert!(matches!(fill(text), Err(TemplateError::Missing(_))), "{text}");
        }
        for text in ["{{env.HOME}}", "{{input}}", "{{input..a}}", "{{}}"] {
            assert!(matches!(fill(text), Err(TemplateError::Unknown(_))), "{text}");
        }
        assert_eq!(fill("{{input.a"), Err(TemplateError::Unclosed));
    }

    #[test]
    fn a_value_keeps_its_type() {
        let input = json!({"n": 5});
        let with =
            Filling { input: &input, context: &json!({}), secrets: &BTreeMap::new(), idempotency_key: "k" };
        let filled = fill_value(&json!({"key": "{{idempotency_key}}", "n": "{{input.n}}", "l": [1]}), &with);
        assert_eq!(filled, Ok(json!({"key": "k", "n": 5, "l": [1]})));
    }
}
