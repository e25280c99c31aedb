//! Whether the database answers: asked once at a time and believed for a moment, for anybody may ask, as often as they like.

use std::time::Duration;

use answerable_store::{Store, StoreError};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Time that the database has to answer before the server counts as not ready.
const PATIENCE: Duration = Duration::from_secs(3);
/// What was found is believed for so long.
const BELIEVED: Duration = Duration::from_millis(250);

/// What was found last.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Result<(), StoreError>)>>);

impl Readiness {
    /// What is found now.
    ///
    /// # Errors
    /// The database is away, or broken.
    pub(crate) async fn get(&self, store: &Store) -> Result<(), StoreError> {
        let mut last = self.0.lock().await;
        if let Some((at, found)) = &*last
            && at.elapsed() < BELIEVED
        {
            return found.clone();
        }
        let found = tokio::time::timeout(PATIENCE, store.check()).await;
        let found = found.unwrap_or_else(|_| Err(StoreError::Away("it does not answer in time".into())));
        *last = Some((Instant::now(), found.clone()));
        found
    }
}
