//! Checking a chain, from what is shown of it and nothing else.

use serde_json::Value;

use super::Head;
use crate::json::input_hash;

/// What is wrong with an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is no entry: a part that every entry has is missing or of another type.
    #[error("is no audit entry: {0} is missing or of another type")]
    NoEntry(&'static str),
    /// Others are missing before it, or it stands twice or elsewhere.
    #[error("stands where entry {wanted} must stand")]
    OtherPlace {
        /// The number that must come here.
        wanted: i64,
    },
    /// It is another's.
    #[error("belongs to another chain")]
    OtherChain,
    /// The one before isn't what it was when this one was written.
    #[error("follows on another entry than the one before it")]
    OtherBefore,
    /// It isn't what it was when it was written.
    #[error("is not what its hash is of")]
    Changed,
}

/// A chain that is being checked, entry by entry, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    head: Head,
    /// Whose it is, once there is an entry to tell.
    owner: Option<Value>,
}

impl Chain {
    /// A chain that goes on after a part of which only the end is known. That part itself is not checked.
    pub fn going_on(head: Head) -> Self {
        Self { head, owner: None }
    }

    /// The same of that owner, as entries name it in `tenant_id`.
    #[must_use]
    pub fn owned_by(self, owner: Value) -> Self {
        Self { owner: Some(owner), ..self }
    }

    /// The last entry so far.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Takes the next entry, as it is shown.
    ///
    /// # Errors
    /// It can't be the next.
    pub fn check(&mut self, shown: &Value) -> Result<(), Fault> {
        let mut entry = shown.as_object().cloned().ok_or(Fault::NoEntry("an object"))?;
        let hash = match entry.remove("hash") {
            Some(Value::String(hash)) => hash,
            _ => return Err(Fault::NoEntry("hash")),
        };
        let seq = entry.get("seq").and_then(Value::as_i64).ok_or(Fault::NoEntry("seq"))?;
        let owner = entry.get("tenant_id").cloned().ok_or(Fault::NoEntry("tenant_id"))?;
        let before = entry.get("prev_hash").ok_or(Fault::NoEntry("prev_hash"))?;
        if seq != self.head.seq + 1 {
            return Err(Fault::OtherPlace { wanted: self.head.seq + 1 });
        }
        if self.owner.as_ref().is_some_and(|known| *known != owner) {
            return Err(Fault::OtherChain);
        }
        if before.as_str() != self.head.hash.as_deref() || !(before.is_string() || before.is_null()) {
            return Err(Fault::OtherBefore);
        }
        if input_hash(&Value::Object(entry)) != hash {
            return Err(Fault::Changed);
        }
        self.head = Head { seq, hash: Some(hash) };
        self.owner = Some(owner);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
