//! Keys: how they are written, and what is known of them for some seconds.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use answerable_core::id::KeyId;
use answerable_store::{KeyFacts, Signals};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use moka::future::Cache;
use secrecy::SecretString;
use sha2::{Digest, Sha256};
use tokio::sync::broadcast;
use uuid::Uuid;

use crate::problem::Problem;
use crate::state::AppState;

/// What is known of a key is believed for so long, even if its change was never heard of.
const BELIEVED: Duration = Duration::from_secs(5);
/// `last_used_at` is written at most so often.
const TOUCHED: Duration = Duration::from_secs(60);
/// Keys that are remembered.
const REMEMBERED: u64 = 20_000;

/// What is known of keys, for some seconds.
pub(crate) struct KeyRing {
    facts: Cache<Uuid, Option<Arc<KeyFacts>>>,
    touched: Cache<Uuid, ()>,
    changes: Mutex<broadcast::Receiver<()>>,
}

impl KeyRing {
    /// An empty one, which hears of changes.
    pub(crate) fn new(signals: &Signals) -> Self {
        Self {
            facts: Cache::builder().max_capacity(REMEMBERED).time_to_live(BELIEVED).build(),
            touched: Cache::builder().max_capacity(REMEMBERED).time_to_live(TOUCHED).build(),
            changes: Mutex::new(signals.keys()),
        }
    }

    /// Forgets everything if a key or a tenant has changed.
    fn hear_changes(&self) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = false;
        while matches!(changes.try_recv(), Ok(()) | Err(broadcast::error::TryRecvError::Lagged(_))) {
            changed = true;
        }
        if changed {
            self.facts.invalidate_all();
        }
    }

    /// What is known of a key.
    pub(crate) async fn find(
        &self,
        state: &AppState,
        key_id: Uuid,
    ) -> Result<Option<Arc<KeyFacts>>, Problem> {
        self.hear_changes();
        if let Some(known) = self.facts.get(&key_id).await {
            return Ok(known);
        }
        let found = state.store.system().await?.key_find(KeyId(key_id)).await?.map(Arc::new);
        self.facts.insert(key_id, found.clone()).await;
        Ok(found)
    }

    /// Notes in the background that a key was used.
    pub(crate) async fn touch(&self, state: &AppState, facts: &KeyFacts) {
        let key_id = facts.key_id;
        if self.touched.contains_key(&key_id.0) {
            return;
        }
        self.touched.insert(key_id.0, ()).await;
        let store = state.store.clone();
        tokio::spawn(async move {
            let noted = async {
                let mut tx = store.system().await?;
                tx.key_touch(key_id).await?;
                tx.commit().await
            };
            if let Err(error) = noted.await {
                tracing::debug!(%error, "the use of a key was not noted");
            }
        });
    }
}

/// A new key: its text, and what is stored of it.
pub(crate) fn make_key(key_id: KeyId) -> Result<(SecretString, [u8; 32]), Problem> {
    let mut secret = [0_u8; 32];
    getrandom::fill(&mut secret).map_err(|error| Problem::internal(error.to_string()))?;
    let text = format!("ans_{}_{}", key_id.0.simple(), URL_SAFE_NO_PAD.encode(secret));
    Ok((text.into(), hash(&secret)))
}

fn hash(secret: &[u8; 32]) -> [u8; 32] {
    Sha256::digest(secret).into()
}

/// Id and hashed secret of a key's text.
pub(crate) fn parse_key(text: &str) -> Option<(Uuid, [u8; 32])> {
    let (id, secret) = text.strip_prefix("ans_")?.split_once('_')?;
    if id.len() != 32 || secret.len() != 43 || id.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let secret: [u8; 32] = URL_SAFE_NO_PAD.decode(secret).ok()?.try_into().ok()?;
    Some((Uuid::try_parse(id).ok()?, hash(&secret)))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_made() {
        let id = KeyId(Uuid::from_u128(0xabc));
        let (text, stored) = make_key(id).expect("a key");
        assert_eq!(parse_key(text.expose_secret()), Some((id.0, stored)));
        assert_eq!(text.expose_secret().len(), 4 + 32 + 1 + 43);
        for wrong in ["", "ans_", "ans__", "key", &"k".repeat(5000), &format!("{}=", text.expose_secret())] {
            assert_eq!(parse_key(wrong), None, "{wrong}");
        }
    }
}
