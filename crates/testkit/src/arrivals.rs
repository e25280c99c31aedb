//! A count that tests can wait for.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// How long a test waits for something before it is told that it did not happen.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How many requests have come so far.
#[derive(Debug)]
pub struct Arrivals {
    count: watch::Sender<usize>,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self { count: watch::Sender::new(0) }
    }
}

impl Arrivals {
    /// Counts one more and wakes whoever waits for it.
    pub(crate) fn add(&self) {
        self.count.send_modify(|count| *count += 1);
    }

    /// The count now.
    #[must_use]
    pub fn count(&self) -> usize {
        *self.count.borrow()
    }

    /// Returns as soon as `wanted` or more have come; `what` names them in the failure.
    ///
    /// # Panics
    /// When they have not come after [`PATIENCE`].
    pub async fn reached(&self, wanted: usize, what: &str) {
        let mut count = self.count.subscribe();
        let came = timeout(PATIENCE, count.wait_for(|count| *count >= wanted)).await.is_ok();
        assert!(came, "{what}: {} of {wanted} came within {PATIENCE:?}", self.count());
    }
}
