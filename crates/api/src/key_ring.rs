//! Keys: how they are written, and what is known of them and of tenants for some seconds.

mod lookups;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use answerable_core::id::{KeyId, TenantId};
use answerable_store::{KeyFacts, Signals, TenantFacts};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use moka::future::Cache;
use secrecy::SecretString;
use sha2::{Digest, Sha256};
use tokio::sync::broadcast;
use uuid::Uuid;

use crate::problem::Problem;
use crate::state::AppState;
pub(crate) use lookups::BELIEVED;
use lookups::{Known, Lookups};

/// That a secret was used is written at most so often.
const TOUCHED: Duration = Duration::from_secs(60);
/// Secrets of which it is remembered that it was written.
const REMEMBERED: u64 = 20_000;

/// What is known of keys and tenants, for some seconds.
pub(crate) struct KeyRing {
    keys: Lookups<KeyFacts>,
    tenants: Lookups<TenantFacts>,
    touched: Cache<[u8; 32], ()>,
    changes: Mutex<broadcast::Receiver<()>>,
    /// How often something was changed, as far as it was heard of.
    heard: AtomicU64,
}

impl KeyRing {
    /// An empty one, which hears of changes.
    pub(crate) fn new(signals: &Signals) -> Self {
        Self {
            keys: Lookups::new(),
            tenants: Lookups::new(),
            touched: Cache::builder().max_capacity(REMEMBERED).time_to_live(TOUCHED).build(),
            changes: Mutex::new(signals.keys()),
            heard: AtomicU64::new(0),
        }
    }

    /// Forgets everything if a key or a tenant has changed. How often that was.
    fn hear_changes(&self) -> u64 {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = false;
        while matches!(changes.try_recv(), Ok(()) | Err(broadcast::error::TryRecvError::Lagged(_))) {
            changed = true;
        }
        if changed {
            self.keys.forget_all();
            self.tenants.forget_all();
            self.heard.fetch_add(1, Ordering::SeqCst);
        }
        self.heard.load(Ordering::SeqCst)
    }

    /// What `judge` makes of what is known of a key, if it was not taken back. Where something believed lets somebody not in,
    /// it is looked up anew: the secret may be newer. A made-up key costs as many lookups as a wrong secret.
    pub(crate) async fn judge<T>(
        &self,
        state: &AppState,
        key_id: Uuid,
        judge: impl Fn(Option<Arc<KeyFacts>>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let known = self.find(state, key_id).await?;
        let is_new = known.is_new;
        match judge(known.found) {
            Err(_) if !is_new && self.keys.doubt(key_id).await => {
                judge(self.find(state, key_id).await?.found)
            }
            judged => judged,
        }
    }

    async fn find(&self, state: &AppState, key_id: Uuid) -> Result<Known<KeyFacts>, Problem> {
        let before = self.hear_changes();
        let look = async { state.store.system().await?.key_find(KeyId(key_id)).await };
        let known = self.keys.find(key_id, look).await?;
        // What was read while something changed may be from before; the next one reads it again.
        if self.hear_changes() != before {
            self.keys.forget(key_id).await;
        }
        Ok(known)
    }

    /// What is known of a tenant.
    pub(crate) async fn tenant(
        &self,
        state: &AppState,
        tenant: TenantId,
    ) -> Result<Option<Arc<TenantFacts>>, Problem> {
        let before = self.hear_changes();
        let look = async { state.store.system().await?.tenant_facts(tenant).await };
        let found = self.tenants.find(tenant.0, look).await?.found;
        if self.hear_changes() != before {
            self.tenants.forget(tenant.0).await;
        }
        Ok(found)
    }

    /// Notes in the background that a key was used, and with which secret.
    pub(crate) async fn touch(&self, state: &AppState, key_id: KeyId, secret_hash: [u8; 32]) {
        if self.touched.contains_key(&secret_hash) {
            return;
        }
        self.touched.insert(secret_hash, ()).await;
        let store = state.store.clone();
        tokio::spawn(async move {
            let noted = async {
                let mut tx = store.system().await?;
                tx.key_touch(key_id, &secret_hash).await?;
                tx.commit().await
            };
            if let Err(error) = noted.await {
                tracing::debug!(%error, "the use of a key was not noted");
            }
        });
    }
}

/// What all secrets of a key begin with: so it is found in a log, or where it leaked.
pub(crate) fn prefix(key_id: KeyId) -> String {
    format!("ans_{}_", key_id.0.simple())
}

/// A new secret of a key: its text, and what is stored of it.
pub(crate) fn make_key(key_id: KeyId) -> Result<(SecretString, [u8; 32]), Problem> {
    let mut secret = [0_u8; 32];
    getrandom::fill(&mut secret).map_err(|error| Problem::internal(error.to_string()))?;
    let text = format!("{}{}", prefix(key_id), URL_SAFE_NO_PAD.encode(secret));
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
        assert!(text.expose_secret().starts_with(&prefix(id)));
        for wrong in ["", "ans_", "ans__", "key", &"k".repeat(5000), &format!("{}=", text.expose_secret())] {
            assert_eq!(parse_key(wrong), None, "{wrong}");
        }
    }
}
