//! What the calls of the newest step are given: bodies that the state doesn't keep.

use std::collections::BTreeMap;

use serde_json::Value;

use super::record::Record;
use crate::id::CallId;

/// Inputs of the newest step's calls, after these rows.
pub fn inputs_after(inputs: &BTreeMap<CallId, Value>, records: &[Record]) -> BTreeMap<CallId, Value> {
    let mut after = inputs.clone();
    note_inputs(&mut after, records);
    after
}

/// The same, in place.
pub fn note_inputs(inputs: &mut BTreeMap<CallId, Value>, records: &[Record]) {
    for record in records {
        match record {
            Record::StepOpened { .. } => inputs.clear(),
            Record::CallOpened(row) => drop(inputs.insert(row.id, row.input.clone())),
            Record::CallEdited { call, input, .. } => drop(inputs.insert(*call, input.clone())),
            _ => {}
        }
    }
}
