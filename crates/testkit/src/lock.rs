//! Locks of what is recorded.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock that outlives a test's panic: what was recorded until then is what the failure is about.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
