//! JSON Schemas that something must fit.

use jsonschema::Validator;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Most faults that are named of one value.
const MOST_FAULTS: usize = 3;

/// A JSON Schema that can be used: 2020-12 unless it says otherwise, and nothing in it is fetched.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Schema(Value);

impl Schema {
    /// Takes a schema.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(schema: Value) -> Result<Self, String> {
        if !schema.is_object() && !schema.is_boolean() {
            return Err("a JSON Schema is an object".to_owned());
        }
        compiled(&schema)?;
        Ok(Self(schema))
    }

    /// What of `value` doesn't fit, in a few words; `None` if it fits.
    #[must_use]
    pub fn misfit(&self, value: &Value) -> Option<String> {
        let validator = match compiled(&self.0) {
            Ok(validator) => validator,
            Err(fault) => return Some(fault),
        };
        let mut faults = validator.iter_errors(value).take(MOST_FAULTS).map(|fault| {
            let at = fault.instance_path().to_string();
            if at.is_empty() { fault.to_string() } else { format!("{at}: {fault}") }
        });
        let first = faults.next()?;
        Some(faults.fold(first, |all, fault| format!("{all}; {fault}")))
    }
}

fn compiled(schema: &Value) -> Result<Validator, String> {
    let options = jsonschema::options().should_validate_formats(true);
    options.build(schema).map_err(|fault| format!("no JSON Schema: {fault}"))
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_does_not_fit_is_named_with_its_place() {
        let schema = json!({"type": "object", "required": ["id"], "properties": {"id": {"const": 7}}});
        let schema = Schema::new(schema).expect("a schema");
        assert_eq!(schema.misfit(&json!({"id": 7})), None);
        assert_eq!(schema.misfit(&json!({"id": 8})).as_deref(), Some("/id: 7 was expected"));
        assert!(schema.misfit(&json!({})).is_some_and(|fault| fault.contains("required")));
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for wrong in [json!("x"), json!({"type": "sting"}), json!({"pattern": "("})] {
            assert!(Schema::new(wrong.clone()).is_err(), "{wrong}");
        }
        let outside = json!({"$ref": "https://example.com/schema.json"});
        assert!(Schema::new(outside).is_err(), "nothing is fetched");
    }
}
