//! Fields of an object, read strictly.

use serde_json::{Map, Value};

use crate::field_error::{FieldError, pointer_token};

/// A field that is not there.
pub(super) fn needed(name: &str) -> FieldError {
    FieldError::new(format!("/{name}"), "this field is needed")
}

/// The fields of an object, all of which are known.
pub(super) struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    pub(super) fn of(value: &'a Value, known: &[&str]) -> Result<Self, FieldError> {
        let Value::Object(map) = value else { return Err(FieldError::new("", "must be an object")) };
        match map.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => {
                Err(FieldError::new(format!("/{}", pointer_token(name)), "this field is not known here"))
            }
            None => Ok(Self(map)),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name)
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, FieldError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(FieldError::new(format!("/{name}"), "must be a text")),
        }
    }
}
