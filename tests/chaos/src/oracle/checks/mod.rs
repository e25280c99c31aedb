//! What is checked, by subject.

pub(super) mod effects;
pub(super) mod events;
pub(super) mod ledger;
pub(super) mod model;
pub(super) mod requests;
pub(super) mod runs;
pub(super) mod silence;
pub(super) mod told;

use serde_json::Value;

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}
