//! What a call gives its far side in query and body: the author's templates, or the input as it is.

use answerable_core::agent::HttpSpec;
use answerable_core::template::{Filling, Slot, Template, TemplateError, fill_value, scalar};
use answerable_core::tool::Attempt;
use bytes::Bytes;
use serde_json::Value;

use super::request::{invalid, unfilled};

/// Names and values of the query that is added to the address.
pub(super) fn query(http: &HttpSpec, filling: &Filling<'_>) -> Result<Vec<(String, String)>, Attempt> {
    let Some(templates) = &http.query else {
        return Ok(if http.method.is_bodiless() { scalars(filling.input) } else { Vec::new() });
    };
    let mut pairs = Vec::new();
    for (name, text) in templates {
        let values = match filled(text, filling)? {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => items,
            Some(value) => vec![value],
        };
        for value in values {
            let text =
                scalar(&value).ok_or_else(|| invalid(format!("the query value {name} is no scalar")))?;
            pairs.push((name.clone(), text));
        }
    }
    Ok(pairs)
}

/// The body; `None` where nothing is sent.
pub(super) fn body(http: &HttpSpec, filling: &Filling<'_>) -> Result<Option<Bytes>, Attempt> {
    if http.method.is_bodiless() {
        return Ok(None);
    }
    let value = match &http.body {
        None => Some(filling.input.clone()),
        Some(Value::String(text)) => filled(text, filling)?,
        Some(template) => Some(fill_value(template, filling).map_err(unfilled)?),
    };
    Ok(value.map(|value| Bytes::from(value.to_string())))
}

/// A template's value: that of the input where it is just one place, else text. `None`: the input has no such value, which
/// is left out; what the context lacks is a fault, for it may be what keeps one customer's data from another's.
fn filled(text: &str, filling: &Filling<'_>) -> Result<Option<Value>, Attempt> {
    match fill_value(&Value::from(text), filling) {
        Ok(value) => Ok(Some(value)),
        Err(TemplateError::Missing(_)) if is_of_input(text) => Ok(None),
        Err(error) => Err(unfilled(error)),
    }
}

fn is_of_input(text: &str) -> bool {
    Template::parse(text).is_ok_and(|template| template.slots().all(|slot| matches!(slot, Slot::Input(_))))
}

/// The top-level scalars of the input.
fn scalars(input: &Value) -> Vec<(String, String)> {
    let fields = input.as_object().into_iter().flatten();
    fields.filter_map(|(name, value)| Some((name.clone(), scalar(value)?))).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn with<T>(more: Value, input: &Value, what: impl Fn(&HttpSpec, &Filling<'_>) -> T) -> T {
        let mut target = json!({"url": "http://h/"});
        target.as_object_mut().expect("an object").extend(more.as_object().expect("fields").clone());
        let http: HttpSpec = serde_json::from_value(target).expect("a target");
        let (context, secrets) = (json!({"user": "u-7"}), BTreeMap::new());
        what(&http, &Filling { input, context: &context, secrets: &secrets, idempotency_key: "k-1" })
    }

    #[test]
    fn query_values() {
        let input = json!({"tags": ["a", 2], "n": 1.5, "none": null, "deep": {"a": 1}, "text": "x&y"});
        let pairs = |query: Value| {
            let found = with(json!({"query": query, "method": "PUT"}), &input, query_text);
            found.map_err(|attempt| matches!(attempt, Attempt::Refused(..)))
        };
        for (query, wanted) in [
            (json!({}), Ok("")),
            (json!({"tag": "{{input.tags}}"}), Ok("tag=a tag=2")),
            (
                json!({"q[a]": "{{input.text}}", "n": "{{input.n}}", "user": "{{context.user}}"}),
                Ok("n=1.5 q[a]=x&y user=u-7"),
            ),
            (json!({"a": "{{input.absent}}", "b": "from {{input.absent}}", "c": "{{input.none}}"}), Ok("")),
            (json!({"a": "{{input.deep.a}} {{idempotency_key}}"}), Ok("a=1 k-1")),
            (json!({"a": "{{input.deep}}"}), Err(true)),
            (json!({"a": "{{context.absent}}"}), Err(true)),
            (json!({"a": "{{input.absent}} {{context.user}}"}), Err(true)),
        ] {
            assert_eq!(pairs(query.clone()), wanted.map(str::to_owned), "{query}");
        }
        assert_eq!(with(json!({"method": "GET"}), &input, query_text).as_deref(), Ok("n=1.5 text=x&y"));
        assert_eq!(with(json!({"method": "POST"}), &input, query_text).as_deref(), Ok(""));
    }

    fn query_text(http: &HttpSpec, filling: &Filling<'_>) -> Result<String, Attempt> {
        let pairs = query(http, filling)?;
        Ok(pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn bodies() {
        let input = json!({"order": {"id": 1_234_567_890_123_456_789_u64}, "n": 1});
        let sent = |more: Value| {
            with(more, &input, |http, filling| {
                let bytes = body(http, filling).map_err(|_| ())?;
                Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
            })
        };
        for (more, wanted) in [
            (json!({"body": "{{input.order}}"}), Ok(Some(r#"{"id":1234567890123456789}"#))),
            (
                json!({"body": {"n": "{{input.n}}", "as": "{{context.user}}"}}),
                Ok(Some(r#"{"as":"u-7","n":1}"#)),
            ),
            (json!({"body": ["no. {{input.n}}"]}), Ok(Some(r#"["no. 1"]"#))),
            (json!({"body": "{{input.absent}}"}), Ok(None)),
            (json!({"body": {"a": "{{input.absent}}"}}), Err(())),
            (json!({"body": "{{context.absent}}"}), Err(())),
            (json!({"method": "GET"}), Ok(None)),
            (json!({}), Ok(Some(r#"{"n":1,"order":{"id":1234567890123456789}}"#))),
        ] {
            assert_eq!(sent(more.clone()), wanted.map(|text| text.map(str::to_owned)), "{more}");
        }
    }
}
