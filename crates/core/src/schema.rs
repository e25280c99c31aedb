//! JSON Schemas from outside: compiled once, judged as written, never fetched from anywhere.

mod effort;

use std::fmt::{self, Write as _};

pub use effort::Effort;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use crate::{FieldError, text};

/// Most findings that one judgement reports; more help nobody to mend a call.
const MAX_FINDINGS: usize = 8;
/// Characters of one finding.
const LONGEST_FINDING: usize = 300;
/// Bytes that one compiled pattern may take.
const PATTERN_BYTES: usize = 1 << 20;
/// Bytes that the text of one schema may have.
pub const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    source: Value,
    cost: effort::Cost,
}

impl Schema {
    /// Compiles `schema`: JSON Schema 2020-12 unless `$schema` names another draft; `$ref` may only point within it.
    ///
    /// # Errors
    /// What is wrong, with a pointer into the schema.
    pub fn compile(schema: &Value) -> Result<Self, FieldError> {
        if !schema.is_object() && !schema.is_boolean() {
            return Err(FieldError::new("", "a JSON Schema is an object"));
        }
        if schema.to_string().len() > MAX_SCHEMA_BYTES {
            return Err(FieldError::new("", format!("the schema is larger than {MAX_SCHEMA_BYTES} bytes")));
        }
        if let Some(error) = outside_reference(schema, "") {
            return Err(error);
        }
        let cost = effort::Cost::of(schema)?;
        jsonschema::options()
            .offline()
            .should_validate_formats(true)
            .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES))
            .build(schema)
            .map(|validator| Self { validator, source: schema.clone(), cost })
            .map_err(|error| FieldError::new(error.instance_path().to_string(), short(&error)))
    }

    /// Whether `instance` fits. `None`: it would take more effort to tell than is left.
    pub fn judge(&self, instance: &Value, effort: &Effort) -> Option<bool> {
        self.cost.is_bearable(&self.source, instance, effort).then(|| self.validator.is_valid(instance))
    }

    /// Whether `instance` is known to fit.
    pub fn fits(&self, instance: &Value) -> bool {
        self.judge(instance, &Effort::of_one()) == Some(true)
    }

    /// What in `instance` doesn't fit, at most eight findings; empty if it fits.
    pub fn findings(&self, instance: &Value, effort: &Effort) -> Vec<FieldError> {
        if !self.cost.is_bearable(&self.source, instance, effort) {
            return vec![FieldError::new("", "it would take too long to judge this by the schema")];
        }
        self.validator
            .iter_errors(instance)
            .take(MAX_FINDINGS)
            .map(|error| FieldError::new(error.instance_path().to_string(), short(&error)))
            .collect()
    }
}

/// The first `$ref`, `$dynamicRef` or the like that points out of the schema itself.
fn outside_reference(schema: &Value, at: &str) -> Option<FieldError> {
    match schema {
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(i, item)| outside_reference(item, &format!("{at}/{i}")))
        }
        Value::Object(map) => map.iter().find_map(|(name, item)| {
            let here = format!("{at}/{}", crate::field_error::pointer_token(name));
            match (name.as_str(), item) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(target))
                    if !target.starts_with('#') =>
                {
                    Some(FieldError::new(here, "a reference may only point within the schema (\"#…\")"))
                }
                // Data, not schemas: a property named $ref in there is no reference.
                ("enum" | "const" | "default" | "examples", _) => None,
                _ => outside_reference(item, &here),
            }
        }),
        _ => None,
    }
}

/// An error's text without the whole instance in it, should that be long: it is written no further than it is kept.
fn short(error: &impl fmt::Display) -> String {
    let mut head = Head { text: String::new(), room: LONGEST_FINDING };
    if write!(head, "{error}").is_err() {
        head.text.push('…');
    }
    head.text
}

/// Takes the beginning of a text, then refuses more.
struct Head {
    text: String,
    /// Characters that it takes still.
    room: usize,
}

