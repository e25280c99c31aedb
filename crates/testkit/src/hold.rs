//! Answers that wait until the test lets them go.

use tokio::sync::Semaphore;

/// A gate with one passage for each release.
#[derive(Debug)]
pub(crate) struct Hold {
    passages: Semaphore,
}

impl Default for Hold {
    fn default() -> Self {
        Self { passages: Semaphore::new(0) }
    }
}

impl Hold {
    /// Waits for a release and uses it up.
    pub(crate) async fn pass(&self) {
        // The semaphore is never closed, so there is always a permit to wait for.
        if let Ok(permit) = self.passages.acquire().await {
            permit.forget();
        }
    }

    /// Lets one held answer go, now or when it comes.
    pub(crate) fn release(&self) {
        self.passages.add_permits(1);
    }
}
