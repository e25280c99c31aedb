//! Validators for the schemas of the document.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use jsonschema::{Draft, Validator};
use serde_json::{Value, json};

use crate::lock::locked;

/// The longest list of faults that is worth reading.
const MOST_FAULTS: usize = 20;

/// Validators by the JSON Pointer of their schema.
pub(crate) struct Schemas {
    components: Value,
    built: Mutex<HashMap<String, Arc<Validator>>>,
}

impl fmt::Debug for Schemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schemas").finish_non_exhaustive()
    }
}

impl Schemas {
    pub(crate) fn new(root: &Value) -> Self {
        Self { components: root["components"].clone(), built: Mutex::default() }
    }

    /// Everything that is wrong with `value` by the schema that stands at `pointer`.
    pub(crate) fn faults(&self, pointer: &str, schema: &Value, value: &Value) -> Vec<String> {
        let validator = match self.validator(pointer, schema) {
            Ok(validator) => validator,
            Err(fault) => return vec![fault],
        };
        let faults = validator.iter_errors(value);
        faults
            .take(MOST_FAULTS)
            .map(|fault| format!("{}: {fault}", at(fault.instance_path().as_str())))
            .collect()
    }

    /// The validator of a schema; also how a test sees that the schema can be built.
    pub(crate) fn validator(&self, pointer: &str, schema: &Value) -> Result<Arc<Validator>, String> {
        if let Some(known) = locked(&self.built).get(pointer) {
            return Ok(Arc::clone(known));
        }
        // References are into `#/components/…`, so the components must stand beside the schema.
        let whole = json!({"allOf": [schema], "components": self.components});
        let options = jsonschema::options().with_draft(Draft::Draft202012).should_validate_formats(true);
        let built =
            options.build(&whole).map_err(|fault| format!("the schema at {pointer} is none: {fault}"))?;
        let built = Arc::new(built);
        locked(&self.built).insert(pointer.to_owned(), Arc::clone(&built));
        Ok(built)
    }
}

fn at(pointer: &str) -> &str {
    if pointer.is_empty() { "/" } else { pointer }
}
