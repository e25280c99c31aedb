//! Envelope encryption of what tenants entrust: each value has a data key of its own, wrapped by the configured key. The
//! associated data bind it to tenant, name and version, so a row moved elsewhere can't be opened.

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Key, Nonce};
use secrecy::{ExposeSecret, SecretString};
use std::sync::Arc;

/// First byte of the sealed form.
const FORM: u8 = 1;
const NONCE: usize = 12;
const WRAPPED: usize = 32 + 16;

/// It can't be opened: another key, another place, or damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a stored secret can not be opened with the configured key")]
pub struct SealError;

/// Seals and opens. Clones share the key.
#[derive(Clone)]
pub struct Sealer {
    wrapping: Arc<Aes256Gcm>,
    links: Arc<[u8; 32]>,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer")
    }
}

impl Sealer {
    /// With the configured key.
    pub fn new(key: &[u8; 32]) -> Self {
        use sha2::{Digest, Sha256};
        let links = Sha256::new().chain_update(b"answerable decision links").chain_update(key).finalize();
        Self {
            wrapping: Arc::new(Aes256Gcm::new(&Key::<Aes256Gcm>::from(*key))),
            links: Arc::new(links.into()),
        }
    }

    /// The key that signs decision links: derived, so that neither tells the other.
    pub fn link_key(&self) -> &[u8; 32] {
        &self.links
    }

    /// Seals `value` for a place (`tenant/kind/name/version`).
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn seal(&self, place: &str, value: &SecretString) -> Result<Vec<u8>, SealError> {
        let mut random = [0_u8; 32 + 2 * NONCE];
        getrandom::fill(&mut random).map_err(|_| SealError)?;
        let (data_key, nonces) = random.split_at(32);
        let (wrap_nonce, data_nonce) = nonces.split_at(NONCE);
        let wrapped = seal_with(&self.wrapping, wrap_nonce, data_key, place)?;
        let data_cipher = Aes256Gcm::new_from_slice(data_key).map_err(|_| SealError)?;
        let body = seal_with(&data_cipher, data_nonce, value.expose_secret().as_bytes(), place)?;
        Ok([&[FORM], wrap_nonce, data_nonce, &wrapped, &body].concat())
    }

    /// Opens what was sealed for that place.
    ///
    /// # Errors
    /// Another key or place, or damage.
    pub fn open(&self, place: &str, sealed: &[u8]) -> Result<SecretString, SealError> {
        let (form, rest) = sealed.split_first().ok_or(SealError)?;
        if *form != FORM || rest.len() < 2 * NONCE + WRAPPED {
            return Err(SealError);
        }
        let (wrap_nonce, rest) = rest.split_at(NONCE);
        let (data_nonce, rest) = rest.split_at(NONCE);
        let (wrapped, body) = rest.split_at(WRAPPED);
        let data_key = open_with(&self.wrapping, wrap_nonce, wrapped, place)?;
        let data_cipher = Aes256Gcm::new_from_slice(&data_key).map_err(|_| SealError)?;
        let value = open_with(&data_cipher, data_nonce, body, place)?;
        String::from_utf8(value).map(SecretString::from).map_err(|_| SealError)
    }
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

fn nonce(bytes: &[u8]) -> Result<[u8; NONCE], SealError> {
    bytes.try_into().map_err(|_| SealError)
}

fn seal_with(cipher: &Aes256Gcm, at: &[u8], msg: &[u8], place: &str) -> Result<Vec<u8>, SealError> {
    let payload = Payload { msg, aad: place.as_bytes() };
    cipher.encrypt(&Nonce::from(nonce(at)?), payload).map_err(|_| SealError)
}

fn open_with(cipher: &Aes256Gcm, at: &[u8], msg: &[u8], place: &str) -> Result<Vec<u8>, SealError> {
    let payload = Payload { msg, aad: place.as_bytes() };
    cipher.decrypt(&Nonce::from(nonce(at)?), payload).map_err(|_| SealError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_in_its_place_alone() {
        let sealer = Sealer::new(&[7; 32]);
        let secret = SecretString::from("s3cret");
        let sealed = sealer.seal("ten_1/secret/shop/1", &secret).expect("sealed");
        assert!(!sealed.windows(6).any(|window| window == b"s3cret"));
        assert_eq!(sealer.open("ten_1/secret/shop/1", &sealed).expect("opens").expose_secret(), "s3cret");
        assert!(sealer.open("ten_2/secret/shop/1", &sealed).is_err());
        assert!(Sealer::new(&[8; 32]).open("ten_1/secret/shop/1", &sealed).is_err());
        assert_ne!(sealer.seal("ten_1/secret/shop/1", &secret).expect("sealed"), sealed);
        for end in 0..sealed.len() {
            assert!(sealer.open("ten_1/secret/shop/1", &sealed[..end]).is_err());
        }
    }
}
