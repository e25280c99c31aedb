//! One question at a time about a tool's places, or about a tenant's day: whoever asks holds a connection to the database and waits there for others
//! who ask, and the many calls of one tenant's tool must not take them all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use answerable_core::id::TenantId;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// A tenant's tool; without a name, its day.
type Asked = (TenantId, String);

/// Whose turn it is to ask.
#[derive(Debug, Default)]
pub(crate) struct Lines(Mutex<HashMap<Asked, Weak<Turn<()>>>>);

impl Lines {
    /// Waits until nobody else of this process asks about the tool, and keeps it so.
    pub(crate) async fn turn(&self, tenant: TenantId, tool_name: &str) -> OwnedMutexGuard<()> {
        self.of(tenant, tool_name).lock_owned().await
    }

    fn of(&self, tenant: TenantId, tool_name: &str) -> Arc<Turn<()>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (tenant, tool_name.to_owned());
        if let Some(line) = known.get(&key).and_then(Weak::upgrade) {
            return line;
        }
        known.retain(|_, line| line.strong_count() > 0);
        let line = Arc::default();
        known.insert(key, Arc::downgrade(&line));
        line
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn one_after_another_by_tool_and_tenant() {
        let lines = Lines::default();
        let (own, other) = (TenantId(Uuid::from_u128(1)), TenantId(Uuid::from_u128(2)));
        let first = lines.turn(own, "pay").now_or_never().expect("nobody else asks");
        let mut second = Box::pin(lines.turn(own, "pay"));
        assert!((&mut second).now_or_never().is_none());
        for (tenant, tool) in [(own, "look"), (other, "pay")] {
            assert!(lines.turn(tenant, tool).now_or_never().is_some(), "{tool} of {tenant:?}");
        }
        drop(first);
        assert!((&mut second).now_or_never().is_some());
        // Nobody asks any more, and nothing is kept.
        drop(second);
        let _last = lines.turn(other, "look").now_or_never().expect("nobody else asks");
        assert_eq!(lines.0.lock().expect("no panic").len(), 1);
    }
}
