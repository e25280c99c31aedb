//! The servers that should be up.

use std::sync::{Arc, PoisonError, RwLock};

use rand::seq::IndexedRandom;

/// A shared, changing list of base URLs (`http://127.0.0.1:PORT`). The stage writes it, the clients read it.
#[derive(Clone, Debug, Default)]
pub struct Endpoints(Arc<RwLock<Vec<String>>>);

impl Endpoints {
    /// These servers.
    #[must_use]
    pub fn of(urls: impl IntoIterator<Item = String>) -> Self {
        let endpoints = Self::default();
        endpoints.set(urls);
        endpoints
    }

    /// From now on these servers.
    pub fn set(&self, urls: impl IntoIterator<Item = String>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = urls.into_iter().collect();
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Any one; `None`: none is up.
    #[must_use]
    pub fn any(&self) -> Option<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).choose(&mut rand::rng()).cloned()
    }
}
