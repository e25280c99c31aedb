//! Envelope encryption of what tenants entrust: each value has a data key of its own, wrapped by a configured key. The
//! associated data bind it to tenant, name and version, so a row moved elsewhere can't be opened.

mod envelope;
mod key;

use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

use envelope::{Envelope, WRAPPED, open_with, seal_with};
use key::WrappingKey;
pub use key::WrappingKeyId;

/// It can't be opened: another key, another place, or damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a stored secret can not be opened with the configured key")]
pub struct SealError;

/// Seals and opens. Clones share the keys.
#[derive(Clone)]
pub struct Sealer {
    /// The first seals; all of them open.
    keys: Arc<Vec<WrappingKey>>,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer")
    }
}

impl Sealer {
    /// With the configured key.
    pub fn new(key: &[u8; 32]) -> Self {
        Self::with_others(key, &[])
    }

    /// With the configured key, and others that only open.
    pub fn with_others(key: &[u8; 32], others: &[&[u8; 32]]) -> Self {
        let mut keys = vec![WrappingKey::new(key)];
        for other in others.iter().map(|other| WrappingKey::new(other)) {
            if keys.iter().all(|known| known.id != other.id) {
                keys.push(other);
            }
        }
        Self { keys: Arc::new(keys) }
    }

    /// The key that seals.
    fn own(&self) -> &WrappingKey {
        &self.keys[0]
    }

    /// The id of the key that seals.
    pub fn key_id(&self) -> WrappingKeyId {
        self.own().id
    }

    /// The ids of all keys.
    pub fn key_ids(&self) -> impl Iterator<Item = WrappingKeyId> {
        self.keys.iter().map(|key| key.id)
    }

    /// Whether a key of that id is configured.
    pub fn knows(&self, id: WrappingKeyId) -> bool {
        self.keys.iter().any(|key| key.id == id)
    }

    /// The key that signs decision links: derived, so that neither tells the other.
    pub fn link_key(&self) -> &[u8; 32] {
        &self.own().links
    }

    /// The keys under which a decision link may be signed.
    pub(crate) fn link_keys(&self) -> impl Iterator<Item = &[u8; 32]> {
        self.keys.iter().map(|key| &*key.links)
    }

    /// Seals `value` for a place (`tenant/kind/name/version`).
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn seal(&self, place: &str, value: &SecretString) -> Result<Vec<u8>, SealError> {
        let mut data_key = [0_u8; 32];
        let mut data_nonce = [0_u8; envelope::NONCE];
        getrandom::fill(&mut data_key).map_err(|_| SealError)?;
        getrandom::fill(&mut data_nonce).map_err(|_| SealError)?;
        let body =
            seal_with(&envelope::cipher(&data_key), &data_nonce, value.expose_secret().as_bytes(), place)?;
        self.wrap(place, &data_key, &data_nonce, &body)
    }

    /// Opens what was sealed for that place.
    ///
    /// # Errors
    /// Another key or place, or damage.
    pub fn open(&self, place: &str, sealed: &[u8]) -> Result<SecretString, SealError> {
        self.opened(place, &Envelope::parse(sealed)?).map(|opened| opened.value)
    }

    /// The id of the key that wraps what was sealed for that place.
    ///
    /// # Errors
    /// It can't be opened.
    pub fn wrapped_by(&self, place: &str, sealed: &[u8]) -> Result<WrappingKeyId, SealError> {
        self.opened(place, &Envelope::parse(sealed)?).map(|opened| opened.by.id)
    }

    /// The same value, wrapped by the key that seals; `None`: it is already.
    ///
    /// # Errors
    /// It can't be opened, or the system has no randomness.
    pub fn rewrap(&self, place: &str, sealed: &[u8]) -> Result<Option<Vec<u8>>, SealError> {
        let envelope = Envelope::parse(sealed)?;
        let opened = self.opened(place, &envelope)?;
        if opened.by.id == self.key_id() {
            return Ok(None);
        }
        self.wrap(place, &opened.data_key, envelope.data_nonce, envelope.body).map(Some)
    }

    /// A server that knows one key writes the form that servers of every version read. Those that know several are all of a
    /// version that reads the other.
    fn wrap(
        &self,
        place: &str,
        data_key: &[u8; 32],
        data_nonce: &[u8],
        body: &[u8],
    ) -> Result<Vec<u8>, SealError> {
        let mut wrap_nonce = [0_u8; envelope::NONCE];
        getrandom::fill(&mut wrap_nonce).map_err(|_| SealError)?;
        let wrapped = seal_with(&self.own().cipher, &wrap_nonce, data_key, place)?;
        debug_assert_eq!(wrapped.len(), WRAPPED);
        let key_id = (self.keys.len() > 1).then_some(self.key_id());
        let envelope = Envelope { key_id, wrap_nonce: &wrap_nonce, data_nonce, wrapped: &wrapped, body };
        Ok(envelope.to_bytes())
    }

    fn opened(&self, place: &str, envelope: &Envelope<'_>) -> Result<Opened<'_>, SealError> {
        let is_named = |key: &&WrappingKey| envelope.key_id.is_none_or(|id| id == key.id);
        let unwrapped = self.keys.iter().filter(is_named).find_map(|key| {
            let data_key = open_with(&key.cipher, envelope.wrap_nonce, envelope.wrapped, place).ok()?;
            Some((key, data_key))
        });
        let (by, data_key) = unwrapped.ok_or(SealError)?;
        let data_key: [u8; 32] = data_key.try_into().map_err(|_| SealError)?;
        let value = open_with(&envelope::cipher(&data_key), envelope.data_nonce, envelope.body, place)?;
        let value = String::from_utf8(value).map(SecretString::from).map_err(|_| SealError)?;
        Ok(Opened { by, data_key, value })
    }
}

struct Opened<'k> {
    by: &'k WrappingKey,
    data_key: [u8; 32],
    value: SecretString,
}

/// The id of the key that a sealed value names; `None`: it names none, or is damaged.
pub(crate) fn named_key(sealed: &[u8]) -> Option<WrappingKeyId> {
    Envelope::parse(sealed).ok()?.key_id
}

/// Where a sealed value belongs: `TENANT/KIND/NAME`, with `/VERSION` where it has versions.
pub(crate) fn place(
    tenant: answerable_core::id::TenantId,
    kind: &str,
    name: &str,
    version: Option<i32>,
) -> String {
    match version {
        Some(version) => format!("{tenant}/{kind}/{name}/{version}"),
        None => format!("{tenant}/{kind}/{name}"),
    }
}

#[cfg(test)]
mod tests;
