//! Calls that nobody wants any more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use answerable_core::id::CallId;
use tokio::sync::Notify;

/// Calls that are under way, and can be called off.
#[derive(Debug, Clone, Default)]
pub(super) struct Off(Arc<Mutex<HashMap<CallId, Arc<Notify>>>>);

/// A call that is under way.
#[derive(Debug)]
pub(super) struct UnderWay {
    off: Off,
    call: CallId,
    heard: Arc<Notify>,
}

impl Off {
    pub(super) fn begin(&self, call: CallId) -> UnderWay {
        let heard = Arc::new(Notify::new());
        self.calls().insert(call, Arc::clone(&heard));
        UnderWay { off: self.clone(), call, heard }
    }

    pub(super) fn call_off(&self, call: CallId) {
        if let Some(heard) = self.calls().get(&call) {
            heard.notify_one();
        }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<CallId, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnderWay {
    /// Until it is called off.
    pub(super) async fn called_off(&self) {
        self.heard.notified().await;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut calls = self.off.calls();
        // A later attempt of the same call may have begun.
        if calls.get(&self.call).is_some_and(|heard| Arc::ptr_eq(heard, &self.heard)) {
            calls.remove(&self.call);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[tokio::test]
    async fn a_call_hears_of_itself_and_is_forgotten_with_its_end() {
        let (off, call) = (Off::default(), CallId(Uuid::from_u128(1)));
        off.call_off(call);
        let first = off.begin(call);
        let second = off.begin(call);
        drop(first);
        off.call_off(CallId(Uuid::from_u128(2)));
        off.call_off(call);
        second.called_off().await;
        drop(second);
        assert!(off.calls().is_empty());
    }
}