impl fmt::Write for Head {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let kept = text::head(part, self.room);
        self.text.push_str(kept);
        self.room -= text::chars(kept);
        if kept.len() < part.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_leave_the_schema_for_nowhere() {
        for target in ["https://schemas.example/money.json", "file:///etc/passwd", "other.json#/a"] {
            let error = Schema::compile(&json!({"properties": {"a": {"allOf": [{"$ref": target}]}}}))
                .expect_err(target);
            assert_eq!(error.pointer, "/properties/a/allOf/0/$ref");
        }
        assert!(Schema::compile(&json!({"$ref": "#/$defs/a", "$defs": {"a": {}}})).is_ok());
        assert!(Schema::compile(&json!({"enum": [{"$ref": "not a reference"}]})).is_ok());
    }

    #[test]
    fn findings_are_written_no_further_than_they_are_kept() {
        struct Endless;
        impl fmt::Display for Endless {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                loop {
                    f.write_str("é and ")?;
                }
            }
        }
        assert_eq!(text::chars(&short(&Endless)), LONGEST_FINDING + 1);
        assert_eq!(short(&"é".repeat(LONGEST_FINDING)), "é".repeat(LONGEST_FINDING));
        let schema = Schema::compile(&json!({"type": "object"})).expect("schema");
        let long = json!(vec!["x"; 10_000]);
        let found = schema.findings(&long, &Effort::of_one());
        assert!(found[0].message.ends_with('…') && text::chars(&found[0].message) == LONGEST_FINDING + 1);
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for schema in [json!("object"), json!({"type": "objekt"}), json!({"properties": ["a"]}), json!(5)] {
            assert!(Schema::compile(&schema).is_err(), "{schema}");
        }
    }

    #[test]
    fn nothing_is_coerced_and_findings_name_the_place() {
        let schema = Schema::compile(&json!({"properties": {"n": {"type": "integer", "maximum": 9}}}))
            .expect("schema");
        assert_eq!(schema.findings(&json!({"n": "5"}), &Effort::of_one())[0].pointer, "/n");
        assert_eq!(schema.findings(&json!({"n": 10}), &Effort::of_one()).len(), 1);
        assert!(schema.fits(&crate::json::parse(r#"{"n": 2.0}"#).expect("JSON")));
        let wide = Schema::compile(&json!({"properties": {"n": {"type": "integer"}}})).expect("schema");
        assert!(wide.fits(&crate::json::parse(r#"{"n": 1234567890123456789012}"#).expect("JSON")));
    }

    #[test]
    fn a_schema_that_refers_to_itself_comes_to_an_end() {
        let round = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}});
        for schema in [json!({"$ref": "#"}), json!({"allOf": [{"$ref": "#"}]}), round] {
            let schema = Schema::compile(&schema).expect("schema");
            assert_eq!(schema.fits(&json!({})), schema.findings(&json!({}), &Effort::of_one()).is_empty());
        }
    }

    #[test]
    fn numbers_of_any_size_are_judged() {
        for schema in [
            r#"{"type": "integer"}"#,
            r#"{"multipleOf": 0.01}"#,
            r#"{"multipleOf": 1e-400}"#,
            r#"{"multipleOf": 1e400}"#,
            r#"{"maximum": 1e999999999}"#,
            r#"{"exclusiveMinimum": -1e-999999999}"#,
            r#"{"const": 1e999999999}"#,
            r#"{"enum": [1, 1e308]}"#,
            r#"{"type": "array", "uniqueItems": true, "maxItems": 1e3}"#,
        ] {
            let Ok(schema) = Schema::compile(&crate::json::parse(schema).expect("JSON")) else { continue };
            for instance in [
                "1e999999999",
                "-1e-999999999",
                "1e400",
                "[1e999999999, 1e999999998]",
                "12345678901234567890",
            ] {
                let instance = crate::json::parse(instance).expect("JSON");
                assert_eq!(
                    schema.fits(&instance),
                    schema.findings(&instance, &Effort::of_one()).is_empty(),
                    "{instance}"
                );
            }
        }
    }

    #[test]
    fn other_drafts_are_read_as_they_are() {
        let schema = json!({"$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"both": {"items": [{"type": "integer"}, {"type": "string"}], "additionalItems": false}}});
        let schema = Schema::compile(&schema).expect("schema");
        assert!(schema.fits(&json!({"both": [1, "a"]})));
        assert!(!schema.fits(&json!({"both": [1, "a", 2]})));
    }
}
