//! Entries of the record of who did what, as they were hashed.

use answerable_core::audit::Entry;
use serde::{Serialize, Serializer};

/// An entry.
pub(crate) struct AuditEntry(Entry);

impl From<Entry> for AuditEntry {
    fn from(entry: Entry) -> Self {
        Self(entry)
    }
}

impl Serialize for AuditEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.to_json().serialize(serializer)
    }
}
