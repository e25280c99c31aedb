//! YAML, read strictly and written for people.

use serde_json::{Map, Number, Value};

/// Deepest nesting that is read.
const DEEPEST: usize = 64;

/// Reads one YAML document as JSON.
///
/// # Errors
/// What is no YAML, with its line; a key that stands twice or is no text; a tag.
pub(crate) fn to_json(text: &str) -> Result<Value, String> {
    let document: serde_yaml_ng::Value = serde_yaml_ng::from_str(text).map_err(|fault| fault.to_string())?;
    json(document, DEEPEST)
}

fn json(value: serde_yaml_ng::Value, depth: usize) -> Result<Value, String> {
    use serde_yaml_ng::Value as Yaml;
    let depth = depth.checked_sub(1).ok_or("it is nested too deeply")?;
    Ok(match value {
        Yaml::Null => Value::Null,
        Yaml::Bool(is) => Value::Bool(is),
        Yaml::Number(number) => Value::Number(count(&number)?),
        Yaml::String(text) => Value::String(text),
        Yaml::Sequence(items) => items.into_iter().map(|item| json(item, depth)).collect::<Result<_, _>>()?,
        Yaml::Mapping(map) => {
            let entries = map.into_iter().map(|(key, item)| match key {
                Yaml::String(key) => Ok((key, json(item, depth)?)),
                other => Err(format!("the key {} is no text: put it in quotes", plain(&other))),
            });
            Value::Object(entries.collect::<Result<Map<_, _>, String>>()?)
        }
        Yaml::Tagged(tagged) => return Err(format!("the tag {} means nothing here", tagged.tag)),
    })
}

fn plain(key: &serde_yaml_ng::Value) -> String {
    serde_yaml_ng::to_string(key).unwrap_or_default().trim().to_owned()
}

fn count(number: &serde_yaml_ng::Number) -> Result<Number, String> {
    let whole = number.as_u64().map(Number::from).or(number.as_i64().map(Number::from));
    let any = whole.or_else(|| number.as_f64().and_then(Number::from_f64));
    any.ok_or_else(|| format!("{number} is no number that JSON knows"))
}

/// The order in which people expect keys; others follow by the alphabet.
const ORDER: [&str; 32] = [
    "name",
    "description",
    "tool",
    "tool_name",
    "status",
    "stop_reason",
    "answer",
    "instructions",
    "provider",
    "model",
    "tools",
    "side_effect",
    "risk",
    "effect",
    "text",
    "final",
    "http",
    "tool_calls",
    "input",
    "arguments",
    "outcome",
    "content",
    "body",
    "error_code",
    "reason",
    "as",
    "input_schema",
    "called",
    "denied",
    "ledger",
    "min",
    "max",
];

/// A document: notes as comments, then these keys in this order.
///
/// # Errors
/// A number that YAML does not keep.
pub(crate) fn document(notes: &[&str], entries: &[(&str, Value)]) -> Result<String, String> {
    let mut text: String = notes.iter().map(|note| format!("# {note}\n")).collect();
    for (key, value) in entries {
        let entry = serde_yaml_ng::Mapping::from_iter([(serde_yaml_ng::Value::from(*key), yaml(value)?)]);
        text.push_str(&serde_yaml_ng::to_string(&entry).map_err(|fault| fault.to_string())?);
    }
    Ok(text)
}

fn yaml(value: &Value) -> Result<serde_yaml_ng::Value, String> {
    use serde_yaml_ng::Value as Yaml;
    Ok(match value {
        Value::Null => Yaml::Null,
        Value::Bool(is) => Yaml::Bool(*is),
        Value::Number(number) => Yaml::Number(kept(number)?),
        Value::String(text) => Yaml::String(text.clone()),
        Value::Array(items) => Yaml::Sequence(items.iter().map(yaml).collect::<Result<_, _>>()?),
        Value::Object(map) => {
            let place = |key: &str| ORDER.iter().position(|known| *known == key).unwrap_or(ORDER.len());
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_by_key(|key| (place(key), *key));
            let entries = keys.into_iter().map(|key| Ok((Yaml::from(key.as_str()), yaml(&map[key])?)));
            Yaml::Mapping(entries.collect::<Result<_, String>>()?)
        }
    })
}

/// A number, if it comes back with the same digits.
fn kept(number: &Number) -> Result<serde_yaml_ng::Number, String> {
    let whole = number.as_u64().map(serde_yaml_ng::Number::from).or(number.as_i64().map(Into::into));
    let any = whole.or_else(|| number.as_f64().map(Into::into));
    any.filter(|any| count(any).is_ok_and(|again| again == *number))
        .ok_or_else(|| format!("YAML does not keep the digits of {number}: write JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_is_read_again() {
        let input = json!({"text": "a\nb: #c\n", "list": [1, -2, 2.5, null, true, "yes", "1", ""], "empty": {}, "none": []});
        let text = document(&["mind this"], &[("name", json!("x")), ("input", input.clone())]).expect("YAML");
        assert!(text.starts_with("# mind this\nname: x\ninput:\n"), "{text}");
        assert_eq!(to_json(&text).expect("YAML"), json!({"name": "x", "input": input}));
    }

    #[test]
    fn keys_stand_as_people_expect_them() {
        let text = document(
            &[],
            &[(
                "agent",
                json!({"tools": [{"zeal": 1, "side_effect": "none", "name": "t"}], "name": "a", "model": {}}),
            )],
        );
        assert_eq!(
            text.expect("YAML"),
            "agent:\n  name: a\n  model: {}\n  tools:\n  - name: t\n    side_effect: none\n    zeal: 1\n"
        );
    }

    #[test]
    fn digits_are_kept_or_nothing_is_written() {
        let long: Value = serde_json::from_str("[18446744073709551615]").expect("JSON");
        assert_eq!(document(&[], &[("a", long)]).expect("YAML"), "a:\n- 18446744073709551615\n");
        for text in ["123456789012345678901", "0.10", "1e400"] {
            let number: Value = serde_json::from_str(text).expect("JSON");
            let fault = document(&[], &[("a", number)]).expect_err(text);
            assert!(fault.contains("does not keep the digits"), "{text}: {fault}");
        }
    }
}
