//! Attributes: JSON as OpenTelemetry's values.

use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};
use serde_json::{Map, Number, Value};

/// All attributes in the order of their names; what is null is left out.
pub(crate) fn attributes(map: &Map<String, Value>) -> Vec<KeyValue> {
    let mut pairs: Vec<KeyValue> =
        map.iter().filter_map(|(name, value)| Some(pair(name, any(value)?))).collect();
    pairs.sort_by(|a, b| a.key.cmp(&b.key));
    pairs
}

/// One attribute.
fn pair(name: &str, value: Any) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn any(value: &Value) -> Option<Any> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(value) => Any::BoolValue(*value),
        Value::Number(number) => of_number(number),
        Value::String(text) => Any::StringValue(text.clone()),
        Value::Array(items) => Any::ArrayValue(ArrayValue {
            values: items.iter().map(|item| AnyValue { value: any(item) }).collect(),
        }),
        // No attribute of ours is an object; as text it would still be readable.
        Value::Object(_) => Any::StringValue(value.to_string()),
    })
}

/// Whole numbers are integers; one that doesn't fit keeps its digits as text.
fn of_number(number: &Number) -> Any {
    let text = number.to_string();
    if let Some(whole) = number.as_i64() {
        return Any::IntValue(whole);
    }
    let is_whole = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    match number.as_f64() {
        Some(float) if !is_whole => Any::DoubleValue(float),
        _ => Any::StringValue(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_json_has_its_value() {
        let text = |text: &str| Some(Any::StringValue(text.into()));
        for (json, expected) in [
            ("null", None),
            ("true", Some(Any::BoolValue(true))),
            ("0", Some(Any::IntValue(0))),
            ("-7", Some(Any::IntValue(-7))),
            ("9223372036854775807", Some(Any::IntValue(i64::MAX))),
            ("9223372036854775808", text("9223372036854775808")),
            ("-99999999999999999999", text("-99999999999999999999")),
            ("0.25", Some(Any::DoubleValue(0.25))),
            ("1.0", Some(Any::DoubleValue(1.0))),
            ("1e3", Some(Any::DoubleValue(1000.0))),
            ("1e999", text("1e+999")),
            (r#""ünï""#, text("ünï")),
            (r#"{"a":1.50}"#, text(r#"{"a":1.50}"#)),
        ] {
            let value: Value = serde_json::from_str(json).expect(json);
            assert_eq!(any(&value), expected, "{json}");
        }
    }

    #[test]
    fn lists_are_lists_and_names_have_an_order() {
        let json = serde_json::json!({"b": ["stop", "length"], "a": 1, "c": null});
        let pairs = attributes(json.as_object().expect("an object"));
        let items = ["stop", "length"].map(|item| AnyValue { value: Some(Any::StringValue(item.into())) });
        let list = Any::ArrayValue(ArrayValue { values: items.into() });
        assert_eq!(pairs, [pair("a", Any::IntValue(1)), pair("b", list)]);
    }
}
